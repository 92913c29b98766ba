"""Call sites as text: the frames that are the program's, innermost first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tare.base.text import shortened

SHOWN_FRAMES = 3
LONGEST_FRAME = 48
"""Characters of a frame in the tables of call sites; that of stacks has more."""
_WRAPPER = re.compile(
    r"\w*(malloc|calloc|realloc|aligned_alloc|memalign)$"
    r"|operator new|(std::|__gnu_cxx::)(__)?(new_)?(allocator|allocator_traits)\b"
)
"""Functions that only hand on what another asks for, by their names."""


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
