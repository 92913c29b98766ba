"""Call sites as text: the frames that are the program's, innermost first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tare.base.text import shortened
from tare.records.actions import Place

SHOWN_FRAMES = 3
LONGEST_FRAME = 48
"""Characters of a frame in the tables of call sites; that of stacks has more."""
_WRAPPER = re.compile(
    r"\w*(malloc|calloc|realloc|aligned_alloc|memalign)$"
    r"|operator new|(std::|__gnu_cxx::)(__)?(new_)?(allocator|allocator_traits)\b"
)
"""Functions that only hand on what another asks for, by their names."""
_STANDARD_NAME = re.compile(
    r"(std|__gnu_cxx|__cxxabiv1|core|alloc|<(core|alloc|std))::|(_IO|_dl|_GI|__libc|__cxa)_|_start$"
    r"|(str|wcs)n?dup$|(get|v?as)(line|delim|printf)$|f(d|mem|re)?open(64)?$|opendir$"
)
"""What the languages' own libraries define, which a static program has in its file."""
_STANDARD_OBJECT = re.compile(
    r"(ld|ld-linux.*|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libc\+\+(abi)?)[.-]"
)
_LIBRARY_FILE = re.compile(
    r"/usr/(include|lib)/|(.*/)?(bits|ext)/[^/]*$|.*/include/c\+\+/|/rustc/|.*/\.(cargo/registry|rustup)/"
)
_SYSTEM_LIBRARY = re.compile(r"(/usr)?/lib\w*/.*\.so(\.|$)")


def site_text(frames: Sequence[Mapping[str, Any]]) -> str:
    """``make (list.c:7) ← work ← main``: the innermost frames that are the program's."""
    texts = [
        shortened(frame_text(frame, with_place=not number), LONGEST_FRAME)
        for number, frame in enumerate(program_frames(frames)[:SHOWN_FRAMES])
    ]
    return " ← ".join(texts) or "not known"


def program_frames(frames: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The frames from the innermost on that is not one of an allocator, but for the last of all."""
    for number, frame in enumerate(frames):
        if not _WRAPPER.match(frame["function"] or ""):
            return frames[number:]
    return frames[-1:]


def place_of(frames: Sequence[Mapping[str, Any]]) -> Place | None:
    """The first frame of the program's own code; where there is none, that of a library that is not
    the language's own, else the innermost. None where no frame is known."""
    known = [frame for frame in program_frames(frames) if frame["function"] or frame["object"]]
    candidates = (
        *(frame for frame in known if not _is_library(frame)),
        *(frame for frame in known if not _is_standard(frame)),
        *known,
    )
    for frame in candidates:
        return Place(
            function=frame["function"] or frame_text(frame),
            file=frame["file"] or "",
            line=frame["line"] or 0,
            module=frame["object"] or "",
        )
    return None


def _is_standard(frame: Mapping[str, Any]) -> bool:
    name = (frame["object"] or "").rpartition("/")[2]
    return bool(_STANDARD_OBJECT.match(name) or _STANDARD_NAME.match(_callee(frame)))


def _is_library(frame: Mapping[str, Any]) -> bool:
    if _is_standard(frame):
        return True
    if frame["file"]:
        return bool(_LIBRARY_FILE.match(frame["file"]))
    return bool(_SYSTEM_LIBRARY.match(frame["object"] or ""))


def _callee(frame: Mapping[str, Any]) -> str:
    """The name of a function without the type that templates' names begin with."""
    name = frame["function"] or ""
    before, _, rest = name.partition(" ")
    return rest if rest and "<" not in before and "(" not in before else name


def frame_text(frame: Mapping[str, Any], *, with_place: bool = True) -> str:
    """``function (file:line)`` or, of what has no symbols, ``object+0x1234``."""
    name, place = frame["function"], ""
    where = frame["object"].rpartition("/")[2]
    if not name:
        offset = f"+{frame['offset']:#x}" if frame.get("offset") else ""
        return f"{where}{offset}" if where else "?"
    if frame["file"]:
        place = frame["file"].rpartition("/")[2] + (f":{frame['line']}" if frame["line"] else "")
    place = place or where
    return f"{name} ({place})" if place and with_place else name
