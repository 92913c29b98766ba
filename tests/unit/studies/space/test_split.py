"""A snapshot is divided into parts, as a naive model divides it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.studies.space.ranges import from_pairs, nothing, union
from tare.studies.space.sites import overhead
from tare.studies.space.snapshot import PAGE, Mapping
from tare.studies.space.split import PARTS, header_bytes, split
from tests.unit.studies.space.support import BASE, NOBODY, as_set, snapshot, some_objects

cells = st.tuples(
    st.sampled_from([8, 24, 100, 500, 3000, 9000]),
    st.sampled_from(["live", "freed", "held", "never"]),
    st.sampled_from([0, 8, 200]),
)


def lay_out(drawn: list[tuple[int, str, int]]) -> tuple[list[tuple[int, int, int]], Any, Any]:
    """Cells (usable bytes, what is there, gap behind) one after the other; live objects, held
    ranges, and where objects have been."""
    at, rows, held, ever = BASE, [], [], []
    for usable, kind, gap in drawn:
        if kind == "live":
            rows.append((at, usable - usable // 3, usable))
        if kind == "held":
            held.append((at, at + usable))
        if kind != "never":
            ever.append((at, at + usable))
        at += usable + gap
    return rows, from_pairs(held), from_pairs(ever)


@settings(deadline=None, max_examples=60)
@given(st.lists(cells, max_size=20), st.sets(st.integers(0, 7)))
def test_the_parts_are_those_of_a_naive_model(
    drawn: list[tuple[int, str, int]], resident: set[int]
) -> None:
    rows, held_ranges, ever_ranges = lay_out(drawn)
    pages = [BASE + number * PAGE for number in sorted(resident)]
    live, asked = set[int](), set[int]()
    for address, size, usable in rows:
        live |= set(range(address, address + usable))
        asked |= set(range(address, address + size))
    held, ever = as_set(held_ranges), as_set(ever_ranges)
    expected = dict.fromkeys(PARTS, 0)
    for page in pages:
        bytes_ = set(range(page, page + PAGE))
        occupied = bool(bytes_ & (live | held))
        expected["requested"] += len(bytes_ & asked)
        expected["internal"] += len(bytes_ & (live - asked))
        expected["delayed"] += len(bytes_ & held)
        if occupied:
            expected["external"] += len(bytes_ & (ever - live - held))
            expected["metadata"] += len(bytes_ - ever)
        elif bytes_ & ever:
            expected["retained"] += PAGE
        else:
            expected["metadata"] += PAGE
    heap = [Mapping(BASE, BASE + 99 * PAGE, "rw-p", "[heap]")]
    taken = snapshot(heap, [(page, page + PAGE) for page in pages], held=held_ranges)
    found, _ = split(taken, some_objects(rows), ever_ranges, NOBODY)
    assert found.parts == expected | {"unexplained": 0}
    assert sum(found.parts.values()) == found.resident == PAGE * len(pages)
    assert found.live == sum(size for _, size, _ in rows)


def test_an_object_that_is_not_resident_is_not_counted_as_such() -> None:
    heap = [Mapping(BASE, BASE + 8 * PAGE, "rw-p", "[heap]")]
    objects = some_objects([(BASE, 8 * PAGE, 8 * PAGE)])
    found, pages = split(
        snapshot(heap, [(BASE, BASE + PAGE)]),
        objects,
        from_pairs([(BASE, BASE + 8 * PAGE)]),
        NOBODY,
    )
    assert found.parts["requested"] == found.resident == PAGE
    assert found.live == 8 * PAGE
    assert pages.live.tolist() == [PAGE]


def test_a_stale_object_under_a_later_one_is_cut_off() -> None:
    objects = some_objects([(BASE, 100, 100), (BASE + 48, 40, 40)])
    assert objects.ends.tolist() == [BASE + 48, BASE + 88]


def test_what_the_kernel_counts_beyond_its_pages_is_unexplained() -> None:
    heap = [Mapping(BASE, BASE + PAGE, "rw-p", "[heap]")]
    taken = snapshot(heap, [(BASE, BASE + PAGE)], rss_bytes=3 * PAGE)
    found, _ = split(taken, some_objects([]), nothing(), NOBODY)
    assert found.parts["unexplained"] == 2 * PAGE
    assert sum(found.parts.values()) == found.resident == 3 * PAGE


def some_rows(stride: int, usable: int, count: int = 1000) -> list[tuple[int, int, int]]:
    return [(BASE + 16 + stride * number, 16, usable) for number in range(count)]


def test_a_header_where_a_larger_object_was_is_no_free_memory() -> None:
    rows = some_rows(32, 24)
    heap = [Mapping(BASE, BASE + 8 * PAGE, "rw-p", "[heap]")]
    taken = snapshot(heap, [(BASE, BASE + 8 * PAGE)])
    live = [(start, start + usable) for start, _, usable in rows]
    once = (BASE + 16, BASE + 16 + 32 * 800)  # 200 others lie where nothing was
    found, pages = split(taken, some_objects(rows), union(from_pairs([once, *live])), NOBODY)
    assert found.parts["external"] == 0
    assert found.parts["metadata"] == 8 * PAGE - 24 * 1000
    assert pages.free.sum() == 0


@pytest.mark.parametrize(
    ("rows", "once"),
    [
        (some_rows(32, 16), (BASE + 16, BASE + 16 + 32 * 1000)),  # every second one was freed
        ([*some_rows(16, 16), (BASE + 20000, 16, 16)], (BASE, BASE)),  # they touch
        (some_rows(48, 16), (BASE, BASE)),  # what is between is too large for a header
        ([], (BASE, BASE)),
    ],
)
def test_a_manager_without_headers_has_none(
    rows: list[tuple[int, int, int]], once: tuple[int, int]
) -> None:
    live = [(start, start + usable) for start, _, usable in rows]
    assert header_bytes(some_objects(rows), union(from_pairs([once, *live]))) == 0


def test_headers_show_behind_many_that_lie_where_a_larger_object_was() -> None:
    rows = some_rows(32, 24, count=6000)
    live = [(start, start + usable) for start, _, usable in rows]
    once = (BASE, BASE + 32 * 5000)
    assert header_bytes(some_objects(rows), union(from_pairs([once, *live]))) == 8
    once = (BASE, BASE + 32 * 5950)
    assert header_bytes(some_objects(rows), union(from_pairs([once, *live]))) == 0


def test_overhead_is_that_of_small_objects() -> None:
    objects = some_objects([(BASE + 16, 16, 24), (BASE + 48, 100, 104), (BASE + 160, 20, 24)])
    groups = np.array([4, 4, -1])
    assert overhead(objects, 8, groups) == {4: 16}
    assert overhead(objects, 8, np.array([-1, 2, -1])) == {}
