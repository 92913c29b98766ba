"""The files that a process leaves whose calls of malloc were timed: histograms of ticks, read.

observers/latency/format.hpp describes them. A program may have written over them: whatever they
hold is checked.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.base.libraries import NDArray, np

ENDING = ".latency"
OPERATIONS = ("malloc", "calloc", "realloc", "aligned", "free")
SIZES = 18
"""Of what is asked for: up to 16 bytes, up to 32 … up to 1 MiB, and more. Frees have none."""
FAULTED, PREEMPTED, WAITED = 1, 2, 4
SHARE_PARTS = 10_000
"""A percentile is given in so many parts: 9,999 is p99.99."""

_MAGIC = b"TARELAT1"
_HEADER = struct.Struct("<8s8I7Q")
_HEADER_BYTES = 3 * 4096
_PATH_BYTES = 4096
_ROWS = 4 * SIZES + 1
_EXACT, _IN_POWER, _POWERS = 64, 32, 34
BUCKETS = _EXACT + _IN_POWER * _POWERS
_CAUSES = 8
_HEAD = 64
_SHARD_BYTES = -(-8 * (_HEAD + _ROWS * BUCKETS) // 4096) * 4096
_MOST_SHARDS = 16
_MOST_TICKS = 1 << 40
_MOST_CALLS = 1 << 40
"""In a bucket. More take half a day, and those of all buckets hold in 63 bits."""
_MOST_PROCESSES = 100_000


class UnreadableError(Exception):
    """A file that no process of Tare's leaves so."""


@dataclass(frozen=True)
class Process:
    """``servers`` are the files of the malloc and the free behind the clock. ``calls`` has a row
    for each operation and size, a column for each bucket; ``longest`` are ticks; ``long_calls`` are
    by operation and set of causes. ``ticks`` and ``nanoseconds`` are how long it was seen to run.
    ``empty_ticks`` are what two readings of the clock with nothing between them take."""

    pid: int
    servers: tuple[str, str]
    is_complete: bool
    empty_ticks: int
    ticks: int
    nanoseconds: int
    calls: NDArray[Any]
    longest: NDArray[Any]
    long_calls: NDArray[Any]


def read_process(path: Path) -> Process | None:
    """None where the process ended before it had written what it is. Raises UnreadableError."""
    most = _HEADER_BYTES + _MOST_SHARDS * _SHARD_BYTES
    with path.open("rb") as file:
        data = file.read(most + 1)
    if not any(data[: len(_MAGIC)]):
        return None
    shards, rest = divmod(len(data) - _HEADER_BYTES, _SHARD_BYTES)
    if shards < 1:
        raise UnreadableError(f"{path.name} has been cut off")
    magic, *numbers = _HEADER.unpack_from(data)
    pid, _, _, _, rows, buckets, incomplete, _, shard_bytes, *ticks = numbers
    shape = (_MAGIC, _ROWS, BUCKETS, _SHARD_BYTES)
    if (magic, rows, buckets, shard_bytes) != shape or rest or len(data) > most:
        raise UnreadableError(
            f"{path.name} is not of this Tare, or the program has written over it"
        )
    empty, _, start, start_ns, end, end_ns = ticks
    words = np.frombuffer(data, "<u8", offset=_HEADER_BYTES).reshape(shards, -1)
    sums, whole = words[:, 5:45].reshape(shards, 5, _CAUSES), words[:, _HEAD:][:, : _ROWS * BUCKETS]
    counts = max(int(sums.max()), int(whole.max()))
    if counts > _MOST_CALLS or empty > _MOST_TICKS or not (start < end and start_ns < end_ns):
        raise UnreadableError(f"{path.name} holds counts or times that cannot be")
    return Process(
        pid=pid,
        servers=(_name(data, 0), _name(data, 1)),
        is_complete=incomplete == 0,
        empty_ticks=empty,
        ticks=end - start,
        nanoseconds=end_ns - start_ns,
        calls=whole.sum(axis=0, dtype=np.int64).reshape(_ROWS, BUCKETS),
        longest=np.minimum(words[:, :5].max(axis=0), np.uint64(1 << 62)).astype(np.int64),
        long_calls=sums.sum(axis=0, dtype=np.int64),
    )


def _name(data: bytes, number: int) -> str:
    at = _HEADER.size + number * _PATH_BYTES
    return os.fsdecode(data[at : at + _PATH_BYTES].split(b"\0")[0])


def read_folder(folder: Path) -> Histograms:
    """Of the processes that left a file there. Raises UnreadableError."""
    paths = sorted(folder.glob(f"*{ENDING}"))
    if len(paths) > _MOST_PROCESSES:
        raise UnreadableError(f"{len(paths)} processes are more than can be read")
    found = Histograms()
    for path in paths:
        if (process := read_process(path)) is not None:
            found.add(process)
    return found


class Histograms:
    """The calls of all processes of a run."""

    def __init__(self) -> None:
        self.servers: list[tuple[int, str]] = []
        """Each process, with a file that served it."""
        self.is_complete = True
        self.long_calls: NDArray[Any] = np.zeros((len(OPERATIONS), _CAUSES), np.int64)
        """By operation and set of causes."""
        self._calls: NDArray[Any] = np.zeros((_ROWS, BUCKETS), np.int64)
        self._longest: NDArray[Any] = np.zeros(len(OPERATIONS), np.int64)
        self._empty = _MOST_TICKS
        self._ticks, self._nanoseconds = 1, 1
        self._total = 0

    def add(self, process: Process) -> None:
        """Raises UnreadableError where that are more calls than can be."""
        self._total += int(process.calls.sum()) + int(process.long_calls.sum())
        if self._total >= 1 << 63:
            raise UnreadableError("the processes hold more calls than can be")
        self.servers += [(process.pid, server) for server in process.servers]
        self.is_complete = self.is_complete and process.is_complete
        self.long_calls += process.long_calls
        self._calls += process.calls
        np.maximum(self._longest, process.longest, out=self._longest)
        self._empty = min(self._empty, process.empty_ticks)
        # One clock for all: the longest look at it tells best how fast it is.
        if process.nanoseconds > self._nanoseconds:
            self._ticks, self._nanoseconds = process.ticks, process.nanoseconds

    @property
    def clock_seconds(self) -> float:
        """What reading the clock takes, which is not in any time."""
        return self._empty * self._nanoseconds / self._ticks / 1e9

    def calls(self, operation: str, size: int | None = None) -> NDArray[Any]:
        """By bucket."""
        first = OPERATIONS.index(operation) * SIZES
        last = first + (1 if operation == "free" else SIZES)
        rows = self._calls[first:last] if size is None else self._calls[first + size][None]
        return rows.sum(axis=0)  # type: ignore[no-any-return]

    def longest(self, operation: str) -> float:
        """Seconds."""
        return self.seconds(float(self._longest[OPERATIONS.index(operation)]))

    def percentile(self, operation: str, parts: int, size: int | None = None) -> float | None:
        """Seconds that ``parts`` of SHARE_PARTS of the calls take at most, within 1/64; None of too
        few calls for one to be left beyond."""
        calls = self.calls(operation, size)
        total = int(calls.sum())
        if total * (SHARE_PARTS - parts) < SHARE_PARTS:
            return None
        rank = -(-total * parts // SHARE_PARTS)
        bucket = int(np.searchsorted(np.cumsum(calls), rank))
        return min(self.seconds(middle(bucket)), self.longest(operation))

    def seconds(self, ticks: float) -> float:
        """Without what reading the clock takes."""
        return max(ticks - self._empty, 1.0) * self._nanoseconds / self._ticks / 1e9


def middle(bucket: int) -> float:
    """Of the ticks that are counted in a bucket."""
    if bucket < _EXACT:
        return float(bucket)
    power, part = divmod(bucket - _EXACT, _IN_POWER)
    width = 1 << (power + 1)
    return (_IN_POWER + part) * width + (width - 1) / 2
