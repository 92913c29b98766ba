"""glibc's heaps in the memory of a process: which cells are live, free, or in threads' caches.

glibc keeps the size of each cell before it, and whether the one before is in use (malloc/malloc.c,
"Chunk"). So a heap can be walked from its start, without a list of what was born. What threads keep
for themselves looks used; since glibc 2.34 it has a random number of the process, its key, in its
second word. Cells of fast bins look used, too; they are in lists of the arenas, until glibc 2.42.

The process runs on meanwhile. A heap that changes while it is read can lead astray: what then
cannot be walked is ``undivided``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tare.base.libraries import NDArray, np
from tare.observers.process_memory import PAGE, Area
from tare.studies.space.ranges import Ranges, from_pairs, union, without

HEADER = 8
"""Bytes of a cell that its object cannot use."""
_TO_OBJECT = 16
_LEAST = 32
_USED_BEFORE, _MAPPED, _OTHER_ARENA, _FLAGS = 1, 2, 4, 7
_HUGE = 1
"""In the word before the size of a cell that has a mapping: of huge pages."""
_HEAP = 64 << 20
"""What heaps of arenas are aligned to."""
_BLOCK = 64 << 20
_TRIES = 4
_FENCE = 64
_MOST_TOP = 1 << 40
_BIN_COUNT = 127
_AFTER_ARENA = range(2112, 2400, 8)
"""Where the first cell can be behind the start of its arena."""
_AFTER_HEAP = (32, 48, 64)
_MOST_FAST = 1 << 20
_ADDRESSES = 1 << 56
MOST_CELLS = 1 << 25
"""What is walked of a process; some gigabytes hold their facts."""
_MOST_PAGES = 1 << 22


@dataclass(frozen=True)
class _Arena:
    """Where an arena has the address of its last cell, its bins, and its fast bins."""

    top: int
    bins: int
    fast: int
    fast_count: int

    @property
    def size(self) -> int:
        return self.bins + 16 * _BIN_COUNT


_ARENAS = (_Arena(96, 112, 16, 10), _Arena(8, 24, 0, 0))
"""Until glibc 2.42, and since 2.43."""


class Memory(Protocol):
    def read(self, start: int, end: int) -> bytearray: ...

    @property
    def runs(self) -> NDArray[np.int64]: ...


@dataclass(frozen=True)
class Cells:
    """By ascending address, as int64. ``firsts`` and ``keys`` are objects' first two words."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    used: NDArray[np.bool_]
    firsts: NDArray[np.uint64]
    keys: NDArray[np.uint64]

    @classmethod
    def joined(cls, several: Sequence[Cells]) -> Cells:
        order = sorted((each for each in several if len(each.starts)), key=lambda c: c.starts[0])
        if not order:
            none = np.zeros(0, np.int64)
            words = none.astype(np.uint64)
            return cls(none, none, none.astype(np.bool_), words, words)
        return cls(
            *(
                np.concatenate([getattr(each, name) for each in order])
                for name in ("starts", "ends", "used", "firsts", "keys")
            )
        )


@dataclass(frozen=True)
class Heaps:
    """``live``, ``free`` and ``cached`` have a row (start, end) of an object's bytes for each cell.
    ``areas`` are the heaps, ``undivided`` those parts of them that could not be walked. ``arenas``
    is their number; ``caches_known`` and ``fast_known`` say whether caches of threads and fast bins
    were found, which otherwise count as live."""

    live: NDArray[np.int64]
    free: NDArray[np.int64]
    cached: NDArray[np.int64]
    areas: Ranges
    undivided: Ranges
    arenas: int
    caches_known: bool
    fast_known: bool


@dataclass(frozen=True)
class _Heap:
    """Cells lie from ``first`` to ``end``; ``arena`` is 0 for the main one's."""

    start: int
    first: int
    end: int
    arena: int


def heaps_of(memory: Memory, areas: Sequence[Area], stacks: Sequence[tuple[int, int]]) -> Heaps:
    """All heaps of the process's own malloc. ``stacks`` are those of threads, from start to end."""
    heaps = list(_heaps(memory, areas))
    walks: list[tuple[Cells, tuple[int, int]]] = []
    left = MOST_CELLS
    for heap in heaps:
        walks.append(_walked(memory, heap, left))
        left -= len(walks[-1][0].starts)
    cells = Cells.joined([walk for walk, _ in walks])
    lost = from_pairs(pair for _, pair in walks)
    arenas = {heap.arena for heap in heaps if heap.arena}
    main = _main_arena(memory, areas, heaps, walks)
    fast, all_found = _fast(memory, [*arenas, *([main] if main else [])])
    used = cells.used & ~np.isin(cells.starts, fast)
    cached, caches_known = _cached(cells, used)
    mapped = _mapped(memory, areas, heaps, stacks)
    objects = np.stack([cells.starts + _TO_OBJECT, cells.ends + HEADER], axis=1)
    live = np.concatenate([objects[used & ~cached], mapped + np.array([_TO_OBJECT, 0])])
    return Heaps(
        live=live[np.argsort(live[:, 0], kind="stable")],
        free=objects[~used & ~cached],
        cached=objects[cached],
        areas=from_pairs(
            [*((heap.start, heap.end) for heap in heaps), *(-(-mapped // PAGE) * PAGE).tolist()]
        ),
        undivided=lost,
        arenas=len(arenas) + any(not heap.arena for heap in heaps),
        caches_known=caches_known,
        fast_known=all_found and (main != 0 or all(heap.arena for heap in heaps)),
    )


# ---- where heaps are ----


def _words(memory: Memory, start: int, count: int) -> list[int]:
    return memoryview(memory.read(start, start + 8 * count)).cast("Q").tolist()


def _is_cell(word: int, flags: int, room: int) -> bool:
    size = word & ~_FLAGS
    return word & _FLAGS == flags and _LEAST <= size <= room and size % 16 == 0


def _heaps(memory: Memory, areas: Sequence[Area]) -> Iterator[_Heap]:
    own = [area for area in areas if area.is_own]
    for area in own:
        if area.name == "[heap]":
            if _is_cell(_words(memory, area.start, 2)[1], _USED_BEFORE, area.end - area.start):
                yield _Heap(area.start, area.start, area.end, 0)
        elif area.is_nameless:
            for start in range(-(-area.start // _HEAP) * _HEAP, area.end, _HEAP):
                if (found := _heap_at(memory, start, area.end)) is not None:
                    yield found


def _heap_at(memory: Memory, start: int, end: int) -> _Heap | None:
    """A heap that malloc got for an arena, by what malloc/arena.c keeps at its start."""
    arena, before, size, allowed = _words(memory, start, 4)
    if not _LEAST < size <= allowed <= _HEAP or size % PAGE or before % _HEAP:
        return None
    if start < arena < start + 256 and not before:
        places: Iterable[int] = (arena + offset for offset in _AFTER_ARENA)
    elif before and arena:
        places = (start + offset for offset in _AFTER_HEAP)
    else:
        return None
    flags = _USED_BEFORE | _OTHER_ARENA
    for place in places:
        known = (flags, _USED_BEFORE)  # the last cell of a heap may lack the other flag
        word = _words(memory, place, 2)[1]
        if place % 16 == 0 and any(_is_cell(word, each, start + size - place) for each in known):
            return _Heap(start, place, min(start + size, end), arena)  # it may have grown
    return None


# ---- the walk ----


def _walked(memory: Memory, heap: _Heap, most: int) -> tuple[Cells, tuple[int, int]]:
    """Its cells, and where it could not be walked any further."""
    at, tries = heap.first, 0
    parts: list[tuple[NDArray[Any], ...]] = []
    while at < heap.end and tries < _TRIES and most > 0:
        stop = min(at + _BLOCK, heap.end)
        data = memory.read(at, min(stop + _LEAST, heap.end))
        data += bytes(_LEAST + -len(data) % 8)
        places, reached, broken = _places(data, stop - at, heap.end - at)
        if len(places):
            words = np.frombuffer(data, np.uint64)
            numbers = places // 8
            headers = words[numbers + 1].astype(np.int64)
            parts.append((places + at, headers, words[numbers + 2], words[numbers + 3]))
            tries = 0
            most -= len(places)
        at += reached
        if broken and heap.end - at <= _FENCE:
            break  # the fence at the end of a heap that is full
        tries += broken
    if not parts:
        return Cells.joined([]), (heap.first, heap.end)
    if heap.end - at > _FENCE and most > 0:
        words = np.array(_words(memory, at, 4), np.uint64)
        if _is_cell(int(words[1]), int(words[1]) & _FLAGS, _MOST_TOP):  # the last, and it has grown
            header = np.array([heap.end - at | int(words[1]) & _USED_BEFORE], np.int64)
            parts.append((np.array([at]), header, words[2:3], words[3:4]))
            at = heap.end
    starts, headers, firsts, keys = (np.concatenate(column) for column in zip(*parts, strict=True))
    ends = starts + (headers & ~_FLAGS)
    used = np.append(headers[1:] & _USED_BEFORE, at < heap.end).astype(np.bool_)
    is_lost = heap.end - at > _FENCE
    return Cells(starts, ends, used, firsts, keys), (at, heap.end if is_lost else at)


def _places(data: bytearray, stop: int, end: int) -> tuple[NDArray[np.int64], int, bool]:
    """Where cells start in ``data``, up to ``stop``; how far they reach; and whether the next is
    none."""
    words = memoryview(data).cast("Q")
    found = array("q")
    add = found.append
    at, last, most = 0, stop >> 3, end >> 3
    while at < last:
        step = words[at + 1] & ~_FLAGS
        if step < _LEAST or step & 15 or at + (step >> 3) > most:
            break
        add(at << 3)
        at += step >> 3
    return np.array(found, np.int64), at << 3, at < last


# ---- what of the used cells is free ----


def _cached(cells: Cells, used: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], bool]:
    """Which of the used cells lie in threads' caches, and whether the key of these was found. Each
    has the address of the next one, by "safe linking", or of none; and the key after that."""
    objects = (cells.starts + _TO_OBJECT).astype(np.uint64)
    following = cells.firsts ^ objects >> np.uint64(12)
    linked = np.flatnonzero(used & (cells.keys != 0))
    targets = following[linked]
    places = np.searchsorted(objects, targets)
    known = objects[np.minimum(places, len(objects) - 1)] == targets
    linked = linked[(targets == 0) | known]
    keys, numbers = np.unique(cells.keys[linked], return_counts=True)
    cached = np.zeros_like(used)
    if not len(keys):
        return cached, False
    cached[linked] = cells.keys[linked] == keys[np.argmax(numbers)]
    return cached, True


def _main_arena(
    memory: Memory,
    areas: Sequence[Area],
    heaps: Sequence[_Heap],
    walks: Sequence[tuple[Cells, tuple[int, int]]],
) -> int:
    """Where the C library keeps it, 0 where it cannot be found: it holds the address of the last
    cell of the heap."""
    tops = [int(cells.starts[-1]) for heap, (cells, _) in zip(heaps, walks, strict=True)
            if not heap.arena and len(cells.starts)]  # fmt: skip
    for area in areas:
        if not (tops and area.is_own and "/libc" in area.name):
            continue
        words = np.frombuffer(memory.read(area.start, area.end), np.uint64)
        for place in np.flatnonzero(words == np.uint64(tops[0])).tolist():
            for kind in _ARENAS:
                arena = area.start + 8 * place - kind.top
                is_inside = arena >= area.start and arena + kind.size <= area.end
                if is_inside and _is_arena(memory, arena, kind):
                    return arena
    return 0


def _is_arena(memory: Memory, arena: int, kind: _Arena) -> bool:
    """Each empty bin has its own address twice."""
    bins = _words(memory, arena + kind.bins, 2 * _BIN_COUNT)
    own = [arena + kind.bins - 16 + 16 * number for number in range(_BIN_COUNT)]
    return 2 * sum(bins[2 * n] == bins[2 * n + 1] == own[n] for n in range(_BIN_COUNT)) > _BIN_COUNT


def _fast(memory: Memory, arenas: Sequence[int]) -> tuple[NDArray[np.int64], bool]:
    """The cells in fast bins, and whether that are all."""
    found: dict[int, None] = {}
    for arena in arenas:
        kind = next((each for each in _ARENAS if _is_arena(memory, arena, each)), _ARENAS[0])
        for cell in _words(memory, arena + kind.fast, kind.fast_count):
            while cell % 16 == 0 and 0 < cell < _ADDRESSES and cell not in found:
                if len(found) == _MOST_FAST:
                    return np.array([*found], np.int64), False
                found[cell] = None
                place = cell + _TO_OBJECT
                cell = _words(memory, place, 1)[0] ^ place >> 12  # "safe linking"
    return np.array([*found], np.int64), True


# ---- large objects ----


def _mapped(
    memory: Memory,
    areas: Sequence[Area],
    heaps: Sequence[_Heap],
    stacks: Sequence[tuple[int, int]],
) -> NDArray[np.int64]:
    """The cells that have mappings of their own, from their start to their object's end. Since
    glibc 2.43 the header of a next cell has room behind; its first word is the object's."""
    taken = from_pairs([*((heap.start, heap.end) for heap in heaps), *stacks])
    found: list[tuple[int, int]] = []
    left = _MOST_PAGES
    for area in areas:
        if not (area.is_own and area.is_nameless):
            continue
        at = area.start
        for first, last in without(_within(memory.runs, area), taken).tolist():
            at = max(at, first)
            while at < last and left:
                left -= 1
                before, word = _words(memory, at, 2)
                size = word & ~_FLAGS
                behind = -size % PAGE
                is_one = before & ~_HUGE == 0 and word & _FLAGS == _MAPPED and size
                if is_one and behind in (0, _TO_OBJECT) and at + size + behind <= area.end:
                    found.append((at, at + size + behind // 2))
                    at += size + behind
                else:
                    at += PAGE
    return np.array(found, np.int64).reshape(-1, 2)


def _within(runs: NDArray[np.int64], area: Area) -> Ranges:
    first = np.searchsorted(runs[:, 1], area.start, side="right")
    last = np.searchsorted(runs[:, 0], area.end)
    return union(np.clip(runs[first:last], area.start, area.end))
