"""Names and lines for places in programs and libraries, by addr2line and nm of binutils.

addr2line takes the nearest symbol before a place for its function, whether the function reaches as
far or not. So where a file has no debug information, the sizes of its symbols decide.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tare.heap_traces.recording import Frame

_TOOL, _LISTER = "addr2line", "nm"
_TIMEOUT_SECONDS = 300.0
_MOST_AT_ONCE = 1 << 14
MOST_INLINED = 100
LONGEST_NAME = 4096
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_SYMBOL = re.compile(r"(?P<start>[0-9a-f]+) (?P<size>[0-9a-f]+) [tTwWi] (?P<name>[^@]+)(@.*)?")
_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d+|\?)( \(discriminator \d+\))?")


def frames_at(path: str, offsets: Sequence[int]) -> list[list[Frame]]:
    """The frames of return addresses in the file ``path``, given from its start: of each, the
    innermost first, those that have it inlined after it. Where the file is not there any more, or
    addr2line is not, they have no names."""
    plain = [[Frame(object=path, offset=offset)] for offset in offsets]
    tool = shutil.which(_TOOL)
    if tool is None or not _is_program(Path(path)):
        return plain
    found = []
    for start in range(0, len(plain), _MOST_AT_ONCE):
        part = offsets[start : start + _MOST_AT_ONCE]
        named = list(_ask(tool, path, part))
        found += named if len(named) == len(part) else plain[start : start + _MOST_AT_ONCE]
    if any(not frames[0].file for frames in found):
        symbols = _Symbols.of(path)
        found = [
            frames
            if frames[0].file
            else [replace(frames[0], function=symbols.at(frames[0].offset))]
            for frames in found
        ]
    return found


@dataclass(frozen=True)
class _Symbols:
    """The functions of a file, by where they start."""

    starts: list[int]
    ends: list[int]
    names: list[str]

    @classmethod
    def of(cls, path: str) -> _Symbols:
        rows: list[tuple[int, int, str]] = []
        words = [_LISTER, "--print-size", "--defined-only", "--demangle"]
        for line in _answer([*words, path], b"") + _answer([*words, "--dynamic", path], b""):
            if (match := _SYMBOL.fullmatch(line)) is not None:
                start, size = int(match["start"], 16), int(match["size"], 16)
                rows.append((start, start + size, match["name"]))
        rows.sort()
        return (
            cls(*(list(column) for column in zip(*rows, strict=True))) if rows else cls([], [], [])
        )

    def at(self, offset: int) -> str:
        """The function that a call lies in of which ``offset`` is the return address."""
        place = bisect_left(self.starts, offset) - 1
        if place < 0 or offset > self.ends[place]:
            return ""
        return self.names[place][:LONGEST_NAME]


def _is_program(path: Path) -> bool:
    try:
        if not path.is_absolute() or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _ask(tool: str, path: str, offsets: Sequence[int]) -> Iterator[list[Frame]]:
    """A return address is that of the next instruction, so the byte before it is asked for."""
    words = [tool, "--addresses", "--functions", "--inlines", "--demangle", "--exe", path]
    asked = "".join(f"{max(offset - 1, 0):#x}\n" for offset in offsets)
    lines = _answer(words, asked.encode())
    at = 0
    for offset in offsets:
        frames: list[Frame] = []
        at += 1
        while at + 1 < len(lines) and not _ADDRESS.fullmatch(lines[at]):
            if len(frames) < MOST_INLINED:
                frames.append(_frame(path, offset, lines[at], lines[at + 1]))
            at += 2
        if not frames:
            return
        yield frames


def _answer(words: Sequence[str], text: bytes) -> list[str]:
    """The lines that a program prints; none where it cannot be run."""
    try:
        answer = subprocess.run(words, input=text, capture_output=True, timeout=_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.decode("utf-8", errors="replace").splitlines()


def _frame(path: str, offset: int, function: str, place: str) -> Frame:
    match = _PLACE.fullmatch(place)
    file, line = (match["file"], match["line"]) if match else ("", "?")
    return Frame(
        function="" if function == "??" else function[:LONGEST_NAME],
        object=path,
        file="" if file == "??" else file[:LONGEST_NAME],
        line=int(line) if line.isdigit() and int(line) < 1 << 32 else 0,
        offset=offset,
    )
