"""Visits of a canary during a study that runs."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

import tare
from tare.answers.building import build_report
from tare.campaign import canary
from tare.campaign.rounds import Plan
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import CANARY, read_records
from tare.studies.compare.report import next_round


def test_a_study_with_visits_is_the_same_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = cycle([True, False])
    monkeypatch.setattr(canary.Clock, "due", lambda _self: next(turns))
    results = tare.compare(
        [Program("p", ("true",))], ["glibc"], runs=3, warmup=1, folder=tmp_path / "r", canary=True
    )
    records = read_records(tmp_path / "r")
    visits = [record for record in records if record.run.study == CANARY]
    assert len(visits) == 4 * canary.RUNS_A_VISIT
    assert {record.outcome.status for record in visits} == {Status.OK}
    assert sorted({record.run.invocation for record in visits}) == [0, 1, 2, 3]
    runs = [record for record in records if record.run.study != CANARY]
    assert len(runs) == 7
    assert results.measurements["study"].unique().to_list() == ["compare"]
    assert next_round(Plan(("p",), ("glibc",), "glibc", 3, 1), records) == []
    report = build_report(tare.load(tmp_path / "r"))
    assert not any(CANARY in str(table.rows) for each in report.sections for table in each.tables)


def test_without_being_asked_for_there_are_no_visits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary.Clock, "due", lambda _self: True)
    tare.compare([Program("p", ("true",))], ["glibc"], runs=1, folder=tmp_path / "r")
    assert {record.run.study for record in read_records(tmp_path / "r")} == {"compare"}
