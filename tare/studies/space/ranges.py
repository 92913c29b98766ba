"""Sets of addresses, as sorted arrays of ranges that do not touch each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tare.base.libraries import NDArray, np

Ranges: TypeAlias = "NDArray[np.int64]"
"""A row (start, end) for each range, ascending; from ``union``."""


def nothing() -> Ranges:
    return np.zeros((0, 2), np.int64)


def from_pairs(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """The union of ranges in any order."""
    return union(np.array(list(pairs), np.int64).reshape(-1, 2))


def union(*several: Ranges) -> Ranges:
    """All that is in one of ``several``, each of which may overlap itself and be in any order."""
    starts, ends = np.ascontiguousarray(np.concatenate([nothing(), *several]).T)
    real = ends > starts
    if not real.all():
        starts, ends = starts[real], ends[real]
    if len(starts) == 0:
        return nothing()
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    apart = starts[1:] > reached[:-1]
    return np.stack([starts[np.append(True, apart)], reached[np.append(apart, True)]], axis=1)


def holds(ranges: Ranges, points: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of ``points`` lie in ``ranges``."""
    place = np.searchsorted(ranges[:, 0], points, side="right") - 1
    inside: NDArray[np.bool_] = place >= 0
    if len(ranges):
        inside &= points < ranges[place, 1]
    return inside


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    """What of ``ranges`` is not in ``removed``."""
    edges = np.unique(np.concatenate([ranges.ravel(), removed.ravel()]))
    if len(edges) < 2:
        return nothing()
    starts, ends = edges[:-1], edges[1:]
    kept = holds(ranges, starts) & ~holds(removed, starts)
    return union(np.stack([starts[kept], ends[kept]], axis=1))


def both(one: Ranges, other: Ranges) -> Ranges:
    """What is in each of two."""
    return without(one, without(one, other))


def overlap(ranges: Ranges, start: int, end: int) -> bool:
    """Whether a byte from ``start`` up to ``end`` is in ``ranges``."""
    place = int(np.searchsorted(ranges[:, 1], start, side="right"))
    return place < len(ranges) and int(ranges[place, 0]) < end


def last_before(ranges: Ranges, point: int) -> int:
    """Where the last one ends that does so at ``point`` or before, or 0."""
    place = int(np.searchsorted(ranges[:, 1], point, side="right"))
    return int(ranges[place - 1, 1]) if place else 0


class Coverage:
    """How many bytes of sorted, disjoint ranges lie below an address."""

    def __init__(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self._starts = starts
        self._lengths = ends - starts
        self._before = np.concatenate([[0], np.cumsum(self._lengths)])

    def below(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        place = np.searchsorted(self._starts, points, side="right") - 1
        result = self._before[np.maximum(place, 0)]
        if len(self._starts):
            within = np.minimum(points - self._starts[place], self._lengths[place])
            result = result + np.where(place >= 0, within, 0)
        found: NDArray[np.int64] = result
        return found

    def in_blocks(self, starts: NDArray[np.int64], bytes_: int) -> NDArray[np.int64]:
        """The bytes in each block of ``bytes_`` from ``starts`` on."""
        return self.below(starts + bytes_) - self.below(starts)


def pages_of(runs: Ranges, page: int, most: int) -> Iterator[NDArray[np.int64]]:
    """The addresses of all pages of ``runs``, which are whole pages, up to ``most`` at a time."""
    counts = (runs[:, 1] - runs[:, 0]) // page
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, total, most):
        numbers = np.arange(first, min(first + most, total))
        run = np.searchsorted(ends, numbers, side="right")
        yield runs[run, 0] + (numbers - (ends[run] - counts[run])) * page
