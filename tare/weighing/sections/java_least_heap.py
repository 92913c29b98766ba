"""`tare weigh`: the minimum heap of a Java program under each collector."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tare.base.units import format_duration
from tare.memory_managers.manager import Manager
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.results import Results, read_records
from tare.records.runs import Limits, Outcome, Record, Run
from tare.report.comparison import failure_tables
from tare.report.model import Section
from tare.studies.lbo.question import REFERENCE
from tare.studies.minheap import executed_report as study
from tare.studykit.budget import Effort, Setting, bill_seconds
from tare.studykit.least_heap import executed
from tare.studykit.least_heap import executed as minheap_executed
from tare.studykit.least_heap.request import SLOW
from tare.studykit.least_heap.search import Search
from tare.weighing import java_bill

RUNTIME = java_bill.RUNTIME
IDENTIFIER = "java-least-heap"
TITLE = study.TITLE
ORDER = 20
WORTH = 2.0
NAMES = ("minheap",)

_RUNS = 12
"""What a search takes, in runs of the program."""
_STEPS_IN_LIVE = 40
"""The most bytes in use after a collection are up to twice what the program needs, so that a step
is 5% of the minimum heap at most."""
_REPEATS = {Effort.QUICK: 1, Effort.DEFAULT: 2, Effort.THOROUGH: 3}


def run_seconds(setting: Setting) -> float:
    """What a search will take, judged by the pilot run."""
    return _RUNS * (setting.run_seconds + 0.1)


def least_seconds(setting: Setting) -> float:
    """One search."""
    return run_seconds(setting) if setting.pilot else 0.0


def expected_runs(setting: Setting) -> int:
    """As many searches as fit into the section's share of the time."""
    most = len(_collectors(setting))
    if setting.effort is Effort.THOROUGH:
        return most
    return min(most, int(setting.budget_seconds / run_seconds(setting)))


def expected_seconds(setting: Setting) -> float:
    return expected_runs(setting) * run_seconds(setting)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """One search after the other, while there is time; none where the program fails anyway."""
    if not expected_runs(setting) or not setting.pilot:
        return []
    mine = [record for record in records if record.run.study == executed.STUDY]
    done = {record.run.manager for record in mine}
    left = [name for name in _collectors(setting) if name not in done]
    took = [record.outcome.details.get("took_seconds", 0.0) for record in mine]
    is_late = bool(took) and sum(took) + max(took) > setting.budget_seconds
    if not left or (is_late and setting.effort is not Effort.THOROUGH):
        return []
    order = 1 + max((record.run.order for record in records), default=0)
    return [Run(executed.STUDY, setting.program, left[0], 0, order, observer=executed.OBSERVER)]


def _collectors(setting: Setting) -> list[str]:
    """That whose minimum heap is the unit of heaps first, then the baseline's."""
    return list(dict.fromkeys([REFERENCE, *java_bill.collectors(setting.managers)]))


def search_for(setting: Setting) -> Search:
    """The first heap is that of ``tare minheap``; the second is near what the pilot run held, or
    allocated if it never collected."""
    search = minheap_executed.search_for(None, _REPEATS[setting.effort])
    live = setting.pilot.get("max_used_after_bytes", setting.pilot.get("heap_allocated_bytes"))
    if live is None:
        return search
    step = max(minheap_executed.UNIT, int(live) // _STEPS_IN_LIVE)
    return replace(search, second=int(live), step=step)


def observers(setting: Setting) -> Mapping[str, Observe]:
    def run_once(
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        begun = time.monotonic()
        # Beside the workspace, which goes with an interruption.
        trials = workspace.parent / minheap_executed.TRIALS_FILE
        search = minheap_executed.observe(search_for(setting), SLOW, trials)
        outcome = search(program, manager, limits, workspace, keep_output)
        trials.unlink(missing_ok=True)  # they are in the outcome now
        details = {**outcome.details, "took_seconds": time.monotonic() - begun}
        return replace(outcome, details=details)

    one = java_bill.without(run_once, java_bill.COLLECTOR, *java_bill.HEAP_SETTINGS)
    return {executed.OBSERVER: one}


def section(results: Results) -> Section:
    """The minimum heaps, or why none was sought."""
    if not any(record.run.study == executed.STUDY for record in read_records(results.folder)):
        return Section(IDENTIFIER, TITLE, findings=[_left_out(results)])
    asked = {**results.document["request"], "slow": SLOW}
    document = {**results.document, "request": asked}
    whole = study.section(Results(results.folder, document, results.measurements))
    tables = [*failure_tables(results, executed.STUDY), *whole.tables]
    return replace(
        whole,
        identifier=IDENTIFIER,
        findings=[*whole.findings, *_changed(results)],
        tables=[
            replace(table, essential=table.essential and table is tables[0]) for table in tables
        ],
    )


def _changed(results: Results) -> list[str]:
    options = () if results.run.java is None else results.run.java.left_out.heap
    if not options:
        return []
    return [f"Where heaps are varied, the command's own {' '.join(options)} is not used."]


def _left_out(results: Results) -> str:
    seconds = _RUNS * results.run.pilot_seconds
    return (
        f"Left out: a search takes about {format_duration(seconds)}, more than is left of the "
        f"bill's {format_duration(bill_seconds(results.run))}. `tare minheap` "
        "searches without a limit, and so does `tare weigh --thorough`."
    )


def least_bytes(records: Sequence[Record]) -> int | None:
    """The minimum heap of the reference, if it was found."""
    found = [
        record.outcome.values[executed.HIGH]
        for record in records
        if (record.run.study, record.run.manager) == (executed.STUDY, REFERENCE)
        and executed.HIGH in record.outcome.values
    ]
    return int(found[0]) if found else None
