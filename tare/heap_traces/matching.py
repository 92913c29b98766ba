"""Births matched with deaths and clocks, in temporary files, of which little is in memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tare.base.libraries import NDArray, np
from tare.heap_traces.recording import TABLES

_DEATH_COLUMNS = tuple(name for name in TABLES["deaths"] if name != "id")
_DEATH_BYTES = 8 * len(_DEATH_COLUMNS)
_CLOCK_BLOCK = 1 << 16
_CLOCK_BLOCKS_KEPT = 16


class BirthClock:
    """Tells the bytes clock from the instruction clock, by the births.

    The two clocks of all births go to a temporary file, in blocks; in memory are the first
    instruction of each block, and the few blocks that were looked into last.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._firsts: list[int] = []
        self._first_instructions: Any = None
        self._kept: dict[int, NDArray[np.uint64]] = {}
        self.rows = 0

    def __enter__(self) -> BirthClock:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, instructions: NDArray[np.uint64], bytes_: NDArray[np.uint64]) -> None:
        """Add births that follow those before; every batch but the last is whole blocks long."""
        for start in range(0, len(instructions), _CLOCK_BLOCK):
            part = slice(start, start + _CLOCK_BLOCK)
            self._firsts.append(int(instructions[start]))
            self._file.write(np.stack([instructions[part], bytes_[part]]).tobytes())
        self.rows += len(instructions)

    def close(self) -> None:
        """No births follow."""
        self._file.flush()
        self._first_instructions = np.array(self._firsts, np.uint64)

    def at(self, times: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The bytes clock at each of ``times``: that of the last birth up to then. 0 for 0."""
        result = np.zeros(len(times), np.uint64)
        if not times.any():  # uses were not recorded
            return result
        blocks = np.searchsorted(self._first_instructions, times, side="right") - 1
        blocks[times == 0] = -1
        wanted = np.unique(blocks)
        if len(wanted) <= _CLOCK_BLOCKS_KEPT:
            for block in wanted[wanted >= 0]:
                here = np.flatnonzero(blocks == block)
                result[here] = self._in_block(int(block), times[here])
            return result
        order = np.argsort(blocks, kind="stable")
        edges = np.append(np.searchsorted(blocks[order], wanted), len(blocks))
        for block, start, end in zip(wanted, edges[:-1], edges[1:], strict=True):
            if block >= 0:
                here = order[start:end]
                result[here] = self._in_block(int(block), times[here])
        return result

    def _in_block(self, block: int, times: NDArray[np.uint64]) -> NDArray[np.uint64]:
        instructions, bytes_ = self._block(block)
        found: NDArray[np.uint64] = bytes_[np.searchsorted(instructions, times, side="right") - 1]
        return found

    def _block(self, block: int) -> NDArray[np.uint64]:
        if block not in self._kept:
            if len(self._kept) >= _CLOCK_BLOCKS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            rows = min(_CLOCK_BLOCK, self.rows - block * _CLOCK_BLOCK)
            raw = os.pread(self._file.fileno(), 16 * rows, 16 * block * _CLOCK_BLOCK)
            self._kept[block] = np.frombuffer(raw, np.uint64).reshape(2, rows)
        return self._kept[block]


class Deaths:
    """The deaths of a process at the places of their objects: a file with a row of numbers for
    each object; 0 where nothing is known."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._mapped: mmap.mmap | None = None
        if rows:
            # A full disk has to show here: later it would end this process by a signal.
            os.posix_fallocate(self._file.fileno(), 0, rows * _DEATH_BYTES)
            self._mapped = mmap.mmap(self._file.fileno(), rows * _DEATH_BYTES)
            # Otherwise each touch of a page brings in, and maps, many around it.
            self._mapped.madvise(mmap.MADV_RANDOM)
        room: Any = self._mapped or b""
        self._table = np.frombuffer(room, np.uint64).reshape(rows, len(_DEATH_COLUMNS))

    def __enter__(self) -> Deaths:
        return self

    def __exit__(self, *_: object) -> None:
        del self._table  # a view keeps the file from being unmapped
        if self._mapped is not None:
            self._mapped.close()
        self._file.close()

    def put(self, batch: Mapping[str, NDArray[np.uint64]]) -> int:
        """Put a batch of deaths in place; how many are of objects that were not recorded."""
        ids = batch["id"]
        there = (ids >= 1) & (ids <= len(self._table))
        lost = len(ids) - int(np.count_nonzero(there))
        rows = np.stack([batch[name] for name in _DEATH_COLUMNS], axis=1)
        if lost:
            ids, rows = ids[there], rows[there]
        self._table[ids - np.uint64(1)] = rows
        if self._mapped is not None:
            # What was written stays in the file; only this process's share of memory shrinks.
            self._mapped.madvise(mmap.MADV_DONTNEED)
        return lost

    def part(self, start: int, rows: int) -> dict[str, NDArray[np.uint64]]:
        """The columns of ``rows`` objects from the one at ``start``."""
        raw = os.pread(self._file.fileno(), rows * _DEATH_BYTES, start * _DEATH_BYTES)
        table = np.frombuffer(raw, np.uint64).reshape(rows, len(_DEATH_COLUMNS))
        columns = np.array(table.T, order="C")
        return dict(zip(_DEATH_COLUMNS, columns, strict=True))
