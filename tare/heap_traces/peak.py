"""The exact peak of the bytes held by objects that come and go, in bounded memory.

Objects are read once, in the order of their births. A sum of sizes can only rise at a birth, so a
peak is at one: the ends of earlier objects are put before the first birth that is not before them.
Ends that lie beyond the batch in hand wait in memory, and beyond ``MOST_WAITING`` of them in files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tare.base.files import writing
from tare.base.libraries import NDArray, np

Times: TypeAlias = "NDArray[np.uint64]"
Sizes: TypeAlias = "NDArray[np.int64]"

_ROW = [("time", "<u8"), ("size", "<i8")]
MOST_WAITING = 4 << 20
"""Ends that wait in memory, 16 bytes each."""


@dataclass(frozen=True)
class Peak:
    """``bytes`` held at most, first at the birth at ``time``; 0 at 0 when nothing was ever held."""

    bytes: int
    time: int


class PeakSweep:
    """Takes objects batch by batch. ``last_births`` is the time of the last birth of each batch,
    ascending. An object is held from its birth on, up to but not including its end; what ends at
    the moment of another's birth is gone by then."""

    def __init__(self, last_births: Times, most_waiting: int = MOST_WAITING) -> None:
        self._last_births = last_births
        self._waiting = Waiting(len(last_births), most_waiting)
        self._batch = 0
        self._held = 0
        self.peak = Peak(0, 0)

    def add(self, births: Times, ends: Times, sizes: Sizes) -> Sizes:
        """The next batch: times ascending by birth, no end before its birth, sizes in bytes. What
        is held at each of the births."""
        change = sizes.copy()
        due = np.searchsorted(self._last_births, ends, side="left")
        now = due <= self._batch  # earlier, where it ends at its own birth
        _take(change, births, ends[now], sizes[now])
        for part in self._waiting.of(self._batch):
            _take(change, births, part["time"], part["size"])
        later = (due > self._batch) & (due < len(self._last_births))
        rows = np.empty(int(later.sum()), _ROW)
        rows["time"], rows["size"] = ends[later], sizes[later]
        self._waiting.put(due[later], rows)
        held = self._held + np.cumsum(change)
        highest = int(held.argmax())
        if int(held[highest]) > self.peak.bytes:
            self.peak = Peak(int(held[highest]), int(births[highest]))
        self._held = int(held[-1])
        self._batch += 1
        return held

    def __enter__(self) -> PeakSweep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._waiting.close()


def _take(change: Sizes, births: Times, ends: Times, sizes: Sizes) -> None:
    """Subtract the sizes from the change at the first birth that is not before the end."""
    at = np.searchsorted(births, ends, side="left")
    change -= np.bincount(at, weights=sizes, minlength=len(births)).astype(np.int64)


class Waiting:
    """Rows of one type by the batch in which they are due."""

    def __init__(self, batches: int, most: int, row: Sequence[tuple[str, str]] = _ROW) -> None:
        self._row = np.dtype(list(row))
        self._parts: list[list[NDArray[np.void]]] = [[] for _ in range(batches)]
        self._most = most
        self._rows = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def put(self, due: NDArray[np.intp], rows: NDArray[np.void]) -> None:
        if not len(due):
            return
        order = np.argsort(due, kind="stable")
        batches, starts = np.unique(due[order], return_index=True)
        for batch, part in zip(batches, np.split(rows[order], starts[1:]), strict=True):
            self._parts[int(batch)].append(part)
        self._rows += len(rows)
        if self._rows > self._most:
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tare-peak-")
        with writing(Path(self._folder.name)):
            for batch, parts in enumerate(self._parts):
                if parts:
                    with self._file(batch).open("ab") as file:
                        for part in parts:
                            file.write(part.tobytes())
                    parts.clear()
        self._rows = 0

    def _file(self, batch: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / str(batch)

    def of(self, batch: int) -> Iterator[NDArray[np.void]]:
        """The rows due in ``batch``, in parts no larger than may wait in memory."""
        yield from self._parts[batch]
        self._rows -= sum(map(len, self._parts[batch]))
        self._parts[batch] = []
        if self._folder is None or not self._file(batch).exists():
            return
        with self._file(batch).open("rb") as file:
            while len(part := np.frombuffer(file.read(self._most * self._row.itemsize), self._row)):
                yield part
        self._file(batch).unlink()

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
