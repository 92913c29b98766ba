"""Text from outside, made harmless: for tables, files, pages and a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

LONGEST_NAME = 90
FORMULA_STARTS = tuple("=+-@\t\r")
"""A text that begins with one a spreadsheet runs as a formula."""


def writable(text: str) -> str:
    """``text`` with what is no UTF-8, such as bytes of a command line, as escapes: half a character
    can be in no file and no table."""
    return text.encode(errors="backslashreplace").decode()


def visible(text: str) -> str:
    """``text`` with line breaks, control characters and marks of direction written out.

    Somebody else chose the names: one must not reorder the text around it, break a line, or be
    impossible to write in XML.
    """
    if text.isprintable():
        return text
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(
        character
        if character.isprintable()
        else escapes.get(character)
        or (" " if unicodedata.category(character) == "Zs" else f"\\u{{{ord(character):X}}}")
        for character in text
    )


def markdown_code(name: str) -> str:
    """A name as code, which neither formats nor mentions anybody, in a cell of a table."""
    name = visible(name)
    if "`" in name or not name.strip():
        entities = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in name)
        return f"<code>{entities}</code>"
    return "`" + name.replace("\\|", "\\\\|").replace("|", "\\|") + "`"


def sentence(text: str) -> str:
    """``text`` with a capital letter at its start, where a word stands there."""
    first = text.split(" ", 1)[0].rstrip(":,.")
    return f"{text[0].upper()}{text[1:]}" if first.isalpha() and first.islower() else text


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """The start and the end of a text that is too long: both tell names apart."""
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


def shortened_sentence(text: str, longest: int) -> str:
    """As ``shortened``, between words where there are some."""
    if len(text) <= longest:
        return text
    start, _, end = shortened(text, longest).partition("…")
    return f"{start.rpartition(' ')[0] or start} … {end.partition(' ')[2] or end}"


def printable(text: str) -> str:
    """``text`` without characters that would steer the terminal; a line break shows as ⏎."""
    return "".join(
        c if c.isprintable() else "⏎" if c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def plain(text: str) -> str:
    """``text``, a name from outside, as a harmless part of a file's name; different texts give
    different parts."""
    import hashlib

    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in text)[:40].strip("-.")
    return f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), words[-1]])
