"""Heap traces that lie, lack files, or cannot be written or moved."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tare.__main__ import run as tare_command
from tare.base.errors import UsageError
from tare.heap_traces.facts import facts_of
from tare.heap_traces.invariants import violations
from tare.heap_traces.trace import STORED, TABLES, VERSION, Trace, arrow_schema, open_trace
from tare.report.trace_summary import summary_report
from tare.studykit.replayer import name_of
from tests.support.traces import put_table
from tests.unit.heap_traces.recorded import edit_meta


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a heap trace"):
        open_trace(tmp_path)
    with pytest.raises(UsageError, match="is not a heap trace"):
        open_trace(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a heap trace"):
        open_trace(tmp_path / "file")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"format": "x"}', "[" * 100_000, "\udcff"])
def test_a_meta_file_that_is_none(small: Trace, text: str) -> None:
    (small.folder / "meta.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"meta\.json"):
        open_trace(small.folder)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"version": VERSION + 1}, f"this Tare reads up to {VERSION}"),
        ({"version": "1"}, f"this Tare reads up to {VERSION}"),
        ({"version": True}, f"this Tare reads up to {VERSION}"),
        ({"objects": 4}, "do not add up"),
        ({"objects": -1}, "must be a number of 64 bits"),
        ({"objects": 1 << 70}, "must be a number of 64 bits"),
        ({"objects": True}, "must be a number of 64 bits"),
        ({"objects": 3.0}, "objects: must be a number of 64 bits"),
        ({"complete": 1}, "complete: must be true or false"),
        ({"observed": [1]}, "observed: must be a list of strings"),
        ({"processes": [{}]}, "processes 1: process: is missing"),
        ({"processes": [None]}, "processes 1: must be a table"),
        ({"processes": []}, "do not add up"),
        ({"program": "gawk"}, "program: must be a table"),
        ({"wall_seconds": math.nan}, "NaN is not a number"),
    ],
)
def test_a_meta_file_that_lies(small: Trace, fields: Mapping[str, Any], complaint: str) -> None:
    edit_meta(small, **fields)
    with pytest.raises(UsageError, match=complaint):
        open_trace(small.folder)


@pytest.mark.parametrize("value", ["", -1, 1e30, 1 << 64, None, True])
def test_a_clock_that_cannot_be(small: Trace, value: Any) -> None:
    edit_meta(small, processes=[{**small.processes[0], "nanoseconds": value}])
    with pytest.raises(UsageError, match="processes 1: nanoseconds: must be a number of 64 bits"):
        open_trace(small.folder)


def test_a_name_that_is_no_text_can_be_written(small: Trace) -> None:
    edit_meta(small, manager="\ud800", program={"name": "p\udcff"})
    trace = open_trace(small.folder)
    facts = facts_of(trace)
    assert facts["programs"][0]["name"] == name_of(trace) == "p\\udcff"
    assert facts["baseline"] == "\\ud800"


@pytest.mark.parametrize(
    "fields", [{"wall_seconds": "1"}, {"sample_bytes": "1"}, {"jvm": {}}, {"max_live_bytes": "1"}]
)
def test_a_summary_of_another_kind_gives_a_message(small: Trace, fields: Mapping[str, Any]) -> None:
    edit_meta(small, **fields)
    with pytest.raises(UsageError, match="damaged"):
        summary_report(open_trace(small.folder))


def test_a_trace_of_another_recorder_has_a_summary(small: Trace) -> None:
    meta = json.loads((small.folder / "meta.json").read_text())
    del meta["allocating_sites"]
    (small.folder / "meta.json").write_text(json.dumps(meta))
    assert "–" in str(summary_report(open_trace(small.folder)).sections[0].tables[0])


def test_a_column_with_gaps_that_it_cannot_have(small: Trace) -> None:
    path = small.folder / "objects.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("size")
    gaps = pa.nulls(table.num_rows, pa.uint64())
    put_table(small.folder, "objects", table.set_column(place, pa.field("size", pa.uint64()), gaps))
    with pytest.raises(UsageError, match="size is empty in some rows"):
        open_trace(small.folder)


def test_a_meta_file_that_counts_other_objects(small: Trace) -> None:
    process = {**small.processes[0], "objects": 5}
    edit_meta(small, objects=5, processes=[process])
    with pytest.raises(UsageError, match=r"counts 5 objects, and objects\.parquet has 3"):
        open_trace(small.folder)
    edit_meta(small, objects=3, processes=[{**process, "objects": 3, "process": 1}])
    with pytest.raises(UsageError, match="not numbered"):
        open_trace(small.folder)


@pytest.mark.parametrize("name", TABLES)
def test_files_that_are_missing_cut_off_or_of_another_kind(small: Trace, name: str) -> None:
    path = small.folder / f"{name}.parquet"
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[:-4], whole[: len(whole) // 2], b"x" * 1000):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=f"{name}.parquet was changed after it was written"):
            open_trace(small.folder)
    put_table(small.folder, name, pa.table({"process": [1]}))
    with pytest.raises(UsageError, match="does not have the columns"):
        open_trace(small.folder)
    path.unlink()
    with pytest.raises(UsageError, match=f"{name}.parquet is missing"):
        open_trace(small.folder)


def rewrite(trace: Trace, name: str, **columns: list[int | None]) -> None:
    """The table with other values in some columns."""
    path = trace.folder / f"{name}.parquet"
    schema = arrow_schema(STORED[name])
    table = pq.read_table(path)
    for column, values in columns.items():
        place = table.column_names.index(column)
        table = table.set_column(place, column, pa.array(values, schema.field(column).type))
    put_table(trace.folder, name, table.cast(schema))


@pytest.mark.parametrize(
    ("name", "columns", "found"),
    [
        ("objects", {"site": [2, 1, 3]}, "a site that is not there"),
        ("objects", {"id": [1, 2, 2]}, "an id that is not the next"),
        ("objects", {"process": [0, 0, 7]}, "an object of a process that is not there"),
        ("objects", {"process": [1, 0, 0]}, "a process out of order"),
        ("sites", {"caller": [2, 1]}, "a site whose caller does not come before it"),
    ],
)
def test_values_that_lie(
    small: Trace, name: str, columns: dict[str, list[int | None]], found: str
) -> None:
    rewrite(small, name, **columns)
    assert found in violations(open_trace(small.folder))


@pytest.mark.thorough
def test_sites_that_call_each_other_come_to_an_end(small: Trace) -> None:
    rewrite(small, "sites", caller=[2, 1])
    trace = open_trace(small.folder)
    assert 2 <= len(trace.frames_of(0, 2)) <= 10_000
    assert trace.site_frames().height == 2


def test_stacks_too_deep_to_list_are_told(small: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.heap_traces.trace._MOST_FRAMES_LISTED", 2)
    with pytest.raises(UsageError, match="too deep"):
        small.site_frames()


def test_an_interval_that_would_not_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert tare_command(["trace", "--reachability", "8B", "--", "true"]) == 2
    assert "64KiB" in capsys.readouterr().err


@pytest.mark.usefixtures("recorder")
def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    target = str(tmp_path / "file" / "t.tare")
    assert tare_command(["trace", "-o", target, "--", "true"]) == 4
    assert "cannot write" in capsys.readouterr().err


def test_a_trace_can_be_moved(small: Trace, tmp_path: Path) -> None:
    shutil.move(small.folder, tmp_path / "elsewhere [1]*.tare")
    moved = open_trace(tmp_path / "elsewhere [1]*.tare")
    assert moved.objects().collect().height == 3
