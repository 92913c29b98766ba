"""What changes of single places would bring, against brute force."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.heap_traces import copying, predictions, residence
from tare.heap_traces.changed_peaks import ChangedPeaks
from tare.heap_traces.function_names import bare_name
from tare.heap_traces.predictions import SURE_TEARDOWN
from tare.heap_traces.residence import peak_moment, processes
from tare.heap_traces.spots import Spot, structures
from tare.heap_traces.trace import open_trace
from tare.records.actions import Place
from tests.support.traces import FRAMES, objects_frame, sites_frame, write_trace_folder
from tests.support.traces import SITES as SITE_COLUMNS

END = 200_000
Row = dict[str, Any]
SITES = {line: number for number, (_, _, line) in enumerate(FRAMES, 1)}


def peak(lives: Sequence[tuple[int, int, int]]) -> int:
    """Of (birth, end, size), by looking at each birth."""
    return max((sum(s for b, e, s in lives if b <= at < e) for at, _, _ in lives), default=0)


# ---- many changes of one curve ----

lives = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 9), st.integers(0, 3)),
    min_size=1,
    max_size=30,
)


@given(lives, st.integers(1, 7), st.integers(1, 6), st.integers(0, 9))
def test_each_changed_peak_is_that_of_brute_force(
    objects: list[tuple[int, int, int, int]], batch: int, most_waiting: int, earlier: int
) -> None:
    objects.sort(key=lambda each: each[0])
    births = np.array([birth for birth, *_ in objects], np.uint64)
    ends = np.array([birth + life for birth, life, *_ in objects], np.uint64)
    sizes = np.array([size for _, _, size, _ in objects], np.int64)
    change = np.array([of for *_, of in objects])
    sooner = np.maximum(births, ends - np.minimum(ends, np.uint64(earlier)))
    starts = range(0, len(objects), batch)
    lasts = np.array([births[min(s + batch, len(births)) - 1] for s in starts], np.uint64)
    with ChangedPeaks(lasts, 4, most_waiting) as sweep:
        for start in starts:
            part = slice(start, start + batch)
            sweep.put(change[part], sooner[part], -sizes[part])
            sweep.put(change[part], ends[part], sizes[part])
            sweep.add(births[part], ends[part], sizes[part])
    for number in range(4):
        changed = np.where(change == number, sooner, ends)
        expected = peak(list(zip(births.tolist(), changed.tolist(), sizes.tolist(), strict=True)))
        assert sweep.peaks[number] == expected


# ---- a whole trace ----


@pytest.fixture
def every_change_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(predictions, "LEAST_BYTES", 1)


def predicted(rows: Sequence[Row], folder: Path, **more: Any) -> list[dict[str, Any]]:
    frame = objects_frame(rows)
    path = write_trace_folder(folder / "t.tare", frame, end_instructions=END, **more)
    trace = open_trace(path)
    (process,) = processes(trace.objects(), trace.processes)
    moment = peak_moment(trace.objects(), process)
    largest = peak([life(row) for row in rows])
    return predictions.predictions(trace, process, moment, largest)


def life(row: Row) -> tuple[int, int, int]:
    return row["birth"], row.get("free", END), row["size"]


def needed(row: Row, *, teardown_is_use: bool) -> tuple[int, int, int]:
    """A life that ends when the object is needed no more."""
    birth, end, size = life(row)
    if "last" not in row:
        return birth, end, size
    last = row["torn"] if "torn" in row and not teardown_is_use else row["last"]
    return birth, min(last + 1, end), size


@st.composite
def objects(draw: st.DrawFn) -> Row:
    row: Row = {
        "birth": draw(st.integers(1, 40)),
        "size": draw(st.integers(1, 100)),
        "site": draw(st.sampled_from([1, 2, 3])),
    }
    at = row["birth"]
    if draw(st.booleans()):
        row["first"] = at
        at = row["last"] = at + draw(st.integers(0, 8))
        if draw(st.booleans()):
            row["torn"] = draw(st.integers(row["first"], row["last"]))
    if draw(st.booleans()):
        row["free"] = at + draw(st.integers(0, 30))
        row["free_site"] = draw(st.sampled_from([1, 2]))
    return row


@pytest.mark.thorough
@pytest.mark.usefixtures("every_change_counts")
@settings(deadline=None, max_examples=40)
@given(st.lists(objects(), min_size=1, max_size=20))
def test_predictions_are_those_of_brute_force(rows: list[Row]) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(predictions, "structures", list)
        patch.setattr(residence, "BATCH_ROWS", 4)
        found = predicted(rows, Path(name))
    for each in found:
        mine = SITES[each["place"]["line"]]
        if each["kind"] in (predictions.FREE_EARLIER, predictions.LEAK):
            for name, sure in (("peak_low", False), ("peak_high", True)):
                changed = [
                    needed(row, teardown_is_use=sure) if row["site"] == mine else life(row)
                    for row in rows
                ]
                assert each[name] == peak(changed)
        elif each["kind"] == predictions.NEVER_USED:
            assert each["peak"] == peak(
                [life(row) for row in rows if row["site"] != mine or "last" in row]
            )
    places = {each["place"]["line"] for each in found if each["kind"] == predictions.NEVER_USED}
    whole = peak([life(row) for row in rows])
    for line, site in SITES.items():
        without = peak([life(row) for row in rows if row["site"] != site or "last" in row])
        assert (line in places) == (without < whole), "all that saves anything is there"


# ---- kinds, each on a small trace ----


def kinds(found: Sequence[dict[str, Any]]) -> dict[str, int]:
    return {each["kind"]: each["place"]["line"] for each in found}


def test_what_is_held_after_its_last_use_is_to_be_freed_earlier(tmp_path: Path) -> None:
    rows = [
        {"birth": 10, "size": 1 << 20, "site": 3, "first": 11, "last": 20, "free": 900},
        {"birth": 500, "size": 1 << 20, "site": 2, "first": 501, "last": 899, "free": 901},
    ]
    (change,) = predicted(rows, tmp_path)
    assert (change["kind"], change["place"]["line"]) == ("free-earlier", 7)
    assert change["peak"] == change["peak_high"] == 1 << 20
    assert change["at_peak"] == 1 << 20


def test_what_is_read_to_be_freed_is_no_use_and_sure_only_in_code_that_frees(
    tmp_path: Path,
) -> None:
    late: Row = {"birth": 10, "size": 1 << 20, "site": 3, "first": 11, "torn": 20, "last": 899}
    rows = [
        {**late, "free": 900, "free_site": 1},
        {"birth": 500, "size": 1 << 20, "site": 2, "first": 501, "last": 899, "free": 901},
    ]
    (change,) = predicted(rows, tmp_path)
    assert (change["peak"], change["peak_high"]) == (1 << 20, 2 << 20)
    assert change["teardown"]


@pytest.mark.parametrize(
    ("function", "frees"),
    [
        ("std::map<int, Order>::~map()", True),
        ("std::_Rb_tree<int, Free>::_M_erase(std::_Rb_tree_node<int>*)", True),
        ("list_free", True),
        ("void run<Deleter>(Freed)", False),
        ("main", False),
    ],
)
def test_names_of_functions_that_free(function: str, frees: bool) -> None:
    assert bool(SURE_TEARDOWN.search(bare_name(function))) is frees


def test_the_next_highest_moment_bounds_what_a_change_brings(tmp_path: Path) -> None:
    rows = [
        {"birth": 10, "size": 2 << 20, "site": 3, "first": 11, "last": 12, "free": 100},
        {"birth": 50, "size": 2 << 20, "site": 2, "first": 51, "last": 99, "free": 100},
        {"birth": 500, "size": 3 << 20, "site": 1, "first": 501, "last": 899, "free": 900},
    ]
    (change,) = predicted(rows, tmp_path)
    assert (change["at_peak"], change["peak"]) == (2 << 20, 3 << 20)


def test_what_is_never_used_need_not_be_made(tmp_path: Path) -> None:
    rows = [
        {"birth": 10, "size": 1 << 20, "site": 3, "free": 900},
        {"birth": 20, "size": 1 << 20, "site": 2, "first": 21, "last": 899, "free": 900},
    ]
    (change,) = predicted(rows, tmp_path)
    assert (change["kind"], change["place"]["line"], change["peak"]) == ("never-used", 7, 1 << 20)


def test_what_lies_behind_the_last_touched_byte_need_not_be_asked_for(tmp_path: Path) -> None:
    uses = {"first": 20, "last": 899, "free": 900}
    rows: list[Row] = [
        {"birth": 10, "size": 1 << 20, "touched": 1000, "site": 3, **uses},
        {"birth": 20, "size": 1 << 20, "touched": 600_000, "site": 2, **uses},
        {"birth": 20, "size": 1 << 20, "site": 1, **uses},
    ]
    (change,) = predicted(rows, tmp_path)
    assert (change["kind"], change["place"]["line"]) == ("untouched", 7)
    assert change["peak"] == (2 << 20) + 1000
    assert change["at_peak"] == (1 << 20) - 1000


def test_what_grows_and_is_never_freed_is_a_leak(tmp_path: Path) -> None:
    rows = [
        {"birth": 100 * n, "size": 4096, "site": 3, "first": 100 * n, "last": 100 * n + 9}
        for n in range(1, 400)
    ]
    (change,) = predicted(rows, tmp_path)
    assert (change["kind"], change["place"]["line"], change["peak"]) == ("leak", 7, 4096)


def test_a_buffer_that_is_copied_into_larger_ones_is_to_be_reserved(tmp_path: Path) -> None:
    step = 128 << 10
    rows = [
        {
            "birth": 1000 * n,
            "size": step * n,
            "site": 3,
            "first": 1000 * n,
            "last": 1000 * (n + 1) + 50,
            "free": 1000 * (n + 1) + 60,
        }
        for n in range(1, 9)
    ]
    change = next(each for each in predicted(rows, tmp_path) if each["kind"] == "reserve")
    assert change["place"]["line"] == 7
    assert change["links"] == 7
    assert change["peak"] == 8 * step, "the last size, from the start"
    assert change["copy_instructions"] == 7 * 60
    rows[-1]["touched"] = 7 * step + 1
    (tighter,) = (
        each for each in predicted(rows, tmp_path / "touched") if each["kind"] == "reserve"
    )
    assert tighter["peak"] == 7 * step + 1, "no more than is used of it"


def test_two_buffers_that_take_turns_do_not_grow(tmp_path: Path) -> None:
    rows = [
        {"birth": 1000 * n, "size": 4096 + n % 2, "site": 3, "first": 1000 * n,
         "last": 1000 * n + 1050, "free": 1000 * n + 1060}
        for n in range(1, 9)
    ]  # fmt: skip
    frame = objects_frame(rows)
    (process,) = processes(frame.lazy(), [])
    assert copying.chains(frame.lazy(), process, [3]).links == 0


def test_small_objects_that_die_soon_and_those_that_others_free_are_counted(
    tmp_path: Path,
) -> None:
    rows: list[Row] = [
        {"birth": 10 * n, "size": 16, "site": site, "first": 10 * n, "last": 10 * n + 1,
         "free": 10 * n + 2, "free_thread": thread}
        for n in range(1, 50) for site, thread in ((3, 1), (2, 2))
    ]  # fmt: skip
    found = predicted(rows, tmp_path)
    assert kinds(found) == {"short-lived": 7, "cross-thread": 20}
    assert {each["calls"] for each in found} == {49}


def test_calls_cost_what_they_take_at_their_own_sites(tmp_path: Path) -> None:
    """Objects of site 3, of which site 1 frees two thirds and site 2 the rest."""
    rows: list[Row] = [
        {"birth": 10 * n, "size": 16, "site": 3, "first": 10 * n, "last": 10 * n + 1,
         "free": 10 * n + 2, "free_site": 2 if n % 3 == 0 else 1}
        for n in range(1, 49)
    ]  # fmt: skip
    counted = sites_frame().with_columns(
        calls=pl.Series([40, 20, 50], dtype=pl.UInt64),
        instructions=pl.Series([4000, 6000, 3500], dtype=pl.UInt64),
    )
    (change,) = predicted(rows, tmp_path, sites=counted)
    assert change["malloc_instructions"] == 70
    assert change["free_instructions"] == pytest.approx((100 * 2 + 300) / 3)
    uncounted = counted.with_columns(calls=pl.Series([None, 20, 50], dtype=pl.UInt64))
    (change,) = predicted(rows, tmp_path / "uncounted", sites=uncounted)
    assert change["malloc_instructions"] == 70
    assert change["free_instructions"] is None


def test_a_healthy_program_has_nothing_to_change(tmp_path: Path) -> None:
    rows = [
        {"birth": 10 * n, "size": 4096, "site": n % 3 + 1, "first": 10 * n, "last": 9000 + n,
         "free": 9001 + n, "free_thread": 1}
        for n in range(1, 500)
    ]  # fmt: skip
    assert predicted(rows, tmp_path) == []


# ---- parts of one structure ----


def spot(line: int, idle: int, torn: int, born: tuple[int, int], ended: tuple[int, int]) -> Spot:
    times = dict(zip(("born_first", "born_last", "ended_first", "ended_last"), (*born, *ended),
                     strict=True))  # fmt: skip
    made = Spot(Place("f", "a.c", line), [line], times=times)
    made.sums |= {"idle_bytes": idle, "torn_bytes": torn}
    return made


def test_nodes_and_what_they_point_to_are_one_structure() -> None:
    nodes = spot(1, 100, 100, (0, 90_000), (500_000, 600_000))
    strings = spot(2, 300, 0, (10, 90_010), (500_010, 600_010))
    table = spot(3, 50, 50, (0, 0), (600_020, 600_020))
    others = spot(4, 70, 0, (95_000, 180_000), (605_000, 700_000))
    alone = spot(5, 60, 0, (0, 0), (600_020, 600_020))
    joined = {one.place.line: one for one in structures([nodes, strings, table, others, alone])}
    assert set(joined) == {1, 4, 5}
    assert joined[1].sums["idle_bytes"] == 450
    assert {place.line for place in joined[1].others} == {2, 3}
    assert sorted(joined[1].sites) == [1, 2, 3]


def test_the_one_of_several_callers_is_named_for_which_memory_is_held_in_vain(
    tmp_path: Path,
) -> None:
    """Sites 3 and 5 allocate in one function, called at two lines; 5's objects are used to the
    end."""
    frames = [("main", 3), ("keep", 8), ("copy", 20), ("set", 30), ("copy", 20)]
    callers = {1: None, 2: 1, 3: 2, 4: 1, 5: 4}
    sites = pl.DataFrame(
        [
            (0, site, callers[site], *(frames[site - 1][0], "/bin/prog", "prog.c"),
             frames[site - 1][1], 16 * site, 0, None, None)
            for site in callers
        ],
        schema=SITE_COLUMNS,
        orient="row",
    )  # fmt: skip
    rows: list[Row] = [
        {"birth": 1, "size": 1 << 20, "site": 3, "first": 2, "last": 3},
        {"birth": 4, "size": 1 << 20, "site": 5, "first": 5, "last": END},
    ]
    [change] = predicted(rows, tmp_path, sites=sites)
    assert change["place"]["function"] == "copy"
    assert (change["caller"]["function"], change["caller"]["line"]) == ("keep", 8)
    rows[1]["last"] = 6
    [change] = predicted([*rows, {"birth": 9, "size": 9}], tmp_path / "both", sites=sites)
    assert change["caller"] is None
