"""Call sites as text: the frames that are the program's, innermost first."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NotRequired, TypedDict

from tare.base.text import shortened
from tare.heap_traces.function_names import short_name
from tare.records.actions import LONGEST_FUNCTION, Place

SHOWN_FRAMES = 3
_cached = functools.lru_cache(1 << 16)
"""A trace has far fewer functions and files than stacks have frames."""
_WRAPPER = re.compile(
    r"\w*(malloc|calloc|realloc|aligned_alloc|memalign)$"
    r"|operator new|(std::|__gnu_cxx::)(__)?(new_)?(allocator|allocator_traits)\b"
)
"""Functions that only hand on what another asks for, by their names."""
_STANDARD_NAME = re.compile(
    r"(std|__gnu_cxx|__cxxabiv1)::|(_IO|_dl|__GI|__libc|__cxa)_|_start$"
    r"|(str|wcs)n?dup$|(get|v?as)(line|delim|printf)$|f(d|mem|re)?open(64)?$|opendir$"
)
"""What the languages' own libraries define, which a static program has in its file."""
_COPY = re.compile(r"(.*::)?clone(_from)?(<.*>)?(::h[0-9a-f]{16})?$")
_COPY_OF_RUST = re.compile(r"<.+ as (core|std)::clone::Clone>::clone")
"""What Rust mostly derives: the place to change is what asks for the copy."""
_OF_RUST = re.compile(r"[<_]*(\$LT\$)?(std|core|alloc)(::|\.\.).*::h[0-9a-f]{16}$")
_STANDARD_OBJECT = re.compile(
    r"(ld(-linux[\w-]*|-musl[\w-]*)?|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|c\+\+|c\+\+abi))"
    r"(-[\d.]+)?\.so(\.|$)|(lib)?python3\."
)
_START = re.compile(r"_start$|__libc_start_(call_)?main|\(below main\)$|clone3$")
_START_OF_THREAD = re.compile(r"clone$|start_thread$|thread_start$")
_FILE_OF_START = re.compile(r"$|.*\.S$|(.*/)?pthread_create\.c$")
"""Of the C library, or not known: programs have functions of these names, too."""
_LIBRARY_FILE = re.compile(
    r"/usr/(local/)?(include|lib)/|.*/include/c\+\+/|.*/(glibc|musl)-[^/]*/"
    r"|/rustc/|.*/rustc-[^/]*/(library|vendor)/|.*/\.(cargo/registry|rustup)/"
)
_STANDARD_FILE = re.compile(
    r"/rustc/|.*/rustc-[^/]*/(library|vendor)/|.*/\.rustup/|.*/include/c\+\+/|.*/(glibc|musl)-[^/]*/"
)
_PYTHON_LIBRARY = re.compile(r".*/lib/(python3(\.\d+)?/|python3\d+\.zip/)|<frozen ")
_PYTHON_PACKAGES = re.compile(
    r"(?P<prefix>.*)/lib/python3(\.\d+)?/(site|dist)-packages/(?P<package>[^/]*)"
)
_GENERATED_PYTHON = re.compile(r"<(?!string>|stdin>)")
"""The file of what a library compiles at run time, as decorators do. The others are of `-c`."""
_START_SCRIPT = re.compile(r"(?P<prefix>.*)/bin/[^/]+")
_SYSTEM_LIBRARY = re.compile(r"(/usr)?/lib\w*/.*\.so(\.|$)")
_INTERPRETER = re.compile(r"(.*/)?((lib)?python3\.[^/]*|node(js)?|libnode\.so[^/]*)")

Frame = Mapping[str, Any]
"""Of a trace or a record: function, object, file, line and offset."""


class RecordedFrame(TypedDict):
    """A ``Frame`` in the details of a record, as they are read."""

    function: str | None
    object: str | None
    file: str | None
    line: int | None
    offset: NotRequired[int | None]


def site_text(frames: Sequence[Frame]) -> str:
    """``make (list.c:7) ← work ← main``: the innermost frames of the program's own code, the first
    by the name of its place. Where that has no function, with the one of a library that it calls:
    ``app+0x1234 (setlocale)``."""
    own = own_frames(frames)[:SHOWN_FRAMES]
    if not own:
        return "not known"
    first, *callers = own
    text = _place(first).name
    if not first["function"] and (at := frames.index(first)):
        called = shortened(_name(frames[at - 1]), LONGEST_FUNCTION)
        text += f" ({called})" if called else ""
    names = (frame_text(frame, with_place=False) for frame in callers)
    return " ← ".join([text, *(shortened(name, LONGEST_FUNCTION) for name in names)])


def merged(sites: Iterable[Mapping[str, Any]], summed: Collection[str]) -> list[dict[str, Any]]:
    """One for all call sites that read alike, in the order of the first of each: with the sums of
    the entries ``summed``, and what else the first has, its ``frames`` among it."""
    found: dict[str, dict[str, Any]] = {}
    for site in sites:
        text = site_text(site["frames"])
        if (first := found.get(text)) is None:
            found[text] = dict(site)
        else:
            for name in summed:
                first[name] += site[name]
    return [*found.values()]


def stack_texts(frames: Sequence[Frame]) -> list[str]:
    """A text for each frame of the program's own code, and one for the libraries' between two: of
    the function that the own code calls. What called the program's outermost is left out."""
    texts: list[str] = []
    frames = from_main(frames)
    package = _own_package(frames)
    for is_library, group in groupby(frames, lambda frame: _is_library(frame, package)):
        run = list(group)
        if not is_library:
            texts += map(frame_text, run)
        elif run[-1] is not frames[-1] or not texts:
            inside = f" + {len(run) - 1} inside" if len(run) > 1 else ""
            texts.append(frame_text(run[-1]) + inside)
    return texts


def place_of(frames: Sequence[Frame]) -> Place | None:
    """The first frame of the program's own code; where there is none, that of a library that is not
    the language's own, else the innermost. None where no frame is known."""
    return next(places_of(frames), None)


def places_of(frames: Sequence[Frame]) -> Iterator[Place]:
    """That of ``place_of``, what called it, and so on."""
    for frame in own_frames(frames):
        if frame["function"] or frame["object"]:
            yield _place(frame)


def _place(frame: Frame) -> Place:
    return Place(
        function=frame_text(frame, with_place=False),
        file=frame["file"] or "",
        line=frame["line"] or 0,
        module=frame["object"] or "",
    )


def own_frames(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Those of the program's own code; where there are none, those of libraries other than the
    language's own, else all but those that hand on a request for memory."""
    found = program_frames(frames)
    package = _own_package(frames)
    own = [frame for frame in found if not _is_library(frame, package)]
    other = own or [frame for frame in found if not _is_standard(frame)]
    return other or [frame for frame in found if _is_python(frame)] or found


def program_frames(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The frames from the innermost on that is not one of an allocator, but for the last of all."""
    frames = from_main(frames)
    for number, frame in enumerate(frames):
        if _is_python(frame) or not _WRAPPER.match(_name(frame)):
            return frames[number:]
    return frames[-1:]


def from_main(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Without what runs before the program, or a thread of it, does."""
    functions = [frame["function"] or "" for frame in frames]
    after_main = functions.index("main") + 1 if "main" in functions else 1
    starts = (
        number
        for number in range(after_main, len(frames))
        if _is_start(functions[number], frames[number]["file"] or "")
    )
    return frames[: next(starts, None)]


@_cached
def _is_start(function: str, file: str) -> bool:
    if _START_OF_THREAD.match(function):
        return _FILE_OF_START.match(file) is not None
    return _START.match(function) is not None


def _is_python(frame: Frame) -> bool:
    """Of a Python program: in a file of its own, and in no object."""
    return bool(frame["file"] and not frame["object"])


def _name(frame: Frame) -> str:
    function = frame["function"] or ""
    return function if _is_python(frame) else short_name(function)


def is_of_system(module: str) -> bool:
    """Whether it is a library of the system."""
    return _SYSTEM_LIBRARY.match(module) is not None


def is_interpreter(module: str) -> bool:
    """Whether it runs programs whose own functions are none of its code."""
    return _INTERPRETER.fullmatch(module) is not None


@_cached
def _is_of_python(path: str) -> bool:
    """In Python's own library, and in no package that was installed beside it."""
    return bool(_PYTHON_LIBRARY.match(path) and not _PYTHON_PACKAGES.match(path))


def _is_standard(frame: Frame) -> bool:
    """Whether it is of the language's own libraries."""
    file = frame["file"] or ""
    if _lies_in_standard(frame["object"] or "", file):
        return True
    return not _is_python(frame) and bool(
        _STANDARD_FILE.match(file) or _is_named_standard(frame["function"] or "")
    )


def _own_package(frames: Sequence[Frame]) -> str:
    """The installed package of Python that is the program: a script that was installed with it
    starts it, or `python -m`. As the paths of its files begin; empty where there is none."""
    prefix = None
    for frame in reversed(frames):
        path = frame["file"] or ""
        if not _is_python(frame) or _is_of_python(path) or _GENERATED_PYTHON.match(path):
            continue
        if package := _PYTHON_PACKAGES.match(path):
            return package[0] if prefix in (None, package["prefix"]) else ""
        script = _START_SCRIPT.fullmatch(path)
        if prefix is not None or not script:
            return ""
        prefix = script["prefix"]
    return ""


def _is_library(frame: Frame, package: str) -> bool:
    return _is_in_library(
        frame["function"] or "", frame["object"] or "", frame["file"] or "", package
    )


@_cached
def _is_in_library(function: str, module: str, file: str, package: str) -> bool:
    """Of a frame; of Python where there is no ``module``, and not in the ``package`` that is the
    program."""
    if _lies_in_standard(module, file):
        return True
    if _PYTHON_LIBRARY.match(module or file):
        return not package or not ((module or file) + "/").startswith(package + "/")
    if file and not module:
        return _GENERATED_PYTHON.match(file) is not None
    if _COPY_OF_RUST.match(function) or (file.endswith(".rs") and _COPY.match(function)):
        return True
    if file:
        return _LIBRARY_FILE.match(file) is not None
    return _is_named_standard(function) or is_of_system(module)


@_cached
def _lies_in_standard(module: str, file: str) -> bool:
    return bool(_STANDARD_OBJECT.match(module.rpartition("/")[2]) or _is_of_python(module or file))


@_cached
def _is_named_standard(name: str) -> bool:
    return bool(_STANDARD_NAME.match(short_name(name)) or _OF_RUST.match(name))


def frame_text(frame: Frame, *, with_place: bool = True) -> str:
    """``function (file:line)`` or, of what has no symbols, ``object+0x1234``."""
    name, place = _name(frame), ""
    where = (frame["object"] or "").rpartition("/")[2]
    if not name:
        offset = f"+{frame['offset']:#x}" if frame.get("offset") else ""
        return f"{where}{offset}" if where else "?"
    if frame["file"]:
        place = frame["file"].rpartition("/")[2] + (f":{frame['line']}" if frame["line"] else "")
    place = place or where
    return f"{name} ({place})" if place and with_place else name
