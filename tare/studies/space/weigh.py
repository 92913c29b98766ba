"""`tare weigh`: what resident memory is for at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tare.base.errors import MissingError
from tare.base.units import format_duration
from tare.campaign.planning import Plan
from tare.memory_managers.manager import OWN
from tare.observers import recorder
from tare.observers.protocol import Observe
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.model import Section
from tare.studies.space import actions as space_actions
from tare.studies.space import observe
from tare.studies.space import report as space
from tare.studies.space.details import Took
from tare.studykit.budget import Effort, Setting, bill_seconds

IDENTIFIER = "space"
TITLE = space.TITLE
ORDER = 15
WORTH = 3.0

START_SECONDS = 0.8
"""What the analysis of a small program takes."""
SLOWDOWN = 20.0
"""Of typical programs, putting the recording in order and analysing it included."""
_QUICK_MANAGERS = 1


def run_seconds(pilot_seconds: float) -> float:
    """What one run will take with its analysis, judged by the pilot run."""
    return START_SECONDS + SLOWDOWN * pilot_seconds


def least_seconds(setting: Setting) -> float:
    """One run, under the baseline."""
    return run_seconds(setting.run_seconds) if is_built() and _managers(setting) else 0.0


def expected_runs(setting: Setting) -> int:
    """How many managers fit into the section's share of the time."""
    if not is_built():
        return 0
    managers = len(_managers(setting))
    if setting.effort is Effort.THOROUGH:
        return managers
    most = min(_QUICK_MANAGERS, managers) if setting.effort is Effort.QUICK else managers
    return min(most, int(setting.budget_seconds / run_seconds(setting.run_seconds)))


def expected_seconds(setting: Setting) -> float:
    """What it will take, judged by the pilot run."""
    return expected_runs(setting) * run_seconds(setting.run_seconds)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The next run, the baseline's first, while what runs really take leaves time for another."""
    mine = [record for record in records if record.run.study == space.STUDY]
    if setting.effort is not Effort.THOROUGH and mine:
        took = [_seconds(record) for record in mine]
        if sum(took) + max(took) > setting.budget_seconds:
            return []
    chosen = _managers(setting)[: expected_runs(setting)]
    return space.next_round(Plan((setting.program,), tuple(chosen)), records)[:1]


def _managers(setting: Setting) -> list[str]:
    """The baseline first. An allocator of the program's own may lack malloc_usable_size, without
    which the recorder cannot stand before it."""
    others = [manager for manager in setting.managers if manager != setting.baseline]
    return [manager for manager in (setting.baseline, *others) if manager != OWN]


def _seconds(record: Record) -> float:
    took = record.outcome.details_as(Took)
    return took.wall_seconds + took.analysis_seconds


def is_built() -> bool:
    """Whether this Tare has the recorder."""
    try:
        recorder.require()
    except MissingError:
        return False
    return True


def observers(_setting: Setting) -> Mapping[str, Observe]:
    """What watches the runs."""
    return {space.OBSERVER: observe.run_once}


actions = space_actions.actions


def section(results: Results) -> Section:
    """Where memory goes, or why it was not looked at."""
    if any(record.run.study == space.STUDY for record in read_records(results.folder)):
        return space.section(results, IDENTIFIER, TITLE)
    if not is_built():
        return Section(IDENTIFIER, TITLE, findings=["Left out: the recorder is not built."])
    seconds = run_seconds(results.run.pilot_seconds)
    total = bill_seconds(results.run)
    reason = (
        f"Left out: one run with its analysis takes about {format_duration(seconds)}, more than is "
        f"left of the bill's {format_duration(total)}. `tare space` looks without a "
        "limit, and so does `tare weigh --thorough`."
    )
    return Section(IDENTIFIER, TITLE, findings=[reason])
