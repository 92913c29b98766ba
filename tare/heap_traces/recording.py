"""A raw recording, of the instrument or the recorder: a JSON file and tables for each process, read
in a stream.

A process may be killed at any moment, so the end of every table may be missing: what comes before
is read, and what is wrong with the rest is said.

Each program that a process ran leaves PID.SERIAL.json, a table PID.SERIAL.NAME for each name in
``TABLES``, and PID.SERIAL.frames with a line of JSON for each frame. Some observers leave out some
tables. observers/tables/block.h describes the bytes of a table.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tare.base.errors import TareError
from tare.base.libraries import NDArray, np
from tare.base.text import writable

FORMAT, FORMAT_VERSION = "tare-recording", 1
TABLES: dict[str, tuple[str, ...]] = {
    "births": tuple(
        "instructions nanoseconds bytes size usable_size alignment operation thread site "
        "resized_from address region".split()
    ),
    "deaths": (
        "id",
        "first_use",
        "last_use",
        "before_teardown",
        "unreachable_instructions",
        "unreachable_bytes",
        "free_instructions",
        "free_nanoseconds",
        "free_bytes",
        "free_thread",
        "free_site",
        "free_operation",
        "touched",
    ),
    "sites": ("caller", "frame", "address"),
    "pointers": ("instructions", "source", "offset", "target"),
    "references": ("source", "target"),
    "marks": (
        "instructions",
        "bytes",
        "live_objects",
        "live_bytes",
        "reachable_objects",
        "reachable_bytes",
    ),
    "switches": ("nanoseconds", "bytes", "off"),
    "regions": (
        "region",
        "parent",
        "site",
        "created_nanoseconds",
        "created_bytes",
        "destroyed_nanoseconds",
        "destroyed_bytes",
        "clears",
    ),
    "costs": ("site", "operation", "calls", "instructions", "bytes"),
}
"""Columns of each table, all of them unsigned integers of up to 64 bits."""
_SEEN_BY_SOME = frozenset(
    "instructions nanoseconds address first_use last_use before_teardown unreachable_instructions "
    "unreachable_bytes free_instructions free_nanoseconds free_thread free_site free_operation "
    "touched region created_nanoseconds destroyed_nanoseconds".split()
)
"""Columns that a table may lack; they read as 0."""
BATCH_ROWS = 1 << 17

_BLOCK = struct.Struct("<IIII")
_COLUMN = struct.Struct("<QQ")
BLOCK_MAGIC = 0x324B4C42
_MOST_BLOCK_ROWS = 1 << 16
_FIRST_LINE_LIMIT = 4096
_WIDEST = 8
_JSON_LIMIT = 1 << 20
_MOST_PROCESSES = 100_000
_MOST_FRAMES = 4_000_000
_LINE_LIMIT = 1 << 16
_NAME_LIMIT = 4096
_MOST_TEXTS = 100
_ENDS = ("running", "exit", "exec", "left")
_FILE_NAME = re.compile(r"(\d{1,10})\.(\d{1,10})\.json")
_NUMBERS = (
    "parent",
    "instructions",
    "nanoseconds",
    "allocated_bytes",
    "max_live_bytes",
    "objects",
    "threads",
    "unknown_frees",
    "inherited_frees",
)

Columns = dict[str, "NDArray[np.uint64]"]


@dataclass(frozen=True)
class Process:
    """One program image of a process. ``end`` is ``exit``, ``exec``, ``left`` where it went on
    unobserved, or ``running`` where it did not live to write its end; then the instrument's numbers
    are 0. ``damage`` says in sentences what the observer itself knows to be missing."""

    pid: int
    serial: int
    stem: Path
    program: str
    end: str
    numbers: Mapping[str, int]
    damage: tuple[str, ...] = ()

    def table(self, name: str) -> Path:
        """The file of one of its tables; it need not exist."""
        return self.stem.with_name(f"{self.stem.name}.{name}")


@dataclass(frozen=True)
class Frame:
    """A place in a program. Empty text and 0 are not known; ``offset`` is from the start of the
    object file, in bytes."""

    function: str = ""
    object: str = ""
    file: str = ""
    line: int = 0
    offset: int = 0


def read_processes(folder: Path) -> list[Process]:
    """All processes of a recording, parents before their children, then by process number."""
    found = [
        _read_process(path, int(match[1]), int(match[2]))
        for path in folder.glob("*.json")
        if (match := _FILE_NAME.fullmatch(path.name))
    ]
    if len(found) > _MOST_PROCESSES:
        raise TareError(f"{len(found)} processes are more than a trace can hold")
    parents = {process.pid: process.numbers["parent"] for process in found}

    def depth(pid: int) -> int:
        steps = 0
        while pid in parents and steps < len(parents):
            pid, steps = parents[pid], steps + 1
        return steps

    return sorted(found, key=lambda process: (depth(process.pid), process.pid, process.serial))


def _read_process(path: Path, pid: int, serial: int) -> Process:
    """A file that was cut off by the end of its process is as good as one of a running process."""
    with path.open("rb") as file:
        text = file.read(_JSON_LIMIT)
    try:
        raw = json.loads(text)
    except ValueError:
        raw = {}
    if not isinstance(raw, dict):
        raw = {}
    if raw and (raw.get("format") != FORMAT or raw.get("version") != FORMAT_VERSION):
        raise TareError(f"{path} is from another version of the instrument", "build Tare again")
    end, program = raw.get("end"), raw.get("program")
    return Process(
        pid=pid,
        serial=serial,
        stem=path.with_suffix(""),
        program=program[:_NAME_LIMIT] if isinstance(program, str) else "",
        end=end if end in _ENDS else "running",
        numbers={name: _number(raw.get(name)) for name in _NUMBERS},
        damage=_texts(raw.get("damage")),
    )


def _texts(value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else []
    return tuple(text[:_NAME_LIMIT] for text in texts[:_MOST_TEXTS] if isinstance(text, str))


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 64 else 0


class TableReader:
    """A table as batches of columns: iterate over it, once.

    Every batch but the last has ``batch_rows`` rows; a batch maps the names in ``wanted`` to arrays
    of uint64 of the same length, which belong to the caller. Afterwards ``rows`` is the number of
    rows read, and ``damage`` says why the table ended before its end, if it did. A table whose file
    is missing has no rows.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        wanted: Sequence[str] = (),
        batch_rows: int | None = None,
    ) -> None:
        self.path = path
        self.rows = 0
        self.damage = ""
        self._name = name
        self._wanted = tuple(wanted) or TABLES[name]
        self._batch_rows = batch_rows or BATCH_ROWS

    def __iter__(self) -> Iterator[Columns]:
        if not self.path.exists():
            return
        with self.path.open("rb", buffering=1 << 20) as file:
            stored = self._read_first_line(file)
            if self.damage:
                return
            places = {name: stored.index(name) for name in self._wanted if name in stored}
            buffers = self._buffers()
            filled = 0
            while (block := self._read_block(file, len(stored))) is not None:
                rows, payload = block
                bases = [_COLUMN.unpack_from(payload, 16 * i) for i in range(len(stored))]
                ends = np.cumsum([16 * len(stored), *(width * rows for _, width in bases)])
                for name, place in places.items():
                    base, width = bases[place]
                    target = buffers[name][filled : filled + rows]
                    _decode(payload, int(ends[place]), base, width, target)
                filled += rows
                self.rows += rows
                while filled >= self._batch_rows:
                    full, buffers = buffers, self._buffers()
                    filled -= self._batch_rows
                    for name, values in full.items():
                        rest = values[self._batch_rows : self._batch_rows + filled]
                        buffers[name][:filled] = rest
                    yield {name: values[: self._batch_rows] for name, values in full.items()}
            if filled:
                yield {name: values[:filled] for name, values in buffers.items()}

    def _buffers(self) -> Columns:
        room = self._batch_rows + _MOST_BLOCK_ROWS
        return {name: np.zeros(room, np.uint64) for name in self._wanted}

    def _read_first_line(self, file: BinaryIO) -> list[str]:
        line = file.readline(_FIRST_LINE_LIMIT)
        if not line.endswith(b"\n"):
            self.damage = "its first line is cut off"
            return []
        words = line.decode("ascii", errors="replace").split()
        if words[:3] != ["tare-table", "1", self._name]:
            raise TareError(f"{self.path} is not a table of {self._name}", "build Tare again")
        stored = words[3:]
        if missing := [name for name in self._wanted if name not in {*stored, *_SEEN_BY_SOME}]:
            raise TareError(f"{self.path} has no column {missing[0]}", "build Tare again")
        return stored

    def _read_block(self, file: BinaryIO, columns: int) -> tuple[int, bytes] | None:
        """The next block's number of rows and payload; None at the end or where it is damaged."""
        header = file.read(_BLOCK.size)
        if not header:
            return None
        if len(header) < _BLOCK.size:
            self.damage = "its last block is cut off"
            return None
        magic, rows, size, checksum = _BLOCK.unpack(header)
        most = columns * (_COLUMN.size + rows * _WIDEST)
        if magic != BLOCK_MAGIC or not 1 <= rows <= _MOST_BLOCK_ROWS or size > most:
            self.damage = f"what follows row {self.rows} is not a block"
            return None
        payload = file.read(size)
        if len(payload) < size:
            self.damage = "its last block is cut off"
            return None
        if block_checksum(payload) != checksum:
            self.damage = f"the block after row {self.rows} has a wrong checksum"
            return None
        if not _widths_fit(payload, columns, rows):
            self.damage = f"the block after row {self.rows} is not as long as its columns"
            return None
        return rows, payload


def block_checksum(payload: bytes) -> int:
    """The sum of the payload's 64-bit words, the last one filled up with zeros, folded to 32
    bits."""
    whole = len(payload) // 8
    sum_ = int(np.frombuffer(payload, "<u8", whole).sum(dtype=np.uint64))
    sum_ = (sum_ + int.from_bytes(payload[8 * whole :], "little")) & ((1 << 64) - 1)
    return (sum_ ^ sum_ >> 32) & ((1 << 32) - 1)


def _widths_fit(payload: bytes, columns: int, rows: int) -> bool:
    if len(payload) < columns * _COLUMN.size:
        return False
    widths = [_COLUMN.unpack_from(payload, 16 * i)[1] for i in range(columns)]
    size = columns * _COLUMN.size + rows * sum(widths)
    return bool(max(widths) <= _WIDEST and len(payload) == size)


def _decode(payload: bytes, offset: int, base: int, width: int, target: NDArray[np.uint64]) -> None:
    """``target`` = ``base`` + the unsigned numbers of ``width`` bytes at ``offset``."""
    rows = len(target)
    if width == 0:
        target[:] = base
        return
    if width in (1, 2, 4, 8):
        stored = np.frombuffer(payload, f"<u{width}", rows, offset)
    else:
        whole = np.zeros((rows, 4 if width == 3 else 8), np.uint8)
        parts = np.frombuffer(payload, np.uint8, rows * width, offset)
        whole[:, :width] = parts.reshape(rows, width)
        stored = whole.view("<u4" if width == 3 else "<u8").ravel()
    np.add(stored, np.uint64(base), out=target, dtype=np.uint64, casting="unsafe")


def read_frames(path: Path) -> tuple[list[Frame], str]:
    """The frames of a process, in order, and why they end too soon, if they do."""
    frames: list[Frame] = []
    if not path.exists():
        return frames, ""
    with path.open("rb") as file:
        while line := file.readline(_LINE_LIMIT):
            frame = _read_frame(line)
            if frame is None:
                return frames, f"its line {len(frames) + 1} is cut off or damaged"
            if len(frames) == _MOST_FRAMES:
                return frames, f"it has more than {_MOST_FRAMES} lines"
            frames.append(frame)
    return frames, ""


def _read_frame(line: bytes) -> Frame | None:
    try:
        raw = json.loads(line.decode(errors="replace")) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    texts = (raw.get(name) for name in ("function", "object", "file"))
    function, object_, source = (
        writable(text)[:_NAME_LIMIT] if isinstance(text, str) else "" for text in texts
    )
    line_number = _number(raw.get("line"))
    if line_number >= 1 << 32:
        line_number = 0
    return Frame(function, object_, source, line_number, _number(raw.get("offset")))
