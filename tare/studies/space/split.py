"""What the resident pages of a process are for: a snapshot beside the objects alive at its moment.

docs/space.md defines the parts. Everything here is a function of arrays; nothing reads a file.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tare.base.libraries import NDArray, np
from tare.observers.process_memory import CONTROL_BLOCK
from tare.studies.space.ranges import (
    Coverage,
    Ranges,
    both,
    from_pairs,
    holds,
    last_before,
    nothing,
    overlap,
    pages_of,
    union,
    without,
)
from tare.studies.space.snapshot import PAGE, Mapping, Snapshot

PARTS = ("requested", "internal", "metadata", "external", "retained", "delayed", "other")
"""What the resident bytes are divided into, with ``unexplained`` for what is left."""

_PAGES_AT_ONCE = 1 << 20
_LARGEST_HEADER = 16
_LEAST_SHOWN = 100
_GAPS_AT_ONCE = 1 << 12
_DELETED = " (deleted)"
_HUGE_FILES = ("/anon_hugepage", "/dev/hugepages/")
"""Pages of these are not in a process's resident size."""
_BY_MANAGER, _WITH_OBJECTS, _BY_NOBODY = -1, -2, -3
"""What ranges are, beside the numbers of files."""


@dataclass(frozen=True)
class Objects:
    """The objects alive at a moment, by ascending address, as int64; ``sites`` is 0 where the call
    site is not known."""

    addresses: NDArray[np.int64]
    sizes: NDArray[np.int64]
    usable: NDArray[np.int64]
    sites: NDArray[np.int64]

    @property
    def ends(self) -> NDArray[np.int64]:
        """Where each one's usable memory ends: at the latest where the next object begins."""
        ends = self.addresses + np.maximum(self.usable, self.sizes)
        if len(ends):
            ends[:-1] = np.minimum(ends[:-1], self.addresses[1:])
        return ends


@dataclass(frozen=True)
class Known:
    """Paths: of the files that the manager consists of, but for the C library; and of those of the
    observer."""

    manager: frozenset[str]
    observer: frozenset[str]

    def is_observers(self, path: str, recording: str) -> bool:
        return path in self.observer or bool(recording and path.startswith(f"{recording}/"))


@dataclass(frozen=True)
class Areas:
    """Which addresses are what; all else is the program's. Of that, ``mapped`` is nameless memory
    that the program mapped, by the file whose code did."""

    heap: Ranges
    manager_data: Ranges
    observer: Ranges
    uncounted: Ranges
    mapped: dict[str, Ranges]


@dataclass(frozen=True)
class HeapPages:
    """Resident pages of the heap, ascending: the usable bytes of live objects in each, its bytes
    that were part of an object and are no more, and whether an object ever was there."""

    addresses: NDArray[np.int64]
    live: NDArray[np.int64]
    free: NDArray[np.int64]
    was_used: NDArray[np.bool_]


@dataclass(frozen=True)
class Split:
    """Bytes. ``parts`` has a number for each of ``PARTS`` and for ``unexplained``, which add up to
    ``resident``; ``observer`` is beside them. ``live`` is what live objects asked for, resident or
    not. ``mapped`` is of the part other, as that of ``Areas``; ``header`` is before each object."""

    resident: int
    parts: dict[str, int]
    mapped: dict[str, int]
    observer: int
    live: int
    live_objects: int
    swapped: int
    header: int

    @property
    def heap(self) -> int:
        return sum(self.parts[name] for name in PARTS if name != "other")


# ---- which addresses are what ----


def areas(snapshot: Snapshot, ever: Ranges, known: Known) -> Areas:
    """``ever`` is where objects have been until the moment of the snapshot."""
    kinds = ("heap", "manager", "observer", "uncounted", "nameless", "program")
    named: dict[str, list[tuple[int, int]]] = {kind: [] for kind in kinds}
    before: Mapping | None = None
    owner = ""
    for mapping in snapshot.mappings:
        path = mapping.name.removesuffix(_DELETED)
        adjoins = before is not None and before.end == mapping.start
        is_nameless = not path or path.startswith("[anon")
        if is_nameless and adjoins and owner and "w" in mapping.access:
            path = owner  # the zeros behind a file's data
            start = _first_inside(ever, mapping)
            named["nameless"].append((start, mapping.end))
            mapping = Mapping(mapping.start, start, mapping.access, path)
            owner = ""
        else:
            owner = path if path.startswith("/") and "w" in mapping.access else ""
        named[_kind(mapping, path, snapshot.recording, ever, known)].append(
            (mapping.start, mapping.end)
        )
        before = mapping
    nameless = from_pairs(named["nameless"])
    observer = union(from_pairs(named["observer"]), snapshot.own)
    by_file, by_manager = _mapped(snapshot, ever, known)
    unused = from_pairs((s, e) for s, e in snapshot.start.tolist() if not overlap(ever, s, e))
    program = union(*by_file.values(), without(unused, by_manager), _stacks(snapshot, ever))
    return Areas(
        heap=without(union(from_pairs(named["heap"]), nameless), union(program, observer)),
        manager_data=from_pairs(named["manager"]),
        observer=observer,
        uncounted=from_pairs(named["uncounted"]),
        mapped={file: both(ranges, nameless) for file, ranges in by_file.items()},
    )


def _first_inside(ever: Ranges, mapping: Mapping) -> int:
    """The page of the first object in ``mapping``, or its end."""
    place = int(np.searchsorted(ever[:, 1], mapping.start, side="right"))
    if place == len(ever):
        return mapping.end
    first = max(int(ever[place, 0]) & -PAGE, mapping.start)
    return min(first, mapping.end)


def _kind(mapping: Mapping, path: str, recording: str, ever: Ranges, known: Known) -> str:
    if path == "[heap]":
        return "heap"
    if not path or path.startswith("[anon"):
        return "nameless"
    if path.startswith("["):
        return "program"
    if known.is_observers(path, recording):
        return "observer"
    if path.startswith(_HUGE_FILES):
        return "uncounted"
    if overlap(ever, mapping.start, mapping.end):
        return "heap"  # some allocators map a file of their own
    if path in known.manager and "w" in mapping.access:
        return "manager"
    return "program"


def _mapped(snapshot: Snapshot, ever: Ranges, known: Known) -> tuple[dict[str, Ranges], Ranges]:
    """What the program mapped, by the file whose code did, where no object was ever; and what the
    manager mapped."""
    rows = snapshot.mapped
    if not len(rows):
        return {}, nothing()
    names = _modules(snapshot.mappings, rows[:, 2].tolist())
    files = sorted(set(names))

    def kind(name: str, start: int, end: int) -> int:
        if name in known.manager:
            return _BY_MANAGER
        return _WITH_OBJECTS if overlap(ever, start, end) else files.index(name)

    places = rows[:, :2].tolist()
    kinds = [kind(name, *place) for name, place in zip(names, places, strict=True)]
    latest = _latest(rows[:, :2], kinds)
    by_file = {files[number]: ranges for number, ranges in latest.items() if number >= 0}
    return by_file, latest.get(_BY_MANAGER, nothing())


def _modules(mappings: Sequence[Mapping], calls: Iterable[int]) -> list[str]:
    starts = [mapping.start for mapping in mappings]
    names = []
    for call in calls:
        place = bisect.bisect_right(starts, call) - 1
        inside = place >= 0 and call < mappings[place].end
        names.append(mappings[place].name.removesuffix(_DELETED) if inside else "")
    return names


def _latest(rows: Ranges, kinds: Sequence[int]) -> dict[int, Ranges]:
    """By kind, the ranges where the last row that covers them is of that kind."""
    edges = np.unique(rows)
    kind_of = np.full(len(edges), _BY_NOBODY)
    firsts = np.searchsorted(edges, rows[:, 0])
    lasts = np.searchsorted(edges, rows[:, 1])
    for first, last, kind in zip(firsts, lasts, kinds, strict=True):
        kind_of[first:last] = kind
    ends = np.append(edges[1:], edges[-1:])
    pairs = np.stack([edges, ends], axis=1)
    return {kind: union(pairs[kind_of == kind]) for kind in set(kinds)}


def _stacks(snapshot: Snapshot, ever: Ranges) -> Ranges:
    """The stacks of threads: from a page without access up to the thread's control block. Since
    glibc 2.42 that page lies within the mapping, which may be one with those around it."""
    mappings = snapshot.mappings
    starts = [mapping.start for mapping in mappings]
    pairs = []
    for block in snapshot.threads.tolist():
        place = bisect.bisect_right(starts, block) - 1
        stack = mappings[place] if place >= 0 else None
        if stack is None or stack.name or block >= stack.end:
            continue
        start = last_before(snapshot.guards, block)
        if start <= stack.start:
            start = stack.start
            guard = mappings[place - 1] if place > 0 else None
            if guard is None or guard.end != start or not guard.access.startswith("---"):
                continue
        end = min((block + CONTROL_BLOCK + PAGE - 1) & -PAGE, stack.end)
        if not overlap(ever, start, end):
            pairs.append((start, end))
    return from_pairs(pairs)


# ---- what is in them ----


def header_bytes(objects: Objects, ever: Ranges) -> int:
    """What the manager keeps right before each object, 0 where it does not.

    Small objects may lie where a larger one was freed. Their headers then are bytes that were part
    of an object, and are not free. A manager has headers if objects never touch, and if bytes
    between neighbours that are as near as can be were never part of an object.
    """
    starts, ends = objects.addresses[1:], objects.ends[:-1]
    gaps = starts - ends
    if np.count_nonzero(gaps == 0) * 1000 >= len(gaps):
        return 0
    nearest = int(gaps[gaps > 0].min())
    if nearest > _LARGEST_HEADER:
        return 0
    between = np.flatnonzero(gaps == nearest)
    history = Coverage(ever[:, 0], ever[:, 1])
    shown = 0
    for first in range(0, len(between), _GAPS_AT_ONCE):
        some = between[first : first + _GAPS_AT_ONCE]
        never_held = history.below(starts[some]) == history.below(ends[some])
        shown += int(np.count_nonzero(never_held))
        if shown >= _LEAST_SHOWN:
            return nearest
    return 0


def split(
    snapshot: Snapshot, objects: Objects, ever: Ranges, known: Known
) -> tuple[Split, HeapPages]:
    """Divide the resident bytes. ``ever`` holds the usable bytes of all objects until then, those
    of ``objects`` included."""
    return divided(snapshot, objects, ever, areas(snapshot, ever, known))


def divided(
    snapshot: Snapshot, objects: Objects, ever: Ranges, found: Areas, header: int | None = None
) -> tuple[Split, HeapPages]:
    """``split`` where it is known which addresses are what, and perhaps how large headers are."""
    requested = Coverage(
        objects.addresses, np.minimum(objects.addresses + objects.sizes, objects.ends)
    )
    usable = Coverage(objects.addresses, objects.ends)
    header = header_bytes(objects, ever) if header is None else header
    history = Coverage(ever[:, 0], ever[:, 1])
    headers = objects.addresses - header
    reused = np.cumsum(history.below(objects.addresses) - history.below(headers))
    reused_before = np.concatenate([[0], reused])
    held_ranges = union(snapshot.held)
    held = Coverage(held_ranges[:, 0], held_ranges[:, 1])
    sums = dict.fromkeys((*PARTS, "observer"), 0)
    mapped: Counter[str] = Counter()
    kept: list[tuple[NDArray[Any], ...]] = []
    for pages in pages_of(without(snapshot.runs, found.uncounted), PAGE, _PAGES_AT_ONCE):
        in_heap, in_observer = holds(found.heap, pages), holds(found.observer, pages)
        in_data = holds(found.manager_data, pages)
        sums["observer"] += PAGE * int(np.count_nonzero(in_observer))
        sums["metadata"] += PAGE * int(np.count_nonzero(in_data & ~in_observer))
        other = pages[~(in_heap | in_data | in_observer)]
        sums["other"] += PAGE * len(other)
        for file, ranges in found.mapped.items():
            mapped[file] += PAGE * int(np.count_nonzero(holds(ranges, other)))
        heap = pages[in_heap & ~in_observer]
        live = usable.in_blocks(heap, PAGE)
        asked = requested.in_blocks(heap, PAGE)
        was = history.in_blocks(heap, PAGE)
        ends = np.searchsorted(headers, [heap, heap + PAGE])
        head = reused_before[ends[1]] - reused_before[ends[0]]
        unused = was - live - head
        waiting = np.minimum(held.in_blocks(heap, PAGE), unused)
        occupied = live + waiting > 0
        free = unused - waiting
        sums["requested"] += int(asked.sum())
        sums["internal"] += int((live - asked).sum())
        sums["delayed"] += int(waiting.sum())
        sums["external"] += int(free[occupied].sum())
        sums["retained"] += PAGE * int(np.count_nonzero(~occupied & (was > 0)))
        sums["metadata"] += int((PAGE - was[occupied | (was == 0)]).sum())
        sums["metadata"] += int(head[occupied].sum())
        kept.append((heap, live, free, was > 0))
    columns = (
        [np.concatenate(parts) for parts in zip(*kept, strict=True)]
        if kept
        else [np.zeros(0, kind) for kind in (np.int64, np.int64, np.int64, np.bool_)]
    )
    observer = sums.pop("observer")
    resident = max(snapshot.rss_bytes - observer, 0)
    sums["unexplained"] = resident - sum(sums.values())
    whole = Split(
        resident=resident,
        parts=sums,
        mapped={file: size for file, size in mapped.most_common() if size},
        observer=observer,
        live=int(objects.sizes.sum()),
        live_objects=len(objects.sizes),
        swapped=snapshot.swapped_bytes,
        header=header,
    )
    return whole, HeapPages(*columns)
