"""`tare space`: resident pages divided, against naive models."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.base.documents import converted
from tare.base.errors import TareError
from tare.heap_traces import growth
from tare.heap_traces.residence import Process
from tare.heap_traces.trace import open_trace
from tare.records.results import read_records
from tare.studies.space import history, observe
from tare.studies.space import (
    ranges as space_ranges,
)
from tare.studies.space import report as space
from tare.studies.space import weigh as space_section
from tare.studies.space.details import Details
from tare.studies.space.ranges import Coverage, from_pairs, holds, nothing, overlap, union, without
from tare.studies.space.sites import (
    Pinned,
    by_site,
    by_size,
    occupancy,
    overhead,
    page_map,
    pinned,
)
from tare.studies.space.snapshot import (
    PAGE,
    Mapping,
    Snapshot,
    read_snapshot,
    read_snapshots,
)
from tare.studies.space.split import PARTS, HeapPages, Known, Objects, areas, header_bytes, split
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting
from tests.support import SUPPORT
from tests.support.traces import OBJECTS, objects_frame, sites_frame, write_trace_folder

BASE = 0x10000
NOBODY = Known(frozenset(), frozenset())
pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


def as_rows(given_pairs: list[tuple[int, int]]) -> Any:
    return np.array([(start, start + length) for start, length in given_pairs], np.int64).reshape(
        -1, 2
    )


def as_set(rows: Any) -> set[int]:
    return {byte for start, end in rows.tolist() for byte in range(start, end)}


# ---- ranges ----


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
    parts = [(part // PAGE).tolist() for part in space_ranges.pages_of(runs, PAGE, 2)]
    assert parts == [[0, 1], [2, 10], [11]]
    assert list(space_ranges.pages_of(nothing(), PAGE, 2)) == []


# ---- dividing a snapshot ----


def snapshot(
    mappings: list[Mapping],
    runs: list[tuple[int, int]],
    **more: Any,
) -> Snapshot:
    resident = sum(end - start for start, end in runs)
    empty = {name: nothing() for name in ("own", "held", "start", "guards")}
    values: dict[str, Any] = {
        "name": "peak",
        "origin": 0,
        "time": 100,
        "forked": False,
        "spent_seconds": 0.0,
        "lowest_ratio": 1.02,
        "mappings": mappings,
        "rss_bytes": resident,
        "swapped_bytes": 0,
        "huge_bytes": 0,
        "runs": from_pairs(runs),
        "mapped": np.zeros((0, 3), np.int64),
        "threads": np.zeros(0, np.int64),
        **empty,
    }
    return Snapshot(**values | more)


def some_objects(rows: list[tuple[int, int, int]], sites: list[int] | None = None) -> Objects:
    """``rows`` are (address, size, usable)."""
    addresses, sizes, usable = np.array(sorted(rows), np.int64).reshape(-1, 3).T
    return Objects(addresses, sizes, usable, np.array(sites or [0] * len(rows), np.int64))


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


# ---- which addresses are what ----

PROGRAM, MANAGER, RECORDER = "/bin/p", "/lib/m.so", "/lib/recorder.so"
KNOWN = Known(frozenset([MANAGER]), frozenset([RECORDER]))


def maps(*rows: tuple[int, int, str, str]) -> list[Mapping]:
    return [Mapping(s * PAGE, e * PAGE, access, name) for s, e, access, name in rows]


def pages(ranges: Any) -> list[int]:
    return [page // PAGE for part in space_ranges.pages_of(ranges, PAGE, 999) for page in part]


def in_pages(*rows: tuple[int, ...]) -> Any:
    return np.array(rows, np.int64) * PAGE


def test_the_zeros_behind_a_files_data_belong_to_the_file() -> None:
    found = areas(
        snapshot(
            maps(
                (1, 2, "r-xp", PROGRAM),
                (2, 3, "rw-p", PROGRAM),
                (3, 4, "rw-p", ""),
                (10, 11, "r-xp", MANAGER),
                (11, 12, "rw-p", MANAGER),
                (12, 14, "rw-p", ""),
                (20, 21, "rw-p", f"{RECORDER} (deleted)"),
                (21, 22, "rw-p", ""),
                (30, 32, "rw-p", ""),
            ),
            [],
        ),
        nothing(),
        KNOWN,
    )
    assert pages(found.heap) == [30, 31]
    assert pages(found.manager_data) == [11, 12, 13]
    assert pages(found.observer) == [20, 21]


def test_a_heap_that_adjoins_a_files_zeros_begins_with_its_first_object() -> None:
    ever = from_pairs([(5 * PAGE + 100, 5 * PAGE + 200)])
    taken = snapshot(maps((2, 3, "rw-p", PROGRAM), (3, 8, "rw-p", "")), [])
    assert pages(areas(taken, ever, KNOWN).heap) == [5, 6, 7]


def test_mappings_of_the_program_are_no_heap_unless_objects_are_there() -> None:
    mapped = in_pages((30, 32, 1), (40, 42, 1), (50, 52, 10), (60, 62, 1), (61, 62, 10))
    taken = snapshot(
        maps((1, 2, "r-xp", PROGRAM), (10, 11, "r-xp", MANAGER), (30, 70, "rw-p", "")),
        [],
        mapped=mapped,
    )
    ever = from_pairs([(40 * PAGE, 40 * PAGE + 8)])
    heap = set(pages(areas(taken, ever, KNOWN).heap))
    assert set(range(30, 70)) - heap == {30, 31, 60}


def test_what_the_program_maps_is_told_by_the_file_whose_code_did() -> None:
    library = "/lib/own.so"
    taken = snapshot(
        maps(
            *((1, 2, "r-xp", PROGRAM), (5, 6, "r-xp", library), (10, 11, "r-xp", MANAGER)),
            *((20, 22, "r--p", "/data/file"), (30, 70, "rw-p", "")),
        ),
        [(20 * PAGE, 22 * PAGE), (31 * PAGE, 36 * PAGE), (40 * PAGE, 44 * PAGE)],
        # A file of data, two maps of the program's, one of which a library then takes a part of,
        # and what the manager maps.
        mapped=in_pages((20, 22, 1), (30, 34, 1), (32, 34, 5), (34, 36, 1), (40, 44, 10)),
    )
    whole, _ = split(taken, some_objects([]), nothing(), KNOWN)
    assert whole.mapped == {PROGRAM: 3 * PAGE, library: 2 * PAGE}
    assert whole.parts["other"] == (2 + 5) * PAGE
    assert whole.parts["metadata"] == 4 * PAGE


def test_what_was_there_before_the_allocator_is_not_its_own() -> None:
    taken = snapshot(
        maps((10, 11, "r-xp", MANAGER), (30, 40, "rw-p", "")),
        [],
        start=in_pages((30, 34), (36, 38)),
        mapped=in_pages((36, 37, 10)),
    )
    assert pages(areas(taken, nothing(), KNOWN).heap) == [34, 35, 36, 38, 39]


def test_stacks_end_with_the_control_block_of_their_thread() -> None:
    block = 35 * PAGE + 1000
    taken = snapshot(
        maps((29, 30, "---p", ""), (30, 40, "rw-p", ""), (50, 52, "rw-p", "[stack]")),
        [],
        threads=np.array([block, 999 * PAGE]),
    )
    assert pages(areas(taken, nothing(), KNOWN).heap) == [29, 36, 37, 38, 39]


def test_stacks_can_be_one_mapping_with_the_heap_around_them() -> None:
    """glibc 2.42 and later: their guards are pages within."""
    taken = snapshot(
        maps((30, 44, "rw-p", "")),
        [],
        threads=np.array([34 * PAGE + 1000, 40 * PAGE]),
        guards=in_pages((32, 33), (37, 38)),
    )
    assert pages(areas(taken, nothing(), KNOWN).heap) == [30, 31, 32, 35, 36, 37, 41, 42, 43]


def test_files_in_the_folder_of_the_recording_are_the_observers() -> None:
    taken = snapshot(
        maps((1, 2, "rw-s", "/tmp/r/1.0.events"), (4, 5, "rw-s", "/tmp/r2/x")),
        [],
        recording="/tmp/r",
        own=in_pages((7, 8)),
    )
    assert pages(areas(taken, nothing(), KNOWN).observer) == [1, 7]


def test_a_file_that_holds_objects_is_heap() -> None:
    taken = snapshot(maps((1, 3, "rw-s", "/memfd:arena (deleted)")), [])
    ever = from_pairs([(PAGE, PAGE + 8)])
    assert pages(areas(taken, ever, KNOWN).heap) == [1, 2]


# ---- whose objects ----


def heap_pages(*rows: tuple[int, int, int]) -> HeapPages:
    """``rows`` are (page, live, free)."""
    page, live, free = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return HeapPages(page * PAGE, live, free, live + free > 0)


def test_free_cells_are_shared_out_among_the_objects_on_their_page() -> None:
    objects = some_objects(
        [(PAGE, 300, 300), (PAGE + 1000, 100, 100), (2 * PAGE, 40, 64)], sites=[7, 8, 7]
    )
    found = by_site(objects, heap_pages((1, 400, 2000), (2, 64, 4000))).to_dicts()
    assert [(row["site"], row["kept"]) for row in found] == [(7, 1500 + 4000), (8, 500)]
    first, second = found
    assert (first["sparse_pages"], first["alone"], first["sparse_bytes"]) == (2, 1, 364)
    assert (second["sparse_pages"], second["alone"], second["sparse_bytes"]) == (1, 0, 100)
    assert (first["objects"], first["requested"], first["internal"]) == (2, 340, 24)
    sizes = by_size(objects, heap_pages((1, 400, 2000), (2, 64, 4000)))
    assert [(row["up_to"], row["objects"], row["kept"]) for row in sizes] == [
        (64, 1, 4000),
        (128, 1, 500),
        (512, 1, 1500),
    ]


def test_pages_are_counted_once_for_sites_that_read_alike(tmp_path: Path) -> None:
    """Sites 3 and 6 of the chain read alike; that of another process is another."""
    folder = write_trace_folder(
        tmp_path / "t.tare", objects_frame([{"birth": 1, "size": 8}]), sites_frame((0, 1), 6)
    )
    theirs = (1 << 32) + 3
    objects = some_objects(
        [(PAGE + 100 * n, 100, 100) for n in range(5)], sites=[6, 3, 4, 0, theirs]
    )
    objects = observe._Places(open_trace(folder), 0).alike(objects)
    assert objects.sites.tolist() == [3, 3, 4, 0, theirs]
    first, *others = by_site(objects, heap_pages((1, 500, 1000))).to_dicts()
    assert (first["site"], first["sparse_pages"], first["kept"]) == (3, 1, 400)
    assert {row["kept"] for row in others} == {200}


def test_sites_that_read_alike_and_grow_are_one_line() -> None:
    frames = [{"function": "f", "object": "/p", "file": "f.c", "line": 3, "offset": 1}]
    sites = [
        {"site": site, "kind": kind, "gained": gained, "per_allocated": 0.5, "levels": [0, gained],
         "frames": frames}
        for site, kind, gained in ((1, growth.GROWS, 10), (2, growth.LEVELS_OFF, 4))
    ]  # fmt: skip
    (kept,) = read_records(SUPPORT / "results-more" / "space-growing")
    details = kept.outcome.details
    details = {**details, "growth": {**details["growth"], "sites": sites}}
    found = converted(details, Details)
    (row,) = space.growth_table("p", found, "t").rows
    assert [cell.text for cell in row] == ["1", "f (f.c:3)", "grows", "14 B", "1.00 MiB"]
    assert space._growing(found.growth)[0]["levels"].tolist() == [0, 14]
    assert found.growth.sites[0].levels == (0, 10)


def test_a_large_object_keeps_only_what_is_free_beside_its_ends() -> None:
    objects = some_objects([(PAGE + 2000, 3 * PAGE, 3 * PAGE)], sites=[1])
    rows = heap_pages((1, 2096, 1000), (2, PAGE, 0), (3, PAGE, 0), (4, 2000, 96))
    (row,) = by_site(objects, rows).to_dicts()
    assert (row["kept"], row["sparse_pages"]) == (1096, 0)


def test_the_free_memory_that_one_place_alone_pins() -> None:
    objects = some_objects(
        [(PAGE, 40, 64), (2 * PAGE, 40, 64), (2 * PAGE + 500, 8, 8), (5 * PAGE, 8, 8),
         (9 * PAGE, 8, 8)],
        sites=[1, 1, 2, 1, 1],
    )  # fmt: skip
    rows = heap_pages(
        (1, 64, 4000), (2, 72, 3000), (3, 0, 4096), (4, 0, 4096), (5, 8, 2000), (7, 0, 4096),
        (9, 8, 100),
    )  # fmt: skip
    assert pinned(objects, rows, objects.sites) == {1: Pinned(4000 + 2000 + 100, 0)}
    of_one_place = np.where(objects.sites > 0, 7, -1)
    assert pinned(objects, rows, of_one_place) == {7: Pinned(4000 + 3000 + 2000 + 100, 2 * 4096)}, (
        "page 7 is not between two of one mapping"
    )
    assert pinned(objects, rows, np.full(5, -1)) == {}


def test_occupancy_counts_pages_by_tenths() -> None:
    found = occupancy(heap_pages((1, 1, 0), (2, 409, 0), (3, 410, 5), (4, PAGE, 0), (5, 0, 9)))
    assert found["steps"] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (found["empty"], found["never"]) == (1, 0)


def test_the_map_of_pages_is_bounded() -> None:
    count = 10_000
    live = np.full(count, PAGE)
    many = HeapPages(np.arange(count) * PAGE, live, live * 0, live > 0)
    found = page_map(many)
    assert len(found["live"]) <= 1200
    assert set(found["live"]) == {1.0}
    assert page_map(HeapPages(*(np.zeros(0, np.int64),) * 3, np.zeros(0, bool)))["live"] == []


# ---- objects at moments ----


def trace_rows(objects: list[tuple[int, int, int | None, int]]) -> pl.DataFrame:
    """``objects`` are (birth, address, free, size) in nanoseconds, by birth."""
    clock = np.cumsum([size for *_, size in objects]).tolist()
    rows = [
        {
            "process": 0,
            "id": number,
            "operation": "malloc",
            "thread": 1,
            "site": 1 + number % 2,
            "size": size,
            "usable_size": size + 8,
            "address": address,
            "birth_nanoseconds": birth,
            "birth_bytes": clock[number],
            "free_nanoseconds": free,
            "free_bytes": None if free is None else clock[-1],
        }
        for number, (birth, address, free, size) in enumerate(objects)
    ]
    return pl.DataFrame(rows, schema=OBJECTS)


def one_process(rows: int, allocated: int) -> Process:
    return Process(0, 0, rows, 0, 1000, allocated, True, "p")


lives = st.tuples(st.integers(1, 30), st.integers(1, 50), st.one_of(st.none(), st.integers(0, 30)))


@settings(deadline=None)
@given(st.lists(lives, min_size=1, max_size=30), st.lists(st.integers(0, 40), max_size=6))
def test_who_is_alive_is_what_a_naive_model_says(
    raw: list[tuple[int, int, int | None]], times: list[int]
) -> None:
    monkey = pytest.MonkeyPatch()
    monkey.setattr(history, "BATCH_ROWS", 4)
    births = sorted(birth for birth, _, _ in raw)
    objects = [
        (birth, 0x1000 + 64 * number, None if life is None else birth + life, size)
        for number, (birth, (_, size, life)) in enumerate(zip(births, raw, strict=True))
    ]
    frame = trace_rows(objects)
    process = one_process(len(objects), int(frame["birth_bytes"][-1]))
    found = list(history.moments(frame.lazy(), process, sorted(times)))
    monkey.undo()
    for time, moment in zip(sorted(times), found, strict=True):
        alive = [a for b, a, f, _ in objects if b <= time and (f is None or f > time)]
        born = [(a, a + size + 8) for b, a, _, size in objects if b <= time]
        assert moment.objects.addresses.tolist() == sorted(alive)
        assert as_set(moment.ever) == as_set(np.array(born).reshape(-1, 2))
        assert moment.allocated_bytes == sum(size for b, _, _, size in objects if b <= time)


def test_a_child_has_what_its_parent_had_but_where_it_allocated_itself() -> None:
    theirs = [(1, 0x1000, None, 100), (2, 0x2000, None, 100), (3, 0x3000, 4, 100)]
    frame = trace_rows(theirs)
    process = one_process(3, 300)
    (before,) = history.moments(frame.lazy(), process, [10], tag=5 << 32)
    mine = trace_rows([(1, 0x2010, None, 50)])
    child = one_process(1, 50)
    (found,) = history.moments(mine.lazy(), child, [10], before)
    assert found.objects.addresses.tolist() == [0x1000, 0x2010]
    assert (found.objects.sites >> 32).tolist() == [5, 0]
    assert as_set(found.ever) >= set(range(0x3000, 0x3064))


def test_objects_without_addresses_are_refused() -> None:
    frame = trace_rows([(1, 0x1000, None, 8)]).with_columns(
        pl.lit(None, pl.UInt64).alias("address")
    )
    process = one_process(1, 8)
    with pytest.raises(TareError, match="without an address"):
        list(history.moments(frame.lazy(), process, [1]))


def test_the_largest_live_size_is_exact() -> None:
    frame = trace_rows([(1, 0x1000, 5, 100), (2, 0x2000, 3, 70), (4, 0x3000, None, 90)])
    process = one_process(3, 260)
    most = history.peak(frame.lazy(), process)
    assert (most.bytes, most.time) == (190, 4)
    assert history.allocated_by(frame.lazy(), process, most.time) == 260


# ---- growth ----

STEPS = np.arange(growth.STEPS)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (STEPS * 1000, growth.GROWS),
        (STEPS * 1000 + 20_000 * (STEPS % 3), growth.GROWS),
        (STEPS**2 * 10, growth.GROWS),
        (np.minimum(STEPS, 30) * 3000, growth.PLATEAU),
        (np.full(len(STEPS), 90_000), growth.PLATEAU),
        (90_000 * (STEPS % 10) // 10, growth.PLATEAU),
        (90_000 - STEPS * 900, growth.PLATEAU),
        (90_000 * (1 - np.exp(-STEPS / 30.0)), growth.LEVELS_OFF),
        (STEPS, growth.PLATEAU),
    ],
    ids="line sawtooth-on-a-line square ramp flat sawtooth falling saturating tiny".split(),
)
def test_growth_is_told_from_a_plateau(levels: Any, expected: str) -> None:
    assert growth.trend(levels, 96_000) == expected


def test_noise_around_a_level_seldom_grows() -> None:
    random = np.random.default_rng(1)
    noisy = [50_000 + 20_000 * random.standard_normal(len(STEPS)) for _ in range(500)]
    grown = sum(growth.trend(each, 96_000) != growth.PLATEAU for each in noisy)
    assert grown <= 0.02 * len(noisy)


def test_levels_and_leaks_by_site() -> None:
    rows = []
    for number in range(960):
        leaks = number % 2 == 0
        rows.append((number + 1, 64 * (number + 1), None if leaks else number + 3, 100))
    frame = trace_rows(rows).with_columns(
        free_bytes=pl.when(pl.col("free_nanoseconds").is_not_null()).then(
            pl.col("birth_bytes") + 200
        )
    )
    process = one_process(len(rows), 96_000)
    found = growth.growth(frame.lazy(), process, 50_000)
    assert [(site["site"], site["kind"]) for site in found["sites"]] == [(1, growth.GROWS)]
    assert found["growing_sites"] == 1
    ((leak),) = found["never_freed"]
    assert (leak["site"], leak["never_freed_bytes"]) == (1, 48_000)
    assert found["levels"][-1] - found["levels"][0] == pytest.approx(48_000 * 95 / 96, abs=300)
    assert sum(np.diff(found["sites"][0]["levels"]) < 0) == 0


@pytest.mark.parametrize("period", [13, 49, 97, 99, 100, 101, 193, 700])
@pytest.mark.parametrize("kept", [0, 1])
def test_what_each_round_frees_does_not_grow(period: int, kept: int) -> None:
    """Rounds of nearly a step each: their samples climb as slowly as a leak does."""
    objects, size = 9600, 100
    rows, frees = [], []
    for number in range(objects):
        last = min((number // period + 1) * period, objects)
        is_kept = kept and number % period == 0
        rows.append((number + 1, 128 * (number + 1), None if is_kept else last + 1, size))
        frees.append(None if is_kept or last == objects else last * size)
    frame = trace_rows(rows).with_columns(
        site=pl.lit(1, pl.UInt32), free_bytes=pl.Series(frees, dtype=pl.UInt64)
    )
    found = growth.growth(frame.lazy(), one_process(objects, objects * size), period * size)
    assert [site["kind"] for site in found["sites"]] == [growth.GROWS] * kept


# ---- files of snapshots ----


def write_snapshot(path: Path, *, cut: int = 0, **parts: bytes) -> Path:
    kinds = ["moment", "maps", "rollup", "resident", "own", "mapped", "threads", "start"]
    kinds += ["folder", "held", "end"]
    moment = struct.pack("<7Q", 0x31504E5345524154, 1000, 50, 0, 0, 10, 1020)
    done = struct.pack("<7Q", 0x31504E5345524154, 1000, 50, 150, 0, 10, 1020)
    content = b""
    for name, part in [("moment", moment), *parts.items(), ("moment", done), ("end", b"")]:
        content += struct.pack("<II", kinds.index(name) + 1, len(part)) + part
    path.write_bytes(content[: len(content) - cut])
    return path


def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = (
        b"1000-3000 rw-p 00000000 00:00 0 \n7000-8000 r-xp 00001000 08:01 12   /bin/a b (deleted)\n"
    )
    runs = struct.pack("<6Q", 0x1000, 0x1000, 0x2000, 0x1000 | 1, 0x7000, 0x1000 | 2)
    runs += struct.pack("<2Q", 0x8000, 0x1000 | 8)
    path = write_snapshot(
        tmp_path / "12.0.snapshot.peak",
        maps=text,
        rollup=b"1000-8000 ---p 0 00:00 0 [rollup]\nRss:                  12 kB\n",
        resident=runs,
        folder=b"/tmp/r",
    )
    found = read_snapshot(path)
    assert found.mappings == [
        Mapping(0x1000, 0x3000, "rw-p", ""),
        Mapping(0x7000, 0x8000, "r-xp", "/bin/a b (deleted)"),
    ]
    assert found.runs.tolist() == [[0x1000, 0x2000]]
    assert found.guards.tolist() == [[0x8000, 0x9000]]
    assert (found.rss_bytes, found.swapped_bytes, found.time) == (12 * 1024, 0x1000, 100)
    assert (found.recording, found.name, found.lowest_ratio) == ("/tmp/r", "peak", 1.02)


@pytest.mark.parametrize("cut", [1, 8, 9, 70, 200])
def test_a_snapshot_that_is_cut_off_is_left_out_and_said_so(tmp_path: Path, cut: int) -> None:
    write_snapshot(tmp_path / "12.0.snapshot.0")
    write_snapshot(tmp_path / "12.0.snapshot.1", cut=cut)
    found = read_snapshots(tmp_path)["12.0"]
    assert [each.name for each in found.timeline] == ["0"]
    assert len(found.damage) == 1
    assert found.peak is None


@pytest.mark.parametrize(
    "resident",
    [
        b"123",
        struct.pack("<2Q", 0x1001, 0x1000),
        struct.pack("<2Q", 1 << 63, 0x1000),
        struct.pack("<2Q", 0x1000, 1 << 62),
        struct.pack("<4Q", 0x2000, 0x1000, 0x1000, 0x1000),
    ],
)
def test_a_snapshot_that_cannot_be_true_is_refused(tmp_path: Path, resident: bytes) -> None:
    path = write_snapshot(tmp_path / "12.0.snapshot.0", resident=resident)
    with pytest.raises(TareError):
        read_snapshot(path)


# ---- the section of tare weigh ----


def setting(effort: Effort, seconds: float) -> Setting:
    return Setting(
        "p", ("glibc", "jemalloc", "mimalloc"), "glibc", effort, seconds, TOTAL_SECONDS[effort], 1
    )


def test_the_section_takes_what_fits() -> None:
    assert space_section.expected_runs(setting(Effort.QUICK, 0.1)) == 1
    assert space_section.expected_runs(setting(Effort.DEFAULT, 0.1)) == 3
    assert space_section.expected_runs(setting(Effort.DEFAULT, 100.0)) == 0
    assert space_section.expected_runs(setting(Effort.THOROUGH, 100.0)) == 3
    assert space_section.next_runs(setting(Effort.DEFAULT, 100.0), []) == []
    (run,) = space_section.next_runs(setting(Effort.DEFAULT, 0.1), [])
    own = replace(setting(Effort.DEFAULT, 0.1), managers=("own", "glibc"), baseline="own")
    assert [each.manager for each in space_section.next_runs(own, [])] == ["glibc"]
    assert (run.study, run.manager, run.observer) == ("space", "glibc", "space")
