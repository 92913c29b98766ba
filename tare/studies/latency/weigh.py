"""`tare weigh`: how long calls of malloc take, and where the longest come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tare.base.errors import MissingError
from tare.campaign import planning
from tare.memory_managers.manager import OWN
from tare.observers.protocol import Observe
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.model import Section
from tare.studies.latency import observe
from tare.studies.latency import report as latency
from tare.studykit.budget import TIMED, Setting

IDENTIFIER = "latency"
TITLE = latency.TITLE
ORDER = 45
RESEARCH = True
_START_SECONDS = 0.05
"""What the files of a run take beside the program's own time."""
_SLOWDOWN = 1.5


def least_seconds(setting: Setting) -> float:
    """A run of each kind, under the baseline. An allocator of the program's own is left to
    `tare compare --latency`: its calls may not come by."""
    if not is_built() or setting.baseline == OWN:
        return 0.0
    return len(observe.OBSERVERS) * (_SLOWDOWN * setting.run_seconds + _START_SECONDS)


def expected_runs(setting: Setting) -> int:
    """Both or none."""
    least = least_seconds(setting)
    return len(observe.OBSERVERS) if 0 < least <= setting.budget_seconds else 0


def expected_seconds(setting: Setting) -> float:
    """What measuring will take, judged by the pilot run."""
    return least_seconds(setting) if expected_runs(setting) else 0.0


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The runs to do next; none for a program that does not run under the baseline itself."""
    bare = [r for r in records if (r.run.study, r.run.manager) == (TIMED, setting.baseline)]
    fails = bare and all(r.outcome.status is not Status.OK for r in bare)
    if not expected_runs(setting) or fails:
        return []
    plan = planning.Plan((setting.program,), (setting.baseline,))
    for name in observe.OBSERVERS:
        if runs := planning.next_round(plan, records, latency.STUDY, name):
            return runs
    return []


def observers(_setting: Setting) -> Mapping[str, Observe]:
    return observe.OBSERVERS


def is_built() -> bool:
    """Whether this Tare has the object that times calls."""
    try:
        observe.require()
    except MissingError:
        return False
    return True


def applies(results: Results) -> bool:
    """To a bill that was asked for it."""
    return IDENTIFIER in (results.run.asked_sections or ())


def section(results: Results) -> Section:
    """Times and the call sites of long calls, or why they were not measured."""
    if any(record.run.study == latency.STUDY for record in read_records(results.folder)):
        return replace(latency.section(results), identifier=IDENTIFIER, title=TITLE)
    why = "the object that times calls is not built (make build)"
    if is_built():
        why = (
            "the program has its own allocator"
            if results.run.baseline == OWN
            else "the runs did not fit, or none succeeded"
        )
    return Section(
        IDENTIFIER, TITLE, findings=[f"Left out: {why}. `tare compare --latency` measures it."]
    )
