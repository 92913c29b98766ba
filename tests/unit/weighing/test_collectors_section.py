"""The section of `tare weigh` on garbage collectors: its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tare.memory_managers.manager import OWN
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run
from tare.studykit.budget import Effort, Setting
from tare.weighing.sections import collectors

SETTING = Setting("p", ("glibc",), "glibc", Effort.DEFAULT, 0.5, 100.0, seed=1)


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
    [record("glibc", status=Status.FAILED), record("glibc", left_out="it allocates no objects")],
)
def test_without_a_recording_nothing_is_replayed(recording: Record) -> None:
    assert collectors.next_runs(SETTING, [recording]) == []


def test_an_allocator_of_the_programs_own_is_left_alone() -> None:
    assert collectors.expected_runs(replace(SETTING, baseline=OWN)) == 0
