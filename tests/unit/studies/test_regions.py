"""`tare regions`: its plan, and its figures on records whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tare.base.errors import TareError, UsageError
from tare.memory_managers.layers import regions as layer
from tare.memory_managers.manager import resolve
from tare.programs.suite import load_suite
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run
from tare.studies.drag import report as drag
from tare.studies.regions import report as study
from tests.support import ROOT
from tests.support.timed_plans import timed


@pytest.mark.parametrize("name", ["regions(glibc, as=heap)", "regions(glibc, statistics=maybe)",
                                  "regions(glibc, size=1KiB)", "regions"])  # fmt: skip
def test_wrong_names(name: str) -> None:
    with pytest.raises(UsageError):
        resolve(name)


@pytest.mark.parametrize("data", [b"x", b"x" * 4096, b"\0" * 100 + b"y"])
def test_a_file_that_holds_no_counters(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "1.0"
    path.write_bytes(data)
    with pytest.raises(TareError, match="not a file of counters"):
        layer.read_process(path)


def test_a_process_that_was_killed_early_left_nothing(tmp_path: Path) -> None:
    path = tmp_path / "1.0"
    path.write_bytes(b"\0" * 4096)
    assert layer.read_process(path) is None


# ---- the study ----

NAMES = [each.name for each in study.variants(["glibc", "fast"])]
COUNTED, DRAGGED = study.counted("glibc").name, study.dragged("glibc").name


def test_what_runs_and_what_it_is_held_against() -> None:
    assert NAMES == [
        "glibc",
        "regions(glibc, as=emulation)",
        "regions(glibc, as=region)",
        "regions(glibc, as=reap)",
        "fast",
        "regions(fast, as=emulation)",
    ]
    assert [study.reference_of(name) for name in NAMES] == ["glibc"] * 4 + ["fast"] * 2
    assert COUNTED == "regions(glibc, as=emulation, statistics=yes)"


def plan(runs: int = 4) -> study.Plan:
    return study.Plan(timed(study, NAMES, runs, 1, seed=3), COUNTED, DRAGGED)


def played(planned: study.Plan, kinds: dict[str, Any], wall: float = 1.0) -> list[Record]:
    """The whole study with figures that are made up."""
    records: list[Record] = []
    while runs := study.next_round(planned, records):
        for run in runs:
            details = {layer.NAME: {"kinds": kinds}} if "regions" in run.manager else {}
            values = {"wall_seconds": wall, "peak_resident_bytes": 1e6}
            records.append(Record(run, Outcome(Status.OK, values=values, details=details)))
    return records


def test_the_plan_ends_with_a_count_and_a_recording() -> None:
    records = played(plan(), {"apr": {"regions": 3}})
    assert len(records) == study.planned_runs(plan())
    timed = [r.run.manager for r in records if not r.run.warmup][:-2]
    assert {name: timed.count(name) for name in NAMES} == {
        name: 8 if name in ("glibc", "fast") else 4 for name in NAMES
    }
    assert records[-2].run.manager == COUNTED
    assert (records[-1].run.study, records[-1].run.manager) == (drag.STUDY, DRAGGED)


def test_no_recording_without_regions_or_when_it_would_take_too_long() -> None:
    assert all(r.run.study == study.STUDY for r in played(plan(), {}))
    assert all(r.run.study == study.STUDY for r in played(plan(1), {"apr": {}}, wall=1000.0))
    records = played(plan(1), {"apr": {"regions": 1}}, wall=1000.0)
    assert "would take about" in study.drag_left_out(records, "p", "glibc")


def test_a_study_that_was_interrupted_goes_on() -> None:
    whole = played(plan(), {"apr": {"regions": 3}})
    for stop in (0, 7, len(whole) - 1):
        rest = study.next_round(plan(), whole[:stop])
        assert rest[0].order == stop + 1 or stop == 0
    assert study.next_round(plan(), whole) == []


def test_a_run_of_another_study_is_not_mixed_in() -> None:
    stray = Record(Run("compare", "p", "glibc", 0, 1), Outcome(Status.OK, values={}))
    assert len(study.next_round(plan(), [stray])) == len(NAMES)


def test_the_suite_has_programs_of_every_kind() -> None:
    suite = load_suite(str(ROOT / "suites" / "regions.toml"))
    assert len(suite.programs) >= 6
    packages = {package for program in suite.programs for package in program.packages}
    assert packages >= {"subversion", "apache2-bin", "ldb-tools", "gettext", "dpkg"}
