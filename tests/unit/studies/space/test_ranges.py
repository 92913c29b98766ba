"""Ranges are sets of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tare.studies.space.ranges import (
    Coverage,
    from_pairs,
    holds,
    nothing,
    overlap,
    pages_of,
    union,
    without,
)
from tare.studies.space.snapshot import PAGE
from tests.unit.studies.space.support import as_set

pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


def as_rows(given_pairs: list[tuple[int, int]]) -> Any:
    return np.array([(start, start + length) for start, length in given_pairs], np.int64).reshape(
        -1, 2
    )


@given(pairs, pairs)
def test_ranges_are_sets_of_bytes(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    a, b = as_rows(one), as_rows(other)
    both, left = union(a, b), without(union(a), union(b))
    assert as_set(both) == as_set(a) | as_set(b)
    assert as_set(left) == as_set(a) - as_set(b)
    for found in (both, left):
        assert (found[1:, 0] > found[:-1, 1]).all(), "sorted, and apart"
    points = np.arange(80)
    assert set(points[holds(both, points)].tolist()) == as_set(both)
    covered = Coverage(both[:, 0], both[:, 1]).in_blocks(np.arange(0, 80, 10), 10)
    assert covered.tolist() == [
        len(as_set(both) & set(range(block, block + 10))) for block in range(0, 80, 10)
    ]
    for start in range(0, 70, 7):
        assert overlap(both, start, start + 3) == bool(as_set(both) & set(range(start, start + 3)))


def test_pages_of_runs_come_in_parts() -> None:
    runs = from_pairs([(0, 3 * PAGE), (10 * PAGE, 12 * PAGE)])
    parts = [(part // PAGE).tolist() for part in pages_of(runs, PAGE, 2)]
    assert parts == [[0, 1], [2, 10], [11]]
    assert list(pages_of(nothing(), PAGE, 2)) == []
