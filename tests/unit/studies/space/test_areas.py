"""Which addresses are heap, the manager's own, the observer's, or stacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tare.studies.space.ranges import from_pairs, nothing, pages_of
from tare.studies.space.snapshot import PAGE, Mapping
from tare.studies.space.split import Known, areas, split
from tests.unit.studies.space.support import snapshot, some_objects

PROGRAM, MANAGER, RECORDER = "/bin/p", "/lib/m.so", "/lib/recorder.so"
KNOWN = Known(frozenset([MANAGER]), frozenset([RECORDER]))


def maps(*rows: tuple[int, int, str, str]) -> list[Mapping]:
    return [Mapping(s * PAGE, e * PAGE, access, name) for s, e, access, name in rows]


def pages(ranges: Any) -> list[int]:
    return [page // PAGE for part in pages_of(ranges, PAGE, 999) for page in part]


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
