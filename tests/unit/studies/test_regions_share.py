"""The share of instructions that memory operations of regions take, on known records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.records.metrics import FIRST_METRICS, Status
from tare.records.runs import Outcome, Record, Run
from tare.studies.count import report as count
from tare.studies.regions import report as study
from tare.studies.regions.observe import PHASE, share_of
from tests.support.timed_plans import timed
from tests.unit.studies.test_regions import COUNTED, DRAGGED, NAMES


def outcome_with(phases: Mapping[str, Any], instructions: int = 1000) -> Outcome:
    values = {"instructions": instructions, "manager_instructions": 100}
    return Outcome(Status.OK, values=values, details={"phases": phases})


def test_what_malloc_does_for_regions_counts_once() -> None:
    phase = {"times": 3, "instructions": 200, "by_operation": {"malloc": 70, "free": 10}}
    share = share_of(outcome_with({PHASE: phase}))
    assert share is not None
    assert (share.library, share.malloc, share.of_program) == (200, 20, 0.22)
    assert share_of(outcome_with({})) is None
    assert share_of(Outcome(Status.FAILED, details={})) is None


def test_the_plan_has_one_run_more_for_it() -> None:
    planned = study.Plan(timed(study, NAMES, 2, seed=3), COUNTED, DRAGGED, "glibc")
    records: list[Record] = []
    while runs := study.next_round(planned, records):
        for run in runs:
            kinds = {"apr": {"regions": 3}} if "regions" in run.manager else {}
            values = {"wall_seconds": 1.0, "peak_resident_bytes": 1e6}
            records.append(
                Record(
                    run, Outcome(Status.OK, values=values, details={"regions": {"kinds": kinds}})
                )
            )
    assert len(records) == study.planned_runs(planned)
    mine = [r.run for r in records if r.run.study == count.STUDY]
    assert [(run.manager, run.observer) for run in mine] == [("glibc", study.SHARE_OBSERVER)]


def test_no_run_for_it_where_that_takes_too_long() -> None:
    records = [
        Record(
            Run(study.STUDY, "p", manager, 0, order),
            Outcome(
                Status.OK,
                values={"wall_seconds": 100.0},
                details={"regions": {"kinds": {"apr": {"regions": 1}}}},
            ),
        )
        for order, manager in enumerate(NAMES)
    ]
    assert "counts instructions would take about" in study.share_left_out(records, "p", "glibc")


def test_a_share_that_cannot_be_counted_has_a_row() -> None:
    assert study.SHARE_OBSERVER in FIRST_METRICS
