"""Simulated caches under replays: what counts is the replay, and what it touches is known."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import MissingError, UsageError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.observers.instrument import launcher
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.studies.replay.cache import replay_cache
from tests.support.traces import Row, many_objects, objects_frame, write_trace_folder

MIB = 1 << 20
LINE = 64
SWEPT = "marksweep(glibc, every=64KiB)"

try:
    launcher()
except MissingError as error:
    pytest.skip(error.message, allow_module_level=True)


def values_of(results: Results) -> dict[str, dict[str, float]]:
    """By manager; all replays must be good."""
    records = read_records(results.folder)
    assert {record.outcome.status for record in records} == {Status.OK}
    return {record.run.manager: dict(record.outcome.values) for record in records}


def test_lines_that_are_touched_first_miss_all_levels(tmp_path: Path) -> None:
    count = 8
    rows: list[Row] = [{"birth": 10 * n, "size": MIB} for n in range(1, count + 1)]
    trace = write_trace_folder(tmp_path / "t.tare", objects_frame(rows))
    lines = count * MIB // LINE
    missed = {}
    for touch in ("birth", "first-line"):
        results = replay_cache(
            trace,
            ["glibc"],
            models=["two-level"],
            how=How(touch=touch),
            folder=tmp_path / touch,
        )
        missed[touch] = values_of(results)["glibc"]["mutator_memory_misses"]
    assert missed["birth"] - missed["first-line"] == pytest.approx(lines, rel=0.01)
    assert missed["first-line"] < 0.02 * lines


def test_collections_are_told_apart(tmp_path: Path) -> None:
    trace = write_trace_folder(tmp_path / "t.tare", many_objects(10_000))
    results = replay_cache(
        trace, ["glibc", SWEPT], models=["two-level"], folder=tmp_path / "results"
    )
    values = values_of(results)
    assert "collector_memory_misses" not in values["glibc"]
    for name in values:
        parts = [values[name].get(f"{part}_memory_misses", 0) for part in ("mutator", "collector")]
        assert sum(parts) == values[name]["memory_misses"]
    details = {
        record.run.manager: record.outcome.details["models"][0]
        for record in read_records(results.folder)
    }
    phases = details[SWEPT]["phases"]
    assert set(phases) == {"mutator", "collector"}
    assert min(events["instructions"] for events in phases.values()) > 100_000
    told = results.measurements.filter(results.measurements["metric"] == "mutator_memory_misses")
    assert set(told["obtained"]) == {"simulated"}


def test_instructions_are_those_that_callgrind_counts(tmp_path: Path) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("valgrind's own tools are not installed")
    trace = write_trace_folder(tmp_path / "t.tare", many_objects(10_000))
    results = replay_cache(trace, ["glibc"], models=["two-level"], folder=tmp_path / "results")
    (record,) = read_records(results.folder)
    operations = record.outcome.details["models"][0]["operations"]
    found = sum(events["instructions"] for events in operations.values())
    schedule = tmp_path / "schedule"
    compile_trace(open_trace(trace), How(), schedule)
    replayer = native_file("bin/tare-replay")
    tool = [valgrind, "--tool=callgrind", "--toggle-collect=tare_replay_events"]
    tool += [f"--callgrind-out-file={tmp_path / 'counts'}"]
    command = [*tool, str(replayer), "run", "--touch", "birth", str(schedule)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
    )
    collected = re.search(r"Collected : (\d+)", done.stderr)
    assert collected is not None, done.stderr
    assert found == pytest.approx(int(collected[1]), rel=0.005)


def test_what_cannot_be_simulated_is_refused(
    tmp_path: Path, tare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    trace = write_trace_folder(tmp_path / "t.tare", many_objects(100))
    with pytest.raises(UsageError, match="MMTk's collectors are not simulated"):
        replay_cache(trace, ["immix"], folder=tmp_path / "results")
    done = tare("replay", "--model", "two-level", "t.tare")
    assert done.returncode == 2
    assert "add --cache" in done.stderr


def test_the_command_shows_each_part(
    tmp_path: Path, tare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write_trace_folder(tmp_path / "t.tare", many_objects(3_000))
    options = ("-m", "glibc", "-m", SWEPT, "--model", "two-level", "-o", "r")
    done = tare("replay", "--cache", *options, "t.tare")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "replayed and simulated" in done.stdout
    parts = re.findall(r"^(\S.*?) {2,}(replay|collector) ", done.stdout, re.MULTILINE)
    assert parts == [("glibc", "replay"), (SWEPT, "replay"), (SWEPT, "collector")]
    assert (tmp_path / "r" / "report.html").exists()
