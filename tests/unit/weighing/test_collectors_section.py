"""The section of `tare weigh` on garbage collectors: its plan, and the real thing alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.answers.building import build_report
from tare.memory_managers.manager import OWN
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Outcome, Record, Run
from tare.studykit.budget import Effort, Setting
from tare.weighing import bill, collectors_observe
from tare.weighing.sections import collectors

SETTING = Setting("p", ("glibc",), "glibc", Effort.DEFAULT, 0.5, 100.0, seed=1)
GAWK = """BEGIN {
  for (i = 0; i < 40000; i++) n[i * 7919 % 2003] = n[i * 7919 % 2003] i
  print length(n)
}"""


def record(manager: str, took: float = 1.0, status: Status = Status.OK, **details: Any) -> Record:
    run = Run(collectors.STUDY, "p", manager, 0, 1, observer=collectors.OBSERVER)
    told: Mapping[str, Any] = {"took_seconds": took, "left_out": "", **details}
    return Record(run, Outcome(status, details=told))


def test_the_program_is_recorded_and_then_replayed_under_each() -> None:
    done: list[Record] = []
    while runs := collectors.next_runs(SETTING, done):
        (run,) = runs
        done.append(record(run.manager))
    assert [each.run.manager for each in done] == ["glibc", *collectors.COLLECTORS]
    assert len(done) == collectors.expected_runs(SETTING)


def test_what_takes_long_ends_the_section_early() -> None:
    assert collectors.next_runs(SETTING, [record("glibc", 60.0)]) == []
    thorough = replace(SETTING, effort=Effort.THOROUGH)
    assert collectors.next_runs(thorough, [record("glibc", 60.0)])
    assert collectors.expected_runs(replace(SETTING, pilot_seconds=30.0)) == 0


@pytest.mark.parametrize(
    "recording",
    [record("glibc", status=Status.FAILED), record("glibc", left_out="it makes no objects")],
)
def test_without_a_recording_nothing_is_replayed(recording: Record) -> None:
    assert collectors.next_runs(SETTING, [recording]) == []


def test_an_allocator_of_the_programs_own_is_left_alone() -> None:
    assert collectors.expected_runs(replace(SETTING, baseline=OWN)) == 0


def test_a_program_is_weighed_under_collectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bill, "sections", lambda _runtime: [collectors])
    results = api.weigh(["gawk", GAWK], ["glibc"], effort=Effort.THOROUGH, folder=tmp_path / "out")
    records = [r for r in read_records(results.folder) if r.run.study == collectors.STUDY]
    assert [r.outcome.status for r in records] == [Status.OK] * 4
    counted = records[0].outcome.details["counted"]
    assert counted["objects"] > 40_000
    for each in records[1:]:
        values, details = each.outcome.values, each.outcome.details
        assert 0 <= values["min_heap_low_bytes"] < values["min_heap_high_bytes"]
        assert values["min_heap_high_bytes"] > counted["peak_bytes"]
        assert details["heap_bytes"] == 2 * values["min_heap_high_bytes"]
        assert len(collectors_observe.ratios(details)) == collectors_observe.PAIRS
        assert 0 <= values["collector_seconds"] <= values["replay_seconds"]
    rows = results.measurements
    assert set(rows.filter(rows["study"] == collectors.STUDY)["obtained"]) == {"replayed"}
    assert set(rows["status"]) == {"ok"}
    section = collectors.section(results)
    assert section.findings[0].startswith("…need at least")
    assert len(section.tables[0].rows) == len(collectors.COLLECTORS)
    monkeypatch.undo()
    assert section.title in [each.title for each in build_report(results).sections]


def test_too_many_objects_are_not_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bill, "sections", lambda _runtime: [collectors])
    monkeypatch.setattr(collectors_observe, "MOST_OBJECTS", 1000)
    results = api.weigh(["gawk", GAWK], ["glibc"], effort=Effort.THOROUGH, folder=tmp_path / "out")
    (finding,) = collectors.section(results).findings
    assert "objects, and a bill has time for 1,000" in finding
