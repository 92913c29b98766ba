"""Who owns the memory, against a naive model, and how small shares are folded."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.heap_traces import ownership, residence
from tare.heap_traces.residence import peak_moment, processes
from tare.heap_traces.trace import open_trace
from tests.support.traces import SITES, objects_frame, write_trace_folder

END = 10_000
Life = tuple[int, int, int | None, int, int | None]
"""Thread, size, how many events it lives (None: to the end), call site, thread that frees it."""
lives = st.tuples(
    st.integers(1, 3),
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(1, 12)),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(1, 3)),
)


def frame_of(drawn: list[Life]) -> pl.DataFrame:
    """A birth every hundred moments, the deaths between them."""
    rows = [
        {
            "birth": 100 * number,
            "size": size,
            "site": site or None,
            "free": None if life is None else 100 * (number + life) - 50 + number,
        }
        for number, (_, size, life, site, _) in enumerate(drawn, 1)
    ]
    frees = [None if life is None else thread for *_, life, _, thread in drawn]
    return objects_frame(rows).with_columns(
        thread=pl.Series([thread for thread, *_ in drawn], dtype=pl.UInt32),
        free_thread=pl.Series(frees, dtype=pl.UInt32),
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(lives, min_size=1, max_size=25))
def test_the_sums_are_those_of_a_naive_model(drawn: list[Life]) -> None:
    frame = frame_of(drawn)
    (process,) = processes(frame.lazy(), [{"process": 0, "instructions": END}])
    moment = peak_moment(frame.lazy(), process)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residence, "BATCH_ROWS", 4)
        found = ownership.by_site(frame.lazy(), process, moment, uses=True)
    expected: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(ownership.SUMS, 0))
    rows = list(frame.iter_rows(named=True))
    held_at = {
        row["birth_instructions"]: sum(
            other["size"]
            for other in rows
            if other["birth_instructions"] <= row["birth_instructions"]
            and (other["free_instructions"] or 1 << 60) > row["birth_instructions"]
        )
        for row in rows
    }
    for row in rows:
        mine, size = expected[row["site"] or 0], row["size"]
        born, freed = row["birth_instructions"], row["free_instructions"]
        calls = [
            time
            for other in rows
            for thread, time in (
                (other["thread"], other["birth_instructions"]),
                (other["free_thread"] or other["thread"], other["free_instructions"]),
            )
            if thread == row["thread"] and time is not None and time > born
        ]
        is_own = row["free_thread"] in (None, row["thread"])
        temporary = freed is not None and is_own and freed == min(calls)
        at_peak = born <= moment and (freed is None or freed > moment)
        for kind, counts in (
            ("", True),
            ("peak_", at_peak),
            ("temporary_", temporary),
            ("never_freed_", freed is None),
        ):
            mine[f"{kind}bytes"] += counts * size
            mine[f"{kind}objects"] += counts
    assert found["site"].to_list() == sorted(expected)
    for row in found.iter_rows(named=True):
        assert {name: row[name] for name in ownership.SUMS} == expected[row["site"]]
        # None of them was ever used.
        assert (row["peak_void"], row["peak_drag"], row["peak_lag"]) == (row["peak_bytes"], 0, 0)
        assert row["peak_idle"] == row["peak_bytes"]
    assert found["peak_bytes"].sum() == max(held_at.values())


def test_drag_and_lag_at_the_peak_are_by_site() -> None:
    frame = objects_frame(
        [
            {"birth": 1, "size": 10, "first": 2, "last": 3, "free": 30, "site": 1},
            {"birth": 4, "size": 20, "first": 25, "last": 26, "free": 30, "site": 2},
            {"birth": 5, "size": 40, "first": 6, "last": 26, "site": 2},
            {"birth": 1, "size": 7, "first": 2, "last": 29, "torn": 3, "free": 30, "site": 3},
            {"birth": 27, "size": 1, "first": 28, "last": 28, "free": 29, "site": 1},
        ]
    )
    (process,) = processes(frame.lazy(), [])
    found = ownership.by_site(frame.lazy(), process, 5, uses=True)
    names = ("peak_bytes", "peak_drag", "peak_lag", "peak_void", "peak_idle")
    rows = [(1, 10, 10, 0, 0, 10), (2, 60, 0, 60, 0, 0), (3, 7, 0, 0, 0, 7)]
    assert found.select("site", *names).rows() == rows, "a last use in teardown is no need"


def owned(
    folder: Path,
    sizes: dict[int, int],
    callers: dict[int, int | None],
    names: dict[int, str] | None = None,
) -> dict[str, Any]:
    """Of a process that allocates once at each site of ``sizes`` and frees nothing; ``names``
    are those of functions."""
    rows = [
        {"birth": number, "size": size, "site": site}
        for number, (site, size) in enumerate(sizes.items(), 1)
    ]
    called = {site: (names or {}).get(site, f"f{site}") for site in callers}
    sites = pl.DataFrame(
        [
            (0, site, caller, called[site], "/bin/prog", "prog.c", site, 16 * site, 0, None, None)
            for site, caller in callers.items()
        ],
        schema=SITES,
        orient="row",
    )
    folder = write_trace_folder(
        folder, objects_frame(rows), sites, observed=("free", "sites"), end_instructions=END
    )
    trace = open_trace(folder)
    (process,) = processes(trace.objects(), trace.processes)
    kept = {site: 2 * size for site, size in sizes.items()}
    return ownership.owners(trace, process, peak_moment(trace.objects(), process), kept)


def test_small_sites_are_folded_into_others_and_thin_stacks_into_their_callers(
    tmp_path: Path,
) -> None:
    many = range(3, 603)  # 600 sites that f2 calls, of 1 byte each
    callers = {1: None, 2: 1, **dict.fromkeys(many, 2), 603: 1}
    found = owned(tmp_path / "t", {603: 99_400, **dict.fromkeys(many, 1)}, callers)
    sums, others = found["totals"], found["others"]
    assert sums["peak_bytes"] == 100_000
    # Each of the small ones is no hundredth of the bytes, nor of the objects.
    (site,) = found["sites"]
    assert site["frames"][0]["function"] == "f603"
    assert (site["peak_bytes"], others["peak_bytes"], others["sites"]) == (99_400, 600, 600)
    assert (site["kept"], others["kept"]) == (198_800, 1200)
    frames = [(frame["function"], frame["line"]) for frame in found["frames"]]
    stacks = {
        tuple(frames[number] for number in stack["stack"]): stack["peak_bytes"]
        for stack in found["stacks"]
    }
    assert stacks == {
        (("f1", None), ("f2", None)): 600,
        (("f1", None), ("f603", None), ("f603", 603)): 99_400,
    }


def test_a_function_that_calls_itself_is_one_frame(tmp_path: Path) -> None:
    found = owned(
        tmp_path / "t",
        {3: 60, 5: 40},
        {1: None, 2: 1, 3: 2, 4: 3, 5: 4},
        dict.fromkeys(range(6), "f"),
    )
    frames = [(frame["function"], frame["line"]) for frame in found["frames"]]
    paths = [[frames[number] for number in stack["stack"]] for stack in found["stacks"]]
    assert paths == [[("f", None), ("f", 3)], [("f", None), ("f", 5)]]


def test_a_site_has_one_name_whoever_observed_it(tmp_path: Path) -> None:
    outermost = ("_start", "__libc_start_main@@GLIBC_2.34", "(below main)", "clone3")
    for number, start in enumerate(outermost):
        folder = tmp_path / str(number)
        found = owned(folder, {3: 8}, {1: None, 2: 1, 3: 2}, names={1: start, 2: "main", 3: "f"})
        (site,) = found["sites"]
        assert [frame["function"] for frame in site["frames"]] == ["f", "main"]
        assert [frame["function"] for frame in found["frames"]] == ["main", "f", "f"]


def test_sites_without_a_stack_are_one(tmp_path: Path) -> None:
    frame = objects_frame([{"birth": 1, "size": 8}, {"birth": 2, "size": 8}])
    trace = open_trace(
        write_trace_folder(tmp_path / "t", frame, observed=("free",), end_instructions=9)
    )
    (process,) = processes(trace.objects(), trace.processes)
    found = ownership.owners(trace, process, 2)
    (site,) = found["sites"]
    assert (site["frames"], site["peak_bytes"], found["others"]["peak_bytes"]) == ([], 16, 0)
    assert found["stacks"] == []
