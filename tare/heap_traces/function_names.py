"""Names of functions as people write them: `std::string::append` for what a linker calls
`std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char
const*)`."""

from __future__ import annotations

import functools
import re

_LONGEST = 20_000
_DEEPEST = 100
_NAMES_KEPT = 1 << 16

_COPY = re.compile(r"( \[clone [^\]]*\]|\.(cold|part|constprop|isra|lto_priv|llvm)(\.\d+)*)+$")
_VERSION = re.compile(r"@@?[\w.]+$")
_THUNK = re.compile(r"^(non-virtual|virtual|covariant return) thunk to ")
_ABI = re.compile(r"\[abi:\w+\]")
_INLINE_NAMESPACE = re.compile(r"\b(std|__gnu_cxx)::(__cxx11|__1|__ndk1|_V2)::")
_OPERATOR = re.compile(r"\boperator *(\(\)|<=>|->\*?|<<=?|>>=?|[<>]=?)( (?=<))?")
_LAMBDA = re.compile(r"\{lambda\([^{}]*\)#\d+\}")
_ANONYMOUS = "(anonymous namespace)"
_QUALIFIER = re.compile(r"( (const|volatile|noexcept)| ?&&?)+$")
_RUST = re.compile(r"::h[0-9a-f]{16}$")
_RUST_ESCAPES = {"$LT$": "<", "$GT$": ">", "$RF$": "&", "$BP$": "*", "$C$": ",", "$u20$": " ",
                 "$u7b$": "{", "$u7d$": "}", "..": "::"}  # fmt: skip
_NAME_BEFORE = re.compile(r"[\w:~$]*$")
_DEFAULT = re.compile(
    r"std::(allocator|char_traits|less|hash|equal_to|default_delete|pmr::polymorphic_allocator)<"
)
_CONTAINER_OF = {"std::stack": "std::deque<", "std::queue": "std::deque<",
                 "std::priority_queue": "std::vector<"}  # fmt: skip
_KINDS_OF_CHARACTER = {"char": "", "wchar_t": "w", "char8_t": "u8", "char16_t": "u16",
                       "char32_t": "u32"}  # fmt: skip
_OF_CHARACTERS = re.compile(
    r"std::basic_(?P<what>\w+)<(?P<kind>char|wchar_t|char8_t|char16_t|char32_t)>"
    r"(?P<made>::~?basic_(?P=what)\b)?"
)


def bare_name(name: str) -> str:
    """Without its parameters and the arguments of templates, two deep."""
    return re.sub(r"<[^<>]*>|\(.*\)", "", re.sub(r"<[^<>]*>", "", name))


@functools.lru_cache(_NAMES_KEPT)
def short_name(name: str) -> str:
    """Without parameters, return type, namespaces without a name, and the default arguments of the
    standard library's templates; a name that cannot be taken apart stays as it is."""
    if len(name) > _LONGEST or not ({*"(<:.[@"} & set(name)):
        return name
    if _RUST.search(name):
        return _of_rust(_RUST.sub("", name))
    text = _INLINE_NAMESPACE.sub(
        r"\1::", _ABI.sub("", _THUNK.sub("", _COPY.sub("", _VERSION.sub("", name))))
    )
    text = _LAMBDA.sub("{lambda}", text)
    # What is no bracket, out of the way of those that are.
    hidden: list[str] = []

    def hide(found: str) -> str:
        hidden.append(found)
        return chr(0xE000 + len(hidden) - 1)

    text = text.replace(f"{_ANONYMOUS}::", "").replace(_ANONYMOUS, hide(_ANONYMOUS))
    text = _OPERATOR.sub(lambda match: hide(match[0].rstrip()), text).replace("->", hide("->"))
    try:
        text = _types(_callee(text) if "(" in text else text)
    except ValueError:
        return name
    for number, found in enumerate(hidden):
        text = text.replace(chr(0xE000 + number), found)
    return text or name


def _of_rust(name: str) -> str:
    for escape, meant in _RUST_ESCAPES.items():
        name = name.replace(escape, meant)
    return name.removeprefix("_")


def _callee(text: str) -> str:
    """Without lists of parameters and without the type before."""
    kept, depth, opened = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "([{<":
            if depth == 0 and letter == "(":
                opened = place + 1
            depth += 1
        if not opened:
            kept.append(letter)
        if letter in ")]}>":
            depth -= 1
            if depth < 0:
                raise ValueError
            if depth == 0:
                opened = 0
    if depth:
        raise ValueError
    name = "".join(kept)
    name = re.sub(r" (const|volatile)(?=::)", "", _QUALIFIER.sub("", name))
    # A conversion is to a type, and new and delete have words of their own.
    operator = re.search(r"\boperator ", name)
    until = operator.start() if operator else len(name)
    depth, start = 0, 0
    for place, letter in enumerate(name[:until]):
        depth += (letter in "<{[") - (letter in ">}]")
        if letter == " " and depth == 0:
            start = place + 1
    return name[start:].lstrip("*&")


def _types(text: str, nesting: int = 0) -> str:
    if nesting > _DEEPEST:
        raise ValueError
    done, at = "", 0
    while (start := text.find("<", at)) >= 0:
        done += text[at:start]
        arguments, at = _arguments(text, start)
        shown = [_types(argument.strip(), nesting + 1) for argument in arguments]
        name = _NAME_BEFORE.search(done)
        template = name[0] if name else ""
        while len(shown) > 1 and template.startswith("std::") and _is_default(template, shown[-1]):
            shown.pop()
        done += f"<{', '.join(shown)}>"
    return _OF_CHARACTERS.sub(_of_characters, done + text[at:])


def _is_default(template: str, argument: str) -> bool:
    container = _CONTAINER_OF.get(template)
    return _DEFAULT.match(argument) is not None or (
        container is not None and argument.startswith(container)
    )


def _of_characters(match: re.Match[str]) -> str:
    written = _KINDS_OF_CHARACTER[match["kind"]] + match["what"]
    tilde = "~" if match["made"] and "~" in match["made"] else ""
    return f"std::{written}" + (f"::{tilde}{written}" if match["made"] else "")


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """Those of the template whose bracket opens at ``start``, and where what follows begins."""
    depth, begin, found = 0, start + 1, []
    for place in range(start, len(text)):
        letter = text[place]
        depth += (letter in "<([{") - (letter in ">)]}")
        if (letter == "," and depth == 1) or depth == 0:
            found.append(text[begin:place])
            begin = place + 1
        if depth == 0:
            return found, place + 1
    raise ValueError
