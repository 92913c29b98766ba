"""`tare weigh`: how much of the program's work is memory management, counted in instructions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tare.campaign.planning import Plan
from tare.memory_managers import runtimes
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.model import Section
from tare.studies.count import report as count
from tare.studies.count.details import Took
from tare.studykit.budget import TIMED, Effort, Setting
from tare.studykit.instrumented import SLOWDOWN, is_built, left_out, run_seconds

IDENTIFIER = "instructions"
TITLE = count.TITLE
ORDER = 20
WORTH = 2.0
NAMES = ("count",)

_QUICK_MANAGERS = 2


def least_seconds(setting: Setting) -> float:
    """One run, under the baseline."""
    return run_seconds(setting.run_seconds) if is_built() else 0.0


def expected_runs(setting: Setting) -> int:
    """How many runs fit into the section's share of the time, one per manager at most."""
    if not is_built():
        return 0
    if setting.effort is Effort.THOROUGH:
        return len(setting.managers) * count.RUNS_TO_SEE_REPETITION
    most = _QUICK_MANAGERS if setting.effort is Effort.QUICK else len(setting.managers)
    fitting = int(setting.budget_seconds / run_seconds(setting.run_seconds))
    return min(most, fitting, len(setting.managers))


def expected_seconds(setting: Setting) -> float:
    """What counting will take, judged by the pilot run."""
    return expected_runs(setting) * run_seconds(setting.run_seconds)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The runs to do next: the baseline first, then a manager that shows all objects of a runtime,
    then the others from the fastest on, while what the runs really take leaves time for another."""
    mine = [record for record in records if record.run.study == count.STUDY]
    allowed = expected_runs(setting)
    if setting.effort is not Effort.THOROUGH and mine:
        took = [record.outcome.details_as(Took).wall_seconds for record in mine]
        if sum(took) + max(took) > setting.budget_seconds:
            return []
    order = 1 + max((record.run.order for record in records), default=0)
    repetitions = count.RUNS_TO_SEE_REPETITION if setting.effort is Effort.THOROUGH else 1
    chosen = _by_speed(setting, records)[: allowed // repetitions]
    for run in count.next_round(Plan((setting.program,), tuple(chosen), repetitions), mine):
        return [
            Run(run.study, run.program, run.manager, run.invocation, order, False, run.observer)
        ]
    return []


def _by_speed(setting: Setting, records: Sequence[Record]) -> list[str]:
    walls: dict[str, list[float]] = {}
    for record in records:
        if record.run.study == TIMED and record.outcome.status is Status.OK:
            walls.setdefault(record.run.manager, []).append(record.outcome.values["wall_seconds"])
    medians = {manager: statistics.median(values) for manager, values in walls.items()}
    return sorted(
        setting.managers,
        key=lambda manager: (
            manager != setting.baseline,
            runtimes.over_malloc(manager) is None,
            medians.get(manager, float("inf")),
        ),
    )


def section(results: Results) -> Section:
    """The manager's share of the instructions, or why it was not counted."""
    counted = [r for r in read_records(results.folder) if r.run.study == count.STUDY]
    if counted:
        return count.section(results, IDENTIFIER, TITLE)
    seconds = run_seconds(results.run.pilot_seconds)
    reason = left_out(results, "counting", "counts", "count", seconds, SLOWDOWN)
    return Section(IDENTIFIER, TITLE, findings=[reason])
