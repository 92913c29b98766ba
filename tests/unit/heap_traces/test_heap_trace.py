"""Heap traces: made of recordings, opened, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.base.errors import TareError
from tare.heap_traces import conversion, matching
from tare.heap_traces.conversion import convert
from tare.heap_traces.invariants import violations
from tare.heap_traces.recording import Frame
from tare.heap_traces.trace import (
    CLOCKS,
    OPERATIONS,
    STORED,
    TABLES,
    Trace,
    arrow_schema,
    open_trace,
)
from tare.heap_traces.writing import TableWriter
from tare.heap_traces.writing import numbers as written
from tests.support import ROOT
from tests.support.recordings import lively_program, numbers, write_process
from tests.support.traces import put_table
from tests.unit.heap_traces.recorded import FACTS, births, converted, deaths, lively

CLOCKED = ("first_use", "last_use", "unreachable", "free")


def filled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def test_every_column_of_a_small_trace(small: Trace) -> None:
    rows = small.objects().collect().to_dicts()
    assert list(rows[0]) == list(TABLES["objects"])
    assert [filled(row) for row in rows] == [
        {
            "process": 0,
            "id": 1,
            "operation": "malloc",
            "thread": 0,
            "site": 2,
            "size": 100,
            "usable_size": 104,
            "birth_instructions": 10,
            "birth_bytes": 100,
            "first_use_instructions": 12,
            "first_use_bytes": 100,
            "last_use_instructions": 25,
            "last_use_bytes": 108,
            "free_instructions": 30,
            "free_bytes": 124,
        },
        {
            "process": 0,
            "id": 2,
            "operation": "calloc",
            "thread": 0,
            "site": 1,
            "size": 8,
            "birth_instructions": 20,
            "birth_bytes": 108,
            "free_instructions": 35,
            "free_bytes": 124,
        },
        {
            "process": 0,
            "id": 3,
            "operation": "realloc",
            "thread": 0,
            "size": 16,
            "usable_size": 24,
            "alignment": 64,
            "resized_from": 1,
            "birth_instructions": 30,
            "birth_bytes": 124,
            "first_use_instructions": 31,
            "first_use_bytes": 124,
            "last_use_instructions": 40,
            "last_use_bytes": 124,
        },
    ]


def test_the_other_tables_of_a_small_trace(small: Trace) -> None:
    assert small.sites().collect().rows() == [
        (0, 1, None, "main", "/bin/x", "", None, 64, 9, None, None),
        (0, 2, 1, "inner", "/bin/x", "x.c", 7, 99, 5, None, None),
    ]
    assert small.pointers().collect().rows() == [(0, 15, None, 0, 1)]
    assert small.events().collect().rows() == [
        (0, 0, None, 0, "start", None, None, None, None),
        (0, 20, None, 20, "mark", 20, 0, 0, 0),
        (0, 1030, None, 124, "end", None, None, None, None),
    ]
    assert (small.meta["complete"], small.meta["reason"], small.meta["objects"]) == (True, "", 3)
    assert (small.meta["sites"], small.meta["allocating_sites"]) == (2, 2)
    assert violations(small) == {}


def test_stacks_are_innermost_first(small: Trace) -> None:
    inner = {"function": "inner", "object": "/bin/x", "file": "x.c", "line": 7, "offset": 5}
    main = {"function": "main", "object": "/bin/x", "file": "", "line": None, "offset": 9}
    assert small.frames_of(0, 2) == [inner, main]
    assert small.stacks([(0, 1), (0, 3), (1, 1), (0, 2)]) == [[main], [], [], [inner, main]]
    assert small.site_frames().to_dicts() == [
        {"process": 0, "site": 1, "frames": [main]},
        {"process": 0, "site": 2, "frames": [inner, main]},
    ]


def test_clocks_may_be_stored_as_they_are(small: Trace) -> None:
    clocks = small.objects().collect()
    schema = arrow_schema(TABLES["objects"])
    put_table(small.folder, "objects", clocks.to_arrow().cast(schema))
    again = open_trace(small.folder)
    assert again.objects().collect().equals(clocks)
    assert violations(again) == {}


def test_the_view_for_duckdb_gives_the_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements of docs/trace.md and of its example, on a trace of that name."""
    lively(tmp_path, 2000)
    trace = converted(tmp_path / "recording")
    trace.folder.rename(tmp_path / "NAME.tare")
    page = (ROOT / "docs" / "trace.md").read_text()
    view = (ROOT / "docs" / "examples" / "clocks.sql").read_text()
    query = page.split("```sql\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        connection.execute(view)
        moments = ", ".join(f"{moment}_{clock}" for moment in CLOCKED for clock in CLOCKS)
        found = connection.execute(f"select {moments} from objects order by id").fetchall()
        moved = open_trace(tmp_path / "NAME.tare").objects().collect()
        assert found == moved.select(moments.split(", ")).rows()
        assert len(connection.execute(query).fetchall()) == 10


@pytest.mark.parametrize("name", TABLES)
def test_duckdb_and_polars_read_the_files_by_themselves(small: Trace, name: str) -> None:
    file = small.folder / f"{name}.parquet"
    frame = pl.read_parquet(file)
    assert frame.columns == list(STORED[name])
    relation = duckdb.read_parquet(str(file))
    assert relation.columns == list(STORED[name])
    assert relation.fetchall() == frame.rows()


def test_columns_are_encoded_as_takes_least_room(tmp_path: Path) -> None:
    """Numbers that grow, of few values, that repeat as a whole, and as lifetimes are."""
    rows = 20_000
    random = np.random.default_rng(1)
    pattern = np.tile(random.integers(1, 1 << 40, 500, np.uint64), rows // 500)
    columns = {
        "process": np.zeros(rows, np.uint64),
        "instructions": np.arange(rows, dtype=np.uint64) * np.uint64(3),
        "source": random.integers(1, 4, rows, np.uint64),
        "offset": pattern,
        "target": np.exp(random.normal(10, 3, rows)).astype(np.uint64) + np.uint64(1),
    }
    with TableWriter(tmp_path, "pointers") as table:
        table.write(
            {
                name: written(values, kind="u32" if name == "process" else "u64")
                for name, values in columns.items()
            }
        )
    file = tmp_path / "pointers.parquet"
    group = pq.read_metadata(file).row_group(0)
    chosen = {
        group.column(number).path_in_schema: set(group.column(number).encodings)
        for number in range(group.num_columns)
    }
    assert "DELTA_BINARY_PACKED" in chosen["instructions"]
    assert "RLE_DICTIONARY" in chosen["source"]
    assert "RLE_DICTIONARY" not in chosen["offset"]
    assert "BYTE_STREAM_SPLIT" in chosen["target"]
    read = duckdb.read_parquet(str(file)).fetchnumpy()
    for name, values in columns.items():
        assert np.array_equal(read[name], values)
        assert np.array_equal(pl.read_parquet(file)[name].to_numpy(), values)


def test_a_trace_says_what_the_recording_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several row groups, batches of deaths, and blocks of the clock more than are kept."""
    monkeypatch.setattr("tare.heap_traces.recording.BATCH_ROWS", 1 << 14)
    monkeypatch.setattr("tare.heap_traces.writing.BATCH_ROWS", 1 << 14)
    monkeypatch.setattr(matching, "_CLOCK_BLOCK", 1 << 10)
    tables = lively(tmp_path, 100_000)
    trace = converted(tmp_path / "recording")
    assert pq.read_metadata(trace.folder / "objects.parquet").num_row_groups == 7
    found = trace.objects().collect()
    assert found["id"].to_list() == list(range(1, 100_001))
    born, bytes_ = tables["births"]["instructions"], tables["births"]["bytes"]
    by_id = np.argsort(tables["deaths"]["id"])
    for name in ("instructions", "bytes"):
        assert np.array_equal(found[f"birth_{name}"], tables["births"][name])
    for name in ("size", "usable_size", "site"):
        assert np.array_equal(found[name], tables["births"][name])
    for name in ("first_use", "last_use"):
        times = tables["deaths"][name][by_id]
        assert np.array_equal(found[f"{name}_instructions"].fill_null(0), times)
        clock = np.where(times == 0, 0, bytes_[np.searchsorted(born, times, side="right") - 1])
        assert np.array_equal(found[f"{name}_bytes"].fill_null(0), clock)
        assert 0 < found[f"{name}_bytes"].null_count() < 20_000
    for name in ("free_instructions", "free_bytes"):
        assert np.array_equal(found[name].fill_null(0), tables["deaths"][name][by_id])
    assert trace.meta["complete"] is True
    assert violations(trace) == {}
    stacks = trace.site_frames()
    assert stacks.height == 300
    assert stacks.row(299)[2] == trace.frames_of(0, 300)


@pytest.mark.thorough
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 9), *[st.integers(0, 60)] * 3), max_size=40
    )
)
def test_the_bytes_clock_of_a_use_against_a_naive_one(
    tmp_path_factory: pytest.TempPathFactory, objects: list[tuple[int, int, int, int, int]]
) -> None:
    recording = tmp_path_factory.mktemp("t") / "recording"
    times = np.cumsum([1, *(later for later, *_ in objects)])[1:].tolist()
    sizes = [size for _, size, *_ in objects]
    rows = []
    for number, (born, (_, _, first, more, kept)) in enumerate(zip(times, objects, strict=True), 1):
        used = first % 5 != 0
        uses = (born + first, born + first + more) if used else (0, 0)
        freed = 0 if kept % 3 == 0 else born + first + more + kept
        rows.append((number, *uses, freed, sum(sizes) if freed else 0))
    write_process(
        recording,
        births=births(*times, size=sizes),
        deaths=deaths(*rows[::-1]),
        block_rows=7,
    )
    trace = converted(recording)
    assert violations(trace) == {}
    for row, (_, first, last, freed, _) in zip(
        trace.objects().collect().to_dicts(), rows, strict=True
    ):
        for name, time in (("first_use", first), ("last_use", last)):
            naive = sum(size for size, born in zip(sizes, times, strict=True) if born <= time)
            assert row[f"{name}_bytes"] == (naive if time else None)
        assert row["free_instructions"] == (freed or None)


# ---- recordings that are not whole ----


def test_no_objects_at_all(tmp_path: Path) -> None:
    write_process(tmp_path / "recording")
    trace = converted(tmp_path / "recording")
    assert trace.objects().collect().height == 0
    assert trace.meta["complete"] is True
    assert trace.site_frames().schema["frames"].inner.is_nested()  # type: ignore[attr-defined]
    assert trace.site_frames().height == 0
    assert violations(trace) == {}


def test_no_process_at_all(tmp_path: Path) -> None:
    (tmp_path / "recording").mkdir()
    trace = converted(tmp_path / "recording")
    assert trace.meta["reason"] == "the instrument wrote no recording"
    assert (trace.meta["complete"], trace.objects().collect().height) == (False, 0)


def test_a_killed_process_leaves_a_readable_trace(tmp_path: Path) -> None:
    tables = lively_program(20_000)
    tables["deaths"] = {name: values[:5000] for name, values in tables["deaths"].items()}
    write_process(tmp_path / "recording", end="running", **tables)
    for name in ("births", "deaths", "sites"):
        path = tmp_path / "recording" / f"100.0.{name}"
        path.write_bytes(path.read_bytes()[:-3])
    trace = converted(tmp_path / "recording", "it was still running at the time limit")
    assert trace.meta["reason"] == "it was still running at the time limit"
    assert trace.meta["complete"] is False
    assert trace.processes[0]["complete"] is False
    found = trace.objects().collect()
    assert 15_000 < found.height < 20_000
    assert found["free_instructions"].null_count() > found.height - 5000
    assert found["site"].null_count() == found.height  # its only block of sites was cut off
    assert any("births" in text for text in trace.meta["damage"])
    assert any("call sites" in text for text in trace.meta["damage"])
    assert violations(trace) == {}


def test_a_child_that_was_killed_is_told(tmp_path: Path) -> None:
    write_process(tmp_path / "recording", pid=10, births=births(1, 2))
    write_process(tmp_path / "recording", pid=11, parent=10, end="running", births=births(5))
    trace = converted(tmp_path / "recording")
    assert trace.meta["reason"] == "process 11 (/bin/program) was killed"


def test_deaths_of_objects_that_were_not_recorded_are_left_out(tmp_path: Path) -> None:
    far = (1 << 64) - 1
    write_process(
        tmp_path / "recording",
        births=births(1, 2),
        deaths=deaths((2, 3, 4, 5, 16), (3, 3, 4, 5, 16), (0, 1, 1, 1, 1), (far, 1, 1, 1, 1)),
    )
    trace = converted(tmp_path / "recording")
    assert trace.objects().collect()["last_use_instructions"].to_list() == [None, 4]
    assert "3 deaths belong to objects whose births are missing" in trace.meta["reason"]


def test_of_two_deaths_of_an_object_the_last_counts(tmp_path: Path) -> None:
    write_process(
        tmp_path / "recording",
        births=births(1, 2),
        deaths=deaths((1, 3, 4, 0, 0), (2, 3, 5, 7, 16), (1, 3, 6, 8, 16)),
    )
    trace = converted(tmp_path / "recording")
    assert trace.objects().collect()["last_use_instructions"].to_list() == [6, 5]
    assert trace.objects().collect()["free_instructions"].to_list() == [8, 7]


def test_sites_and_frames_that_are_missing(tmp_path: Path) -> None:
    write_process(
        tmp_path / "recording",
        births=births(1, 2, 3, site=[1, 2, 7]),
        sites={"caller": numbers(0, 1), "frame": numbers(0, 900), "address": numbers(1, 2)},
        frames=[{"function": "main", "object": "", "file": "", "line": 1, "offset": 0}],
    )
    trace = converted(tmp_path / "recording")
    assert trace.objects().collect()["site"].to_list() == [1, 2, None]
    assert trace.sites().collect()["function"].to_list() == ["main", ""]
    assert "the call sites of 1 objects are missing" in trace.meta["reason"]


def test_inlined_functions_have_sites_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three calls the second lies in a function that two others have inlined."""

    def unfold(frames: Sequence[Frame]) -> list[list[Frame]]:
        return [
            [Frame(f"{frame.offset}{way}", frame.object, "x.c", frame.offset, frame.offset)
             for way in ("abc" if frame.offset == 6 else "a")]
            for frame in frames
        ]  # fmt: skip

    monkeypatch.setattr("tare.heap_traces.conversion.unfold", unfold)
    monkeypatch.setattr("tests.support.recordings.BLOCK_ROWS", 2)
    write_process(
        tmp_path / "recording",
        births=births(1, 2, 3, 4, 5, site=[1, 2, 3, 0, 4]),
        deaths=deaths((1, 0, 0, 7, 40)) | {"free_site": numbers(3)},
        sites={
            "caller": numbers(0, 1, 2, 1),
            "frame": numbers(0, 1, 2, 1),
            "address": numbers(50, 60, 70, 61),
        },
        frames=[{"object": "/bin/x", "offset": offset} for offset in (5, 6, 7)],
    )
    (tmp_path / "named").mkdir()
    convert(tmp_path / "recording", tmp_path / "named", FACTS | {"observer": "recorder"})
    trace = open_trace(tmp_path / "named")
    table = trace.objects().collect()
    found = trace.stacks([(0, site) for site in table["site"].fill_null(0)])
    stacks = [[frame["function"] for frame in stack] for stack in found]
    assert stacks == [
        ["5a"], ["6a", "6b", "6c", "5a"], ["7a", "6a", "6b", "6c", "5a"], [],
        ["6a", "6b", "6c", "5a"],
    ]  # fmt: skip
    assert table["free_site"][0] == table["site"][2]
    assert trace.sites().collect()["address"].to_list() == [50, 60, 60, 60, 70, 61, 61, 61]
    assert (trace.meta["sites"], trace.meta["allocating_sites"]) == (8, 4)
    assert violations(trace) == trace.meta["violations"] == {}


def test_a_site_before_its_caller_ends_the_sites(tmp_path: Path) -> None:
    callers = {"caller": numbers(2, 1), "frame": numbers(0, 0), "address": numbers(1, 2)}
    write_process(tmp_path / "recording", births=births(1, site=[1]), sites=callers)
    trace = converted(tmp_path / "recording")
    assert trace.sites().collect().height == 0
    assert trace.objects().collect()["site"].to_list() == [None]
    assert trace.meta["complete"] is False


def test_processes_follow_each_other(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    write_process(recording, pid=900, serial=0, end="exec", births=births(5, 6))
    write_process(recording, pid=900, serial=1, births=births(1, 2, 3), program="/bin/next")
    write_process(recording, pid=20, parent=900, births=births(9))
    write_process(recording, pid=21, parent=900)
    trace = converted(recording)
    assert trace.objects().collect().select("process", "id").rows() == [
        *((0, 1), (0, 2)),
        *((1, 1), (1, 2), (1, 3)),
        (2, 1),
    ]
    assert [p["end"] for p in trace.processes] == ["exec", "exit", "exit", "exit"]
    assert [p["objects"] for p in trace.processes] == [2, 3, 1, 0]
    assert trace.processes[1]["program"] == "/bin/next"
    assert trace.meta["complete"] is True
    assert violations(trace) == {}


BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a first use before the birth": (births(10), deaths((1, 9, 11, 0, 0))),
    "a last use before the first": (births(10), deaths((1, 12, 11, 0, 0))),
    "a first use without a last, or a last without a first": (births(9), deaths((1, 9, 0, 0, 0))),
    "a last use after the free": (births(10), deaths((1, 11, 13, 12, 8))),
    "a free before the birth": (births(10), deaths((1, 0, 0, 9, 8))),
    "a free before the birth, in bytes": (births(10), deaths((1, 0, 0, 11, 7))),
    "resized from an object that is not older": (births(10, resized_from=[1]), deaths()),
    "a birth before the one before it": (births(10, 9), deaths()),
    "a birth before the one before it, in bytes": (births(9, 10, bytes=[8, 7]), deaths()),
    "a birth after it was found unreachable": (
        births(10),
        {"id": numbers(1), "unreachable_instructions": numbers(9)},
    ),
    "found unreachable after the free": (
        births(10),
        deaths((1, 0, 0, 11, 8)) | {"unreachable_instructions": numbers(12)},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rows_that_contradict_each_other_are_found_and_told(tmp_path: Path, name: str) -> None:
    born, dead = BROKEN[name]
    write_process(tmp_path / "recording", births=born, deaths=dead)
    trace = converted(tmp_path / "recording")
    assert trace.meta["violations"] == {name: 1}
    assert violations(trace) == {name: 1}
    assert trace.meta["complete"] is False
    assert name in trace.meta["reason"]


def test_an_unknown_operation_is_an_error(tmp_path: Path) -> None:
    write_process(tmp_path / "recording", births=births(1, operation=[len(OPERATIONS)]))
    with pytest.raises(TareError, match="unknown operation"):
        converted(tmp_path / "recording")


def test_a_long_conversion_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_FIRST_NOTE_SECONDS", 0)
    monkeypatch.setattr(conversion, "_NOTE_SECONDS", 0)
    lively(tmp_path, 1000)
    (tmp_path / "t").mkdir()
    notes: list[str] = []
    convert(tmp_path / "recording", tmp_path / "t", FACTS, note=notes.append)
    assert notes == [
        "reading the recording: 1.00 k objects so far",
        "writing the trace: 1.00 k objects so far",
    ]


def test_what_repeats_takes_little_room(tmp_path: Path) -> None:
    """A program that does the same again and again: births, uses and frees at fixed distances."""
    count = 500_000
    times = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(300)
    sizes = np.tile(numbers(16, 24, 24, 100), count // 4)
    bytes_ = np.cumsum(sizes, dtype=np.uint64)
    write_process(
        tmp_path / "recording",
        births={
            "instructions": times,
            "bytes": bytes_,
            "size": sizes,
            "site": np.tile(numbers(1, 2, 3, 4), count // 4),
        },
        deaths={
            "id": np.arange(1, count + 1, dtype=np.uint64),
            "first_use": times + np.uint64(9),
            "last_use": times + np.uint64(200),
            "free_instructions": times + np.uint64(250),
            "free_bytes": bytes_,
        },
        sites={"caller": numbers(0, 0, 0, 0), "frame": numbers(0, 0, 0, 0)},
    )
    assert converted(tmp_path / "recording").size_bytes() / count < 1
