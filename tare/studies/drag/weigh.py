"""`tare weigh`: what of the program's memory is unused, and which call sites hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tare.campaign.planning import Plan
from tare.observers.protocol import Observe
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.model import Section
from tare.studies.drag import actions as drag_actions
from tare.studies.drag import observe
from tare.studies.drag import report as drag
from tare.studykit.budget import Effort, Setting
from tare.studykit.instrumented import is_built, left_out

IDENTIFIER = "drag"
TITLE = drag.TITLE
ORDER = 30
WORTH = 3.0

START_SECONDS = 1.0
"""What Valgrind's core takes to start, and the analysis of a small trace."""
SLOWDOWN = 20.0
"""Of typical programs, the analysis included."""


def run_seconds(pilot_seconds: float) -> float:
    """What recording and analysing one run will take, judged by the pilot run."""
    return START_SECONDS + SLOWDOWN * pilot_seconds


def least_seconds(setting: Setting) -> float:
    return run_seconds(setting.pilot_seconds) if is_built() else 0.0


def expected_runs(setting: Setting) -> int:
    """One run, under the baseline, if it fits into the section's share of the time."""
    if not is_built():
        return 0
    fits = run_seconds(setting.pilot_seconds) <= setting.budget_seconds
    return int(fits or setting.effort is Effort.THOROUGH)


def expected_seconds(setting: Setting) -> float:
    """What it will take, judged by the pilot run."""
    return expected_runs(setting) * run_seconds(setting.pilot_seconds)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The run to do, unless it is done or does not fit."""
    if not expected_runs(setting):
        return []
    return drag.next_round(Plan((setting.program,), (setting.baseline,)), records)


def observers(_setting: Setting) -> Mapping[str, Observe]:
    """What watches the runs."""
    return {drag.OBSERVER: observe.run_once}


actions = drag_actions.actions


def section(results: Results) -> Section:
    """What is unused, or why it was not looked for."""
    if any(record.run.study == drag.STUDY for record in read_records(results.folder)):
        return drag.section(results, IDENTIFIER, TITLE)
    seconds = run_seconds(results.run.pilot_seconds)
    reason = left_out(results, "recording", "records", "drag", seconds, SLOWDOWN)
    return Section(IDENTIFIER, TITLE, findings=[reason])
