"""From allocations and frees in their order to the births and deaths of a raw recording.

A free names what it frees by a key, an address say. The frees of a batch are put to their
allocations by sorting; what outlives its batch waits in memory, 24 bytes an object.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tare.base.libraries import NDArray, np
from tare.heap_traces import recording
from tare.heap_traces.recording import BLOCK_MAGIC, Frame, block_checksum
from tare.heap_traces.trace import OPERATIONS
from tare.importing.lines import Numbers

BATCH_EVENTS = 1 << 19
MOST_BYTES = 1 << 48
"""Of one object: more cannot be in the memory of a process."""
_BLOCK_ROWS = 1 << 16
_WIDTHS = (1, 2, 4, 8)
_MALLOC, _REALLOC = OPERATIONS.index("malloc"), OPERATIONS.index("realloc")


@dataclass(frozen=True)
class Events:
    """Allocations (``births``) and frees in their order, as arrays of one length. Of a free,
    ``sizes`` and ``sites`` are 0. ``moved`` are the births that a realloc made of what the free
    right before them ends. ``addresses`` are 0 where they are not known. ``times`` are nanoseconds,
    each above the one before."""

    births: NDArray[np.bool_]
    keys: Numbers
    sizes: Numbers
    sites: Numbers
    moved: NDArray[np.bool_]
    addresses: Numbers
    times: Numbers

    def __len__(self) -> int:
        return len(self.births)

    @classmethod
    def joined(cls, parts: list[Events]) -> Events:
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class Facts:
    """What a recording says of its run. ``observer`` is the tool that recorded, with its version;
    ``missing`` says what is not there of the run, and why, if so; ``notes`` are sentences on what
    the format never has."""

    observer: str
    command: str
    executable: str
    missing: str
    has_addresses: bool
    notes: Sequence[str]


class RecordingWriter:
    """Writes the raw recording of one process into ``folder``; a context manager."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._folder = folder
        self._pid = pid
        self._tables = {name: _RawTable(self._path(name), name) for name in recording.TABLES}
        self._waiting: list[Events] = []
        self._live = _Live()
        self._last_ended = np.zeros((2, 1), np.uint64)
        self._live_bytes = 0
        self._now = 0
        self.objects = 0
        self.allocated_bytes = 0
        self.max_live_bytes = 0
        self.unknown_frees = 0

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._pid}.0.{name}"

    def add_events(self, events: Events, now: int) -> None:
        """What happened next, until ``now``."""
        self._waiting.append(events)
        self._now = now
        if sum(map(len, self._waiting)) >= BATCH_EVENTS:
            self._write_events()

    def add_sites(self, callers: Numbers, frames: Numbers, addresses: Numbers) -> None:
        """Call sites, after those before: the number of the caller's, of its frame and its
        address."""
        self._tables["sites"].write({"caller": callers, "frame": frames, "address": addresses})

    def add_frames(self, frames: Iterable[Frame]) -> None:
        """All frames, the first is number 0."""
        with self._path("frames").open("w", encoding="utf-8") as file:
            for frame in frames:
                file.write(json.dumps(vars(frame)) + "\n")

    def finish(self, program: str, *, whole: bool) -> None:
        """Nothing follows; not ``whole`` is one of which the end is missing."""
        self._write_events()
        numbers = {
            "parent": 0,
            "nanoseconds": self._now,
            "allocated_bytes": self.allocated_bytes,
            "max_live_bytes": self.max_live_bytes,
            "objects": self.objects,
            "threads": 0,
            "unknown_frees": self.unknown_frees,
            "inherited_frees": 0,
        }
        described = {
            "format": recording.FORMAT,
            "version": recording.FORMAT_VERSION,
            "program": program,
            "end": "exit" if whole else "running",
            **numbers,
        }
        self._path("json").write_text(json.dumps(described), encoding="utf-8")

    def _write_events(self) -> None:
        if not sum(map(len, self._waiting)):
            return
        events = Events.joined(self._waiting)
        self._waiting.clear()
        births = events.births
        ids = self.objects + np.cumsum(births, dtype=np.uint64)
        ended, ended_sizes = self._live.pair(events.keys, births, ids, events.sizes)
        moved = np.flatnonzero(events.moved)
        old = np.concatenate((self._last_ended, np.stack([ended, ended_sizes])), axis=1)
        self._last_ended = old[:, -1:]
        resized, growth = np.zeros_like(ids), events.sizes.copy()
        resized[moved], old_sizes = old[:, moved]
        growth[moved] -= np.minimum(old_sizes, growth[moved])
        clock = self.allocated_bytes + np.cumsum(growth, dtype=np.uint64)
        change = events.sizes.astype(np.int64) - ended_sizes.astype(np.int64)
        live = self._live_bytes + np.cumsum(change)
        self._tables["births"].write(
            {
                "nanoseconds": events.times[births],
                "bytes": clock[births],
                "size": events.sizes[births],
                "operation": np.where(events.moved, _REALLOC, _MALLOC)[births].astype(np.uint64),
                "site": events.sites[births],
                "resized_from": resized[births],
                "address": events.addresses[births],
            }
        )
        dead = ended != 0
        self._tables["deaths"].write(
            {
                "id": ended[dead],
                "free_nanoseconds": events.times[dead],
                "free_bytes": clock[dead],
            }
        )
        self.objects = int(ids[-1])
        self.allocated_bytes = int(clock[-1])
        self._live_bytes = int(live[-1])
        self.max_live_bytes = max(self.max_live_bytes, int(live.max()))
        self.unknown_frees += int(np.count_nonzero(~births & ~dead))

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for table in self._tables.values():
            table.close()


class _Live:
    """What was allocated and not freed yet, sorted by key."""

    def __init__(self) -> None:
        self._keys, self._ids, self._sizes = (np.zeros(0, np.uint64) for _ in range(3))

    def pair(
        self, keys: Numbers, births: NDArray[np.bool_], ids: Numbers, sizes: Numbers
    ) -> tuple[Numbers, Numbers]:
        """For each of the next events the id and the size of the object that it ends; 0 where it
        ends none. A birth whose key is in use takes its place: the object before is never freed."""
        order = np.argsort(keys, kind="stable")
        keys, births, ids, sizes = keys[order], births[order], ids[order], sizes[order]
        first = np.concatenate(([True], keys[1:] != keys[:-1]))
        last = np.concatenate((first[1:], [True]))
        opened = np.concatenate(([False], births[:-1])) & ~first
        here = np.flatnonzero(~births & opened)
        ended, ended_sizes = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64)
        ended[here], ended_sizes[here] = ids[here - 1], sizes[here - 1]
        firsts = np.flatnonzero(first)
        places, found = self._find(keys[firsts])
        earlier = found & ~births[firsts]
        ended[firsts[earlier]] = self._ids[places[earlier]]
        ended_sizes[firsts[earlier]] = self._sizes[places[earlier]]
        self._remove(places[found])
        stay = last & births
        self._insert(keys[stay], ids[stay], sizes[stay])
        result, result_sizes = np.empty_like(ended), np.empty_like(ended)
        result[order], result_sizes[order] = ended, ended_sizes
        return result, result_sizes

    def _find(self, keys: Numbers) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        places = np.searchsorted(self._keys, keys)
        found = np.zeros(len(keys), np.bool_)
        inside = places < len(self._keys)
        found[inside] = self._keys[places[inside]] == keys[inside]
        return places, found

    def _remove(self, places: NDArray[np.intp]) -> None:
        left = np.ones(len(self._keys), np.bool_)
        left[places] = False
        self._keys, self._ids, self._sizes = (
            column[left] for column in (self._keys, self._ids, self._sizes)
        )

    def _insert(self, keys: Numbers, ids: Numbers, sizes: Numbers) -> None:
        places = np.searchsorted(self._keys, keys)
        self._keys = np.insert(self._keys, places, keys)
        self._ids = np.insert(self._ids, places, ids)
        self._sizes = np.insert(self._sizes, places, sizes)


class _RawTable:
    """A table of a raw recording, as observers/tables/block.h describes it."""

    def __init__(self, path: Path, name: str) -> None:
        self._columns = recording.TABLES[name]
        self._file = path.open("wb")
        self._file.write(f"tare-table 1 {name} {' '.join(self._columns)}\n".encode())

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows; the columns that are not given are 0."""
        rows = len(next(iter(columns.values())))
        zeros = np.zeros(rows, np.uint64)
        for start in range(0, rows, _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            self._write_block([columns.get(name, zeros)[part] for name in self._columns])

    def _write_block(self, columns: list[Numbers]) -> None:
        head, body = b"", b""
        for column in columns:
            base = int(column.min())
            bits = (int(column.max()) - base).bit_length()
            width = next((width for width in _WIDTHS if 8 * width >= bits), 0) if bits else 0
            head += struct.pack("<QQ", base, width)
            if width:
                body += (column - np.uint64(base)).astype(f"<u{width}").tobytes()
        payload = head + body
        header = (BLOCK_MAGIC, len(columns[0]), len(payload), block_checksum(payload))
        self._file.write(struct.pack("<IIII", *header) + payload)

    def close(self) -> None:
        self._file.close()
