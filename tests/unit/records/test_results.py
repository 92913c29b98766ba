"""The results folder: nothing measured is lost, and nothing foreign is trusted."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tare.answers.answers import export_text
from tare.answers.building import build_report
from tare.answers.diff import diff
from tare.base.documents import converted
from tare.base.errors import UsageError
from tare.programs.program import program_from_command
from tare.records.header import Header
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.results import (
    MEASUREMENTS_FILE,
    RECORDS_FILE,
    RUN_FILE,
    Store,
    load,
    measurements_frame,
    read_records,
)
from tare.records.runs import Outcome, Record, Run

VALUES = {"wall_seconds": 1.5, "peak_resident_bytes": 1024.0}


def asked(**changes: Any) -> dict[str, Any]:
    program = {
        "name": "p",
        "argv": ["p"],
        "executable": "/p",
        "executable_sha256": "",
        "ignore_output": False,
        "output_sha256": "",
    }
    run = {
        "tare": "0",
        "schema": 1,
        "study": "compare",
        "command": ["tare"],
        "started": "2026-01-01T00:00:00",
        "machine": describe_machine(),
        "managers": {"glibc": {"version": "2", "object": None, "environment": {}}},
        "request": {"programs": [program], "runs": 3},
        "programs": [program],
        "baseline": "glibc",
        "seed": 1,
    }
    return {**run, **changes}


def record(
    order: int,
    manager: str = "glibc",
    status: Status = Status.OK,
    output: str = "aa",
    warmup: bool = False,
) -> Record:
    values = VALUES if status is Status.OK else {}
    run = Run("compare", "p", manager, order, order, warmup)
    return Record(run, Outcome(status, values=values, output_sha256=output), "now")


texts = st.text(max_size=30)
numbers = st.integers(0, (1 << 63) - 1)
outcomes = st.builds(
    Outcome,
    status=st.sampled_from(Status),
    reason=texts,
    values=st.dictionaries(st.sampled_from(sorted(VALUES)), st.floats(0, 1e9), max_size=2),
    exit_code=st.integers(0, 255),
    silent_processes=st.integers(0, 9),
    error_tail=texts,
)


@given(st.builds(Record, st.builds(Run, texts, texts, texts, numbers, numbers), outcomes))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
def test_a_record_reads_back_from_its_line(original: Record) -> None:
    line = original.to_line()
    assert "\n" not in line
    assert Record.from_line(line) == original


def test_rows_of_a_finished_study(tmp_path: Path) -> None:
    with Store(tmp_path / "r", asked(), key="request") as store:
        store.append(record(1, warmup=True))
        store.append(record(2))
        store.append(record(3, status=Status.TIMEOUT))
        store.finish()
    results = load(tmp_path / "r")
    assert results.measurements.height == 3
    ok = results.measurements.filter(pl.col("status") == "ok")
    assert dict(zip(ok["metric"], ok["value"], strict=True)) == VALUES
    late = results.measurements.filter(pl.col("status") == "timeout")
    assert late["value"].to_list() == [None]
    assert not (tmp_path / "r" / ".work").exists()
    assert not (tmp_path / "r" / ".lock").exists()


def test_duckdb_reads_it_in_place(tmp_path: Path) -> None:
    with Store(tmp_path / "r", asked(), key="request") as store:
        store.append(record(1))
        store.finish()
    path = tmp_path / "r" / MEASUREMENTS_FILE
    query = duckdb.sql(f"select metric, value from '{path}' order by metric")
    assert query is not None
    assert query.fetchall() == sorted(VALUES.items())


def test_an_interrupted_folder_is_readable_and_resumes(tmp_path: Path) -> None:
    store = Store(tmp_path / "r", asked(), key="request")
    store.append(record(1))
    store.append(record(2))
    with (tmp_path / "r" / RECORDS_FILE).open("a") as log:
        log.write('{"study": "compare", "pro')  # killed in the middle of a write
    store._lock.close()
    assert load(tmp_path / "r").measurements.height == 4
    with Store(tmp_path / "r", asked(), key="request") as again:
        assert [r.run.order for r in again.records] == [1, 2]
        again.append(record(3))
        again.finish()
    assert [r.run.order for r in read_records(tmp_path / "r")] == [1, 2, 3]
    assert load(tmp_path / "r").measurements.height == 6


def test_what_this_tare_does_not_know_is_kept(tmp_path: Path) -> None:
    document = asked(later={"a": [1, 2.0]}, took_seconds=3)
    document["programs"][0]["later"] = "x"
    Store(tmp_path / "r", document, key="request").close()
    with Store(tmp_path / "r", document, key="request") as store:
        assert (store.run.took_seconds, store.run.programs[0].name) == (3, "p")
        store.update(finished="now")
        assert store.run.finished == "now"
    path = tmp_path / "r" / RUN_FILE
    assert path.read_text() == json.dumps({**document, "finished": "now"}, indent=2) + "\n"
    assert load(tmp_path / "r").document == {**document, "finished": "now"}


def test_a_folder_is_not_resumed_with_another_question(tmp_path: Path) -> None:
    Store(tmp_path / "r", asked(), key="request").close()
    with pytest.raises(UsageError, match="a different command"):
        Store(tmp_path / "r", asked(request={"runs": 4}), key="request")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("x")
    with pytest.raises(UsageError, match="not a results folder"):
        Store(tmp_path / "letters", asked(), key="request")
    assert sorted(p.name for p in (tmp_path / "letters").iterdir()) in (
        [".lock", "dear.txt"],
        ["dear.txt"],
    )


def test_a_pipe_is_no_file_of_a_results_folder(tmp_path: Path) -> None:
    """Whoever opened one would wait for ever."""
    Store(tmp_path / "r", asked(), key="request").close()
    for name in ("runs.jsonl", "measurements.parquet"):
        (tmp_path / "r" / name).unlink(missing_ok=True)
        os.mkfifo(tmp_path / "r" / name)
    assert load(tmp_path / "r").measurements.is_empty()
    (tmp_path / "r" / "run.json").unlink()
    os.mkfifo(tmp_path / "r" / "run.json")
    with pytest.raises(UsageError, match="not a results folder"):
        load(tmp_path / "r")


def test_two_writers_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "r", asked(), key="request"),
        pytest.raises(UsageError, match="another tare"),
    ):
        Store(tmp_path / "r", asked(), key="request")


def test_output_is_held_against_the_baseline() -> None:
    records = [record(1), record(2), record(3, "fast"), record(4, "fast", output="bb")]
    frame = measurements_frame(converted(asked(), Header), records)
    wrong = frame.filter(pl.col("status") == "wrong-output")
    assert wrong["order"].to_list() == [4]
    assert wrong["value"].to_list() == [None]


def test_output_is_held_against_the_expected_hash() -> None:
    (program,) = asked()["programs"]
    run = converted(asked(programs=[{**program, "output_sha256": "cc"}]), Header)
    frame = measurements_frame(run, [record(1), record(2, output="cc")])
    assert frame.filter(pl.col("metric") == "wall_seconds")["status"].to_list() == [
        "wrong-output",
        "ok",
    ]


def test_output_that_varies_under_the_baseline_is_not_compared() -> None:
    records = [record(1), record(2, output="bb"), record(3, "fast", output="cc")]
    assert set(measurements_frame(converted(asked(), Header), records)["status"]) == {"ok"}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"schema": "1"}', "\x00\xff", '{"schema": 1', '{"schema": 99}'],
)
def test_a_bad_run_file_gives_a_message(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError):
        load(tmp_path)


FIELDS = [
    ("tare",), ("study",), ("command",), ("started",), ("machine",), ("programs",), ("managers",),
    ("baseline",), ("seed",), ("machine", "cores"), ("machine", "hypervisor"),
    ("programs", 0, "name"), ("programs", 0, "argv"), ("managers", "glibc", "version"),
    ("command", 0), ("programs", 0, "argv", 0), ("environment",), ("environment", "values"),
    ("took_seconds",), ("observer_seconds",), ("finished",), ("sections",), ("runtime",),
]  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [None, [], {"a": 1}, "text", -1.5, -1, 1e999, "\udc80"])
def test_a_run_file_from_anywhere_gives_a_report_or_a_message(
    tmp_path: Path, field: tuple[str | int, ...], value: Any
) -> None:
    run = json.loads(json.dumps(asked(environment={"values": {}})))
    place = run
    for step in field[:-1]:
        place = place[step]
    place[field[-1]] = value
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / RECORDS_FILE).write_text(record(1).to_line() + "\n")
    with contextlib.suppress(UsageError):
        assert build_report(load(tmp_path)).title
    with contextlib.suppress(UsageError):
        diff(load(tmp_path), load(tmp_path))
    with contextlib.suppress(UsageError):
        export_text(load(tmp_path), "hyperfine")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("values", []),
        ("values", {"wall_seconds": "1"}),
        ("values", {"no_such_metric": 1}),
        ("status", "splendid"),
        ("reason", 5),
        ("error_tail", None),
        ("program", 1),
        ("order", "x"),
        ("order", 1 << 63),
        ("invocation", None),
        ("invocation", -1),
        ("values", {"wall_seconds": float("nan")}),
        ("values", {"wall_seconds": float("inf")}),
        ("values", {"wall_seconds": 1e308}),
        ("values", {"wall_seconds": True}),
        ("observer", {}),
        ("manager", "\ud800"),
        ("details", []),
        ("signal", "9"),
        ("warmup", 1),
        ("started", None),
    ],
)
def test_a_line_from_anywhere_gives_a_message(tmp_path: Path, field: str, value: Any) -> None:
    (tmp_path / "run.json").write_text(json.dumps(asked()))
    line = json.loads(record(1).to_line()) | {field: value}
    (tmp_path / RECORDS_FILE).write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match="line 1"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\n", b"[" * 100_000 + b"\n", b"3\n", b"\0\n"])
def test_a_line_that_is_no_run_gives_a_message(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_text(json.dumps(asked()))
    (tmp_path / RECORDS_FILE).write_bytes(content)
    with pytest.raises(UsageError, match="line 1"):
        load(tmp_path)


def test_a_run_file_that_is_nested_without_end_gives_a_message(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        load(tmp_path)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(asked()))
    (tmp_path / RECORDS_FILE).write_text(record(1).to_line() + "\n" + '{"a": 1}\n')
    with pytest.raises(UsageError, match="line 2"):
        load(tmp_path)


def test_records_newer_than_the_parquet_file_win(tmp_path: Path) -> None:
    with Store(tmp_path / "r", asked(), key="request") as store:
        store.append(record(1))
        store.finish()
    os.utime(tmp_path / "r" / MEASUREMENTS_FILE, (1, 1))
    with (tmp_path / "r" / RECORDS_FILE).open("a") as log:
        log.write(record(2).to_line() + "\n")
    assert load(tmp_path / "r").measurements.height == 4


def test_a_failure_under_an_observer_of_a_later_version_has_a_row(tmp_path: Path) -> None:
    failed = record(1, status=Status.FAILED)
    failed = replace(failed, run=replace(failed.run, observer="later"))
    rows = measurements_frame(converted(asked(), Header), [failed])
    assert rows.select("metric", "value").rows() == [("wall_seconds", None)]


def test_details_that_mean_nothing_give_a_message(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(asked(study="memsys")))
    line = json.loads(record(1).to_line()) | {"study": "memsys", "details": {"models": [3]}}
    (tmp_path / RECORDS_FILE).write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match="damaged"):
        build_report(load(tmp_path))


def test_a_program_whose_arguments_are_no_utf8_has_a_name_that_tables_can_hold() -> None:
    assert program_from_command(["p", "a\udcff"]).name == "p 'a\\udcff'"
