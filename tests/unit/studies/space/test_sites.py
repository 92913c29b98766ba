"""Which call sites the objects on a page belong to."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tare.base.documents import converted
from tare.heap_traces import growth
from tare.heap_traces.trace import open_trace
from tare.records.results import read_records
from tare.studies.space import observe
from tare.studies.space import report as space
from tare.studies.space.details import Details
from tare.studies.space.sites import Pinned, by_site, by_size, occupancy, page_map, pinned
from tare.studies.space.snapshot import PAGE
from tare.studies.space.split import HeapPages
from tests.support import SUPPORT
from tests.support.traces import objects_frame, sites_frame, write_trace_folder
from tests.unit.studies.space.support import heap_pages, some_objects


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
