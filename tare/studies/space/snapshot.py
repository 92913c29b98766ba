"""Snapshots that the recorder took: which pages were resident, and what each mapping was.

observers/recorder/snapshots/format.hpp describes the files.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from tare.base.errors import TareError
from tare.base.libraries import NDArray, np

PAGE = 4096
PEAK = "peak"
TOUCHED_BYTES = 512 << 10
"""By which a peak that is shown may miss the highest resident memory, beside a share of it."""

_MAGIC = 0x31504E5345524154
_PART = struct.Struct("<II")
_MOMENT = struct.Struct("<7Q")
_KINDS = (
    "moment",
    "maps",
    "rollup",
    "resident",
    "own",
    "mapped",
    "threads",
    "start",
    "folder",
    "held",
    "end",
)
_FILE_LIMIT = 1 << 31
_MOST_MAPPINGS = 1 << 20
_FILE_NAME = re.compile(r"(?P<stem>\d{1,10}\.\d{1,10})\.snapshot\.(?P<name>peak|\d{1,9})")
_MAPS_LINE = re.compile(
    r"(?P<start>[0-9a-f]{1,16})-(?P<end>[0-9a-f]{1,16}) (?P<access>[-rwxsp]{4}) "
    r"[0-9a-f]+ [0-9a-f:]+ \d+(?: +(?P<name>.*))?"
)
_ROLLUP_LINE = re.compile(r"Rss: +(\d{1,15}) kB", re.MULTILINE)
_ADDRESS_LIMIT = 1 << 47
_ZEROS, _SWAPPED, _HUGE, _GUARD = 1, 2, 4, 8


@dataclass(frozen=True)
class Mapping:
    """A line of /proc/self/maps; ``name`` is a path, a word in brackets, or empty."""

    start: int
    end: int
    access: str
    name: str


@dataclass(frozen=True)
class Snapshot:
    """Addresses and bytes are int64. ``runs`` has a row (start, end) for each run of resident
    pages, ascending; ``own``, ``held``, ``start`` and ``guards``, which are pages without access
    within mappings that have it, are of the same form; ``mapped`` has the columns start, end,
    return address of the call, in the order of the calls. ``rss_bytes`` is what the kernel says by
    itself. ``time`` is in nanoseconds of the process, which begin at ``origin``: the middle of the
    snapshot. ``spent_seconds`` is for all snapshots up to this one; ``lowest_ratio`` is what a new
    peak had to exceed the last by. ``recording`` is the folder that the recorder wrote to: what it
    mapped from there is not the program's.
    """

    name: str
    origin: int
    time: int
    forked: bool
    spent_seconds: float
    lowest_ratio: float
    mappings: list[Mapping]
    rss_bytes: int
    swapped_bytes: int
    huge_bytes: int
    runs: NDArray[np.int64]
    guards: NDArray[np.int64]
    own: NDArray[np.int64]
    held: NDArray[np.int64]
    start: NDArray[np.int64]
    mapped: NDArray[np.int64]
    threads: NDArray[np.int64]
    recording: str = ""


@dataclass
class Snapshots:
    """Of one process image: its ``timeline``, in the order of time, and its ``peak``."""

    stem: str
    timeline: list[Snapshot] = field(default_factory=list)
    peak: Snapshot | None = None
    damage: list[str] = field(default_factory=list)


def read_snapshots(folder: Path) -> dict[str, Snapshots]:
    """All that a recording's folder holds, by the stem PID.SERIAL of the process image. A file
    that was cut off is left out, and named in ``damage``."""
    found: dict[str, Snapshots] = {}
    for path in folder.iterdir():
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            continue
        mine = found.setdefault(match["stem"], Snapshots(match["stem"]))
        try:
            snapshot = read_snapshot(path)
        except TareError as error:
            mine.damage.append(error.message)
            continue
        if snapshot.name == PEAK:
            mine.peak = snapshot
        else:
            mine.timeline.append(snapshot)
    for mine in found.values():
        mine.timeline.sort(key=lambda each: each.time)
    return found


def read_snapshot(path: Path) -> Snapshot:
    """One file. TareError where it is no snapshot, or its end is missing."""
    parts = _read_parts(path)
    moments = parts["moment"]
    if len(moments) < 2 * _MOMENT.size or _MOMENT.unpack_from(moments)[0] != _MAGIC:
        raise TareError(f"{path} is not a whole snapshot", "build Tare again")
    first = _MOMENT.unpack_from(moments)
    last = _MOMENT.unpack_from(moments, _MOMENT.size)
    starts, lengths, flags = _runs(path, parts["resident"])
    there = flags & (_ZEROS | _SWAPPED | _GUARD) == 0
    guards = flags & _GUARD > 0
    rss = _ROLLUP_LINE.search(parts["rollup"].decode(errors="replace"))
    return Snapshot(
        name=path.name.rpartition(".")[2],
        origin=first[1],
        time=(first[2] + max(last[3], first[2])) // 2,
        forked=first[4] == 1,
        spent_seconds=(first[5] + max(last[3], first[2]) - first[2]) / 1e9,
        lowest_ratio=first[6] / 1000,
        mappings=_read_maps(os.fsdecode(parts["maps"])),
        rss_bytes=1024 * int(rss[1]) if rss else 0,
        swapped_bytes=int(lengths[flags & _SWAPPED > 0].sum()),
        huge_bytes=int(lengths[there & (flags & _HUGE > 0)].sum()),
        runs=_as_ranges(starts[there], lengths[there]),
        guards=_as_ranges(starts[guards], lengths[guards]),
        own=_ranges(path, parts["own"]),
        held=_ranges(path, parts["held"]),
        start=_ranges(path, parts["start"]),
        mapped=_mapped(path, parts["mapped"]),
        threads=_words(parts["threads"]),
        recording=os.fsdecode(parts["folder"]),
    )


def _read_parts(path: Path) -> dict[str, bytes]:
    size = path.stat().st_size
    if size > _FILE_LIMIT:
        raise TareError(f"{path} is too large to be a snapshot")
    content = path.read_bytes()
    parts = {kind: bytearray() for kind in _KINDS}
    at = 0
    while at + _PART.size <= len(content):
        kind, length = _PART.unpack_from(content, at)
        at += _PART.size
        if not 1 <= kind <= len(_KINDS) or at + length > len(content):
            break
        name = _KINDS[kind - 1]
        parts[name] += content[at : at + length]
        at += length
        if name == "end" and at == len(content):
            return {name: bytes(part) for name, part in parts.items()}
    raise TareError(f"{path.name} is cut off or damaged")


def _words(part: bytes) -> NDArray[np.int64]:
    return np.frombuffer(part, "<i8", len(part) // 8).astype(np.int64)


def _rows(path: Path, part: bytes, columns: int) -> NDArray[np.int64]:
    if len(part) % (8 * columns):
        raise TareError(f"{path.name} is damaged")
    return _words(part).reshape(-1, columns)


def _checked(path: Path, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    bad = (starts < 0) | (lengths < 0) | (starts > _ADDRESS_LIMIT) | (lengths > _ADDRESS_LIMIT)
    if bad.any():
        raise TareError(f"{path.name} holds an impossible address")


def _as_ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([starts, starts + lengths], axis=1)


def _ranges(path: Path, part: bytes) -> NDArray[np.int64]:
    rows = _rows(path, part, 2)
    _checked(path, rows[:, 0], rows[:, 1])
    return _as_ranges(rows[:, 0], rows[:, 1])


def _mapped(path: Path, part: bytes) -> NDArray[np.int64]:
    rows = _rows(path, part, 3)
    _checked(path, rows[:, 0], rows[:, 1])
    return np.stack([rows[:, 0], rows[:, 0] + rows[:, 1], rows[:, 2]], axis=1)


def _runs(
    path: Path, part: bytes
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    rows = _rows(path, part, 2)
    starts, lengths, flags = rows[:, 0], rows[:, 1] & -PAGE, rows[:, 1] & (PAGE - 1)
    _checked(path, starts, lengths)
    if (starts % PAGE).any() or (np.diff(starts) < lengths[:-1]).any():
        raise TareError(f"{path.name}: its pages are not in order")
    return starts, lengths, flags


def _read_maps(text: str) -> list[Mapping]:
    mappings = []
    for line in text.splitlines()[:_MOST_MAPPINGS]:
        if match := _MAPS_LINE.fullmatch(line):
            start, end = int(match["start"], 16), int(match["end"], 16)
            if start < end <= _ADDRESS_LIMIT:
                mappings.append(Mapping(start, end, match["access"], match["name"] or ""))
    return mappings
