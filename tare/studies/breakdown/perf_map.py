"""Code that a process makes as it runs, as it tells of it in /tmp/perf-PID.map.

The file is the one that Linux's perf reads, a line for each piece of code: where it begins and how
long it is, in hexadecimal digits, and its name. JVMs write it as they end.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path("/tmp")
_LINE = re.compile(r"(?:0x)?([0-9a-f]{1,16}) (?:0x)?([0-9a-f]{1,16}) (.+)")
_MOST_BYTES = 1 << 28


class Piece(NamedTuple):
    """Code from ``start`` to before ``end``, by addresses in the process."""

    start: int
    end: int
    name: str


class Pieces:
    """All that a process has told of."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._pieces = sorted(pieces)
        self._starts = [piece.start for piece in self._pieces]
        self.names = {piece.start: [piece.name] for piece in self._pieces}

    def at(self, address: int) -> Piece | None:
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0 or address >= self._pieces[place].end:
            return None
        return self._pieces[place]


def path_of(pid: int) -> Path:
    """Where a process tells of its code."""
    return _FOLDER / f"perf-{pid}.map"


def take(pid: int, since: float) -> Pieces:
    """What a process of ours has told after the time ``since``, in seconds of the epoch; its file
    is removed. Nothing where there is no such file: anybody may write to that folder."""
    path = path_of(pid)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return Pieces(())
    with os.fdopen(file, encoding="utf-8", errors="replace") as lines:
        found = os.fstat(file)
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not is_ours or found.st_mtime < since or found.st_size > _MOST_BYTES:
            return Pieces(())
        pieces = Pieces(_pieces(lines))
    path.unlink(missing_ok=True)
    return pieces


def _pieces(lines: Iterable[str]) -> Iterable[Piece]:
    for line in lines:
        if (match := _LINE.fullmatch(line.rstrip("\n"))) is not None:
            start, length = int(match[1], 16), int(match[2], 16)
            if length:
                yield Piece(start, start + length, match[3])
