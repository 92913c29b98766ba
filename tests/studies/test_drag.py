"""`tare drag`: the command, on traces and on programs whose waste is known."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tare as api
from tare.answers.building import build_report
from tare.answers.exports.traces import find_trace
from tare.base.errors import MissingError, UsageError
from tare.observers import instrument
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Outcome
from tare.studies.drag import report as drag
from tare.studies.drag.request import How
from tests.conftest import Completed
from tests.support.traces import (
    many_objects,
    objects_frame,
    put_table,
    write_trace_folder,
)
from tests.unit.studies.test_drag import trace

__all__ = ["trace"]


# ---- bounds ----


MEASURE = """
import sys
import polars as pl
from tare.heap_traces.residence import analyse_objects, processes
frame = pl.scan_parquet(sys.argv[1])
found = processes(frame, [])
result = analyse_objects(frame, found, "bytes", reachability=True)
print(result["totals"]["objects"], result["peaks"]["free"])
# ru_maxrss would begin with the peak of the process that started this one.
(line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(line.split()[1]) * 1024)
"""


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    used = {}
    for count in (600_000, 3_000_000):
        file = tmp_path / f"{count}.parquet"
        frame = many_objects(count)
        frame.write_parquet(file, row_group_size=1 << 17)
        command = [sys.executable, "-c", MEASURE, str(file)]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert int(lines[0]) == count
        ends = frame["free_instructions"].fill_null(int(frame["birth_instructions"].max()) + 1)  # type: ignore[arg-type]
        events = pl.concat(
            [
                pl.DataFrame({"at": frame["birth_instructions"], "size": frame["size"].cast(int)}),
                pl.DataFrame({"at": ends, "size": -frame["size"].cast(int)}),
            ]
        )
        assert int(lines[1]) == events.sort("at", "size")["size"].cum_sum().max()
        used[count] = int(lines[2])
    # In memory, the 2.4 million objects more would take 350 MB.
    assert used[3_000_000] - used[600_000] < 120e6


def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, tare: Callable[..., Completed]) -> None:
    folder = write_trace_folder(tmp_path / "t.tare", many_objects(5000))
    file = folder / "objects.parquet"
    content = bytearray(file.read_bytes())
    values = slice(4, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))
    content[values] = bytes(len(content[values]))
    file.write_bytes(content)
    for command in (["drag", folder], ["export", "-f", "dhat", folder]):
        done = tare(*command)
        assert done.returncode == 2
        assert "objects.parquet was changed after it was written" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("birth_instructions", [9, 1, 10]),
        ("birth_instructions", [1, (1 << 64) - 1, 9]),
        ("size", [1, (1 << 64) - 1, 1]),
        ("process", [0, 1, 0]),
        ("process", [7, 7, 7]),
        ("process", [None, None, None]),
        ("birth_bytes", [None, None, None]),
        ("birth_nanoseconds", [None, 1 << 40, None]),
    ],
)
def test_a_trace_that_contradicts_itself_is_named(
    tmp_path: Path, tare: Callable[..., Completed], column: str, values: list[int | None]
) -> None:
    frame = objects_frame([{"birth": time, "size": 4} for time in (1, 5, 9)])
    changed = frame.with_columns(pl.Series(column, values, frame.schema[column]))
    folder = write_trace_folder(tmp_path / "t.tare", frame)
    schema = pq.read_schema(folder / "objects.parquet")
    loose = pa.schema([field.with_nullable(True) for field in schema])
    put_table(folder, "objects", changed.to_arrow().cast(loose))
    for command in (["drag", folder], ["export", "-f", "dhat", folder]):
        done = tare(*command)
        assert done.returncode == 2, done.stderr
        assert "t.tare" in done.stderr
        assert "record it again" in done.stderr


def test_the_command_on_a_trace(trace: Path, tare: Callable[..., Completed]) -> None:
    done = tare("drag", "-o", "results", trace)
    assert done.returncode == 0, done.stderr
    assert "Call sites" in done.stdout
    assert "\x1b" not in done.stdout
    again = tare("report", "results")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.tare"], "does not exist"),
        (["-m", "glibc", "TRACE"], "does not run again"),
        (["TRACE", "-o", "results"], "options come first"),
        (["."], "not a heap trace"),
        (["--reachability", "1B", "--", "true"], "would take too long"),
    ],
)
def test_wrong_usage(
    words: list[str], message: str, trace: Path, tare: Callable[..., Completed]
) -> None:
    done = tare("drag", *[str(trace) if word == "TRACE" else word for word in words])
    assert done.returncode == 2
    assert message in done.stderr


# ---- a run, recorded and analysed ----


@pytest.fixture
def recorded(trace: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A recorder that leaves the made trace; what it was asked for, and the outcome to give."""
    seen: dict[str, Any] = {"outcome": Outcome(Status.OK, values={"objects": 100.0})}

    def run_once(*arguments: Any, wanted: Any) -> Outcome:
        seen.update(target=wanted.target, what=wanted.what)
        shutil.copytree(trace, wanted.target)
        outcome: Outcome = seen["outcome"]
        return outcome

    monkeypatch.setattr("tare.observers.tracing.run_once", run_once)
    monkeypatch.setattr("tare.observers.instrument.launcher", lambda: Path("/bin/true"))
    return seen


def test_a_run_is_recorded_and_its_trace_kept(recorded: dict[str, Any], tmp_path: Path) -> None:
    results = api.drag(["true"], how=How(reachability_bytes=4096), folder=tmp_path / "r")
    assert recorded["what"].last_use
    assert recorded["what"].sites
    assert recorded["what"].reachability_bytes == 4096
    assert recorded["target"].parent == tmp_path / "r" / "traces"
    values = dict(results.measurements.select("metric", "value").iter_rows())
    assert values["objects"] == 100
    assert values["drag_ratio"] > 1
    assert find_trace(results.folder).folder == recorded["target"]
    (row,) = api.summary(results).filter(pl.col("metric") == "drag_ratio").to_dicts()
    assert row["verdict"] == "baseline"
    assert api.summary(results)["median"].null_count() == 0


def test_a_trace_that_is_not_wanted_is_removed(recorded: dict[str, Any], tmp_path: Path) -> None:
    results = api.drag(["true"], how=How(discard=True), folder=tmp_path / "r")
    assert not recorded["target"].exists()
    assert (results.measurements["status"] == "ok").all()
    with pytest.raises(UsageError, match="holds no heap trace"):
        find_trace(results.folder)


def test_a_run_that_fails_gives_no_figure_and_keeps_what_was_recorded(
    recorded: dict[str, Any], tmp_path: Path
) -> None:
    recorded["outcome"] = Outcome(
        Status.FAILED, "it was killed by SIGKILL", signal=9, details={"trace": {"objects": 100}}
    )
    results = api.drag(["true"], folder=tmp_path / "r")
    (row,) = results.measurements.to_dicts()
    assert (row["metric"], row["value"], row["status"]) == ("peak_free_bytes", None, "failed")
    (section,) = build_report(results).sections
    assert section.findings == ["No run gave a trace that can be analysed."]
    assert section.commands[0][1] == f"tare drag {recorded['target']}"


# ---- the instrument itself ----

PROGRAM = """
#include <stdlib.h>
#include <string.h>
static void *keep(void *p) { __asm__ volatile("" : "+r"(p) : : "memory"); return p; }
__attribute__((noinline)) void never_used(void) {
  for (int i = 0; i < 100; i++) { void *p = keep(malloc(1000)); if (i % 2) free(p); }
}
__attribute__((noinline)) void churn(int n) {
  for (int i = 0; i < n; i++) { char *p = keep(malloc(100)); memset(p, i, 100); keep(p); free(p); }
}
__attribute__((noinline)) char *large(void) { return keep(malloc(1 << 20)); }
int main(void) {
  char *late = large(), *early = large();
  memset(late, 1, 1 << 20);
  never_used();
  churn(20000);
  memset(early, 1, 1 << 20);
  free(early);
  churn(1000);
  free(late);
  return 0;
}
"""


@pytest.fixture
def instrument_is_here() -> None:
    try:
        instrument.launcher()
    except MissingError as error:
        pytest.skip(error.message)


@pytest.mark.usefixtures("instrument_is_here")
def test_a_program_whose_waste_is_known(
    compile_c: Callable[..., Path], tare: Callable[..., Completed], tmp_path: Path
) -> None:
    program = compile_c(PROGRAM, "-g", "-fno-builtin")
    done = tare("drag", "-o", "results", "--", program)
    assert done.returncode == 0, done.stderr
    results = api.load(tmp_path / "results")
    values = dict(results.measurements.select("metric", "value").iter_rows())
    assert values["never_used_bytes"] == 100 * 1000
    assert values["never_freed_bytes"] == 50 * 1000
    assert values["peak_free_bytes"] == 2 * (1 << 20) + 51 * 1000
    assert values["peak_last_use_bytes"] == 2 * (1 << 20)
    (record,) = read_records(results.folder)
    sites = record.outcome.details["sites"]
    by_frames = {tuple(f["function"] for f in s["frames"])[:2]: s for s in sites}
    assert by_frames["never_used", "main"]["never_used_objects"] == 100
    larges = [s for s in sites if s["frames"][0]["function"] == "large"]
    assert sum(site["objects"] for site in larges) == 2
    assert {drag.cause(site) for site in larges} <= {"drag_freed", "lag"}
    trace = find_trace(results.folder)
    assert trace.meta["max_live_bytes"] == values["peak_free_bytes"]
    counted = tare("count", "--once", "-m", "glibc", "--json", "-", "--", program)
    rows = json.loads(counted.stdout)["measurements"]
    (live,) = (row["value"] for row in rows if row["metric"] == "max_live_bytes")
    assert live == values["peak_free_bytes"]
