"""`tare weigh`: what collectors cost a Java program at least, in twice and four times the least
heap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.base.units import format_duration
from tare.campaign import rounds
from tare.memory_managers.manager import Manager
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.results import Results, read_records
from tare.records.runs import Limits, Outcome, Record, Run
from tare.report.comparison import failure_tables, summary_rows
from tare.report.model import Section
from tare.studies.lbo import observe
from tare.studies.lbo import question as lbo
from tare.studies.lbo import report as study
from tare.studykit.budget import Effort, Setting, bill_seconds
from tare.studykit.least_heap.executed import UNIT, in_heap
from tare.weighing import java_bill
from tare.weighing.sections import java_least_heap

RUNTIME = java_bill.RUNTIME
IDENTIFIER = "java-costs"
TITLE = study.TITLE
ORDER = 30
NAMES = ("lbo",)
NEEDS = (java_least_heap.IDENTIFIER,)

HEAPS = (2.0, 4.0)
"""In minimum heaps of ``lbo.REFERENCE``."""
_FEWEST_RUNS = 3
_MOST_RUNS = {
    Effort.QUICK: _FEWEST_RUNS,
    Effort.DEFAULT: FEWEST_FOR_INTERVAL,
    Effort.THOROUGH: 2 * FEWEST_FOR_INTERVAL,
}
_FEWEST_COLLECTORS = 2
_START_SECONDS = 0.1
_SLOW = 20.0
_LEAST_TIMEOUT_SECONDS = 30.0


def _runs(collectors: int, runs: int) -> int:
    """How many runs that takes: the first collector in its smaller heap has two in each round."""
    return runs * (collectors * len(HEAPS) + rounds.BASELINE_RUNS_A_ROUND - 1)


def _run_seconds(setting: Setting) -> float:
    return setting.run_seconds + _START_SECONDS


def _fitting(setting: Setting) -> tuple[int, int]:
    """How many collectors, and runs in each heap, fit into the section's share of the time."""
    known = len(java_bill.collectors(setting.managers))
    most = _MOST_RUNS[setting.effort]
    if setting.effort is Effort.THOROUGH:
        return known, most
    for collectors in range(known, min(_FEWEST_COLLECTORS, known) - 1, -1):
        a_round = _runs(collectors, 1) * _run_seconds(setting)
        runs = min(most, math.floor(setting.budget_seconds / a_round))
        if runs >= _FEWEST_RUNS:
            return collectors, runs
    return 0, 0


def least_seconds(setting: Setting) -> float:
    """For the fewest runs of the fewest collectors."""
    known = len(java_bill.collectors(setting.managers))
    return _runs(min(_FEWEST_COLLECTORS, known), _FEWEST_RUNS) * _run_seconds(setting)


def expected_runs(setting: Setting) -> int:
    collectors, runs = _fitting(setting)
    return _runs(collectors, runs) if collectors else 0


def expected_seconds(setting: Setting) -> float:
    return expected_runs(setting) * _run_seconds(setting)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The runs to do next; none where the minimum heap is not known."""
    collectors, runs = _fitting(setting)
    least = java_least_heap.least_bytes(records)
    if not collectors or least is None:
        return []
    names = java_bill.collectors(setting.managers)[:collectors]
    managers = tuple(point.manager for point in points(names, least))
    plan = rounds.Plan((setting.program,), managers, managers[0], runs, 0, setting.seed)
    return study.next_round(plan, records)


def points(collectors: Sequence[str], least: int) -> list[study.Point]:
    return [
        study.Point(in_heap(name, math.ceil(heap * least / UNIT) * UNIT), name, heap)
        for name in collectors
        for heap in HEAPS
    ]


def observers(setting: Setting) -> Mapping[str, Observe]:
    def run_once(
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        return observe.run_once(program, manager, _limited(limits, setting), workspace, keep_output)

    one = java_bill.without(run_once, java_bill.COLLECTOR, *java_bill.HEAP_SETTINGS)
    return {study.OBSERVER: one}


def _limited(limits: Limits, setting: Setting) -> Limits:
    """In a heap that is too small for a collector a run can take any time."""
    if limits.timeout_seconds is not None:
        return limits
    seconds = max(_LEAST_TIMEOUT_SECONDS, _SLOW * setting.pilot_seconds)
    return replace(limits, timeout_seconds=seconds)


def section(results: Results) -> Section:
    """The lower bounds, or why there are none."""
    records = read_records(results.folder)
    least = java_least_heap.least_bytes(records)
    measured = {record.run.manager for record in records if record.run.study == study.STUDY}
    if least is None or not measured:
        return Section(IDENTIFIER, TITLE, findings=[_left_out(results)])
    known = points(java_bill.collectors(results.run.managers), least)
    document = {
        **results.document,
        "points": [asdict(point) for point in known if point.manager in measured],
        "unit": f"the minimum heap of {lbo.REFERENCE}",
        "least_heap_bytes": least,
        "baseline": known[0].manager,
    }
    mine = results.measurements.filter(results.measurements["study"] == study.STUDY)
    filtered = Results(results.folder, document, mine)
    whole = study.section(filtered)
    headline = _headline(filtered, known[0].collector)
    broken = study.failed(filtered)
    failures = [replace(each, essential=broken) for each in failure_tables(results, study.STUDY)]
    return replace(
        whole,
        identifier=IDENTIFIER,
        findings=[*headline, *whole.findings],
        tables=[*failures, *whole.tables],
    )


def _headline(results: Results, collector: str) -> list[str]:
    """What the first collector costs in each heap."""
    run = results.run_as(study.LboRun)
    rows = summary_rows(study.summarise(results.measurements, run.baseline, run.seed))
    program = run.programs[0].name
    found = [
        (point.heap, row)
        for point in run.points
        if point.collector == collector
        and (row := rows.get((program, point.manager, "lbo_cpu_ratio"))) is not None
    ]
    if not found:
        return []
    each = [
        f"{row['ratio']:.2f} times ({row['ratio_low']:.2f} to {row['ratio_high']:.2f}) in {heap:g} "
        "minimum heaps"
        for heap, row in found
    ]
    return [
        f"Under {collector} it takes at least this multiple of the processor time without a "
        f"collector: {' and '.join(each)}."
    ]


def _left_out(results: Results) -> str:
    count = _runs(_FEWEST_COLLECTORS, _FEWEST_RUNS)
    seconds = count * results.run.pilot_seconds
    return (
        f"Left out: it needs the minimum heap of {lbo.REFERENCE} and then {count} runs, about "
        f"{format_duration(seconds)}, more than is left of the bill's "
        f"{format_duration(bill_seconds(results.run))}. `tare lbo` measures without a "
        "limit, and so does `tare weigh --thorough`."
    )
