"""`tare weigh`: what the program would do if its frees were held back, as a collector would."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.base.units import format_duration
from tare.campaign import rounds
from tare.memory_managers.layers import delay as layer
from tare.memory_managers.manager import OWN
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.model import Section
from tare.studies.delay import report as delay
from tare.studykit import safety
from tare.studykit.budget import TIMED, Effort, Setting, bill_seconds

IDENTIFIER = "delay"
TITLE = "What delayed frees would cost"
ORDER = 40
RESEARCH = True

SECTIONS_ONCE = 7
"""That shared the time of bills which do not say what each got."""

SIZES = (64 << 10, 1 << 20)
_MOST_RUNS = {Effort.QUICK: 6, Effort.DEFAULT: 10, Effort.THOROUGH: 40}
_FEWEST_RUNS = 3
_START_SECONDS = 0.005
"""What starting a run takes beside the program's own time."""


def least_seconds(setting: Setting) -> float:
    """For the fewest rounds."""
    if not is_built() or setting.baseline == OWN:
        return 0.0
    return _seconds(_rounds(setting, _FEWEST_RUNS), setting)


def plan(setting: Setting) -> rounds.Plan | None:
    """The baseline bare, and held back by nothing and by each of the sizes; as many rounds as the
    section's share of the time allows, or None if that is too few.

    An allocator of the program's own may not tell the sizes of objects, and is not tried."""
    fewest = _rounds(setting, _FEWEST_RUNS)
    left = setting.budget_seconds - _seconds(fewest, setting)
    fits = left >= 0 or setting.effort is Effort.THOROUGH
    if not is_built() or setting.baseline == OWN or not fits:
        return None
    a_round = rounds.runs_a_round(fewest) * run_seconds(setting.run_seconds)
    more = max(0, math.floor(left / a_round))
    return _rounds(setting, min(_MOST_RUNS[setting.effort], _FEWEST_RUNS + more))


def _rounds(setting: Setting, runs: int) -> rounds.Plan:
    names = [each.name for each in delay.variants([setting.baseline], SIZES, {})]
    warmup = 0 if setting.effort is Effort.QUICK else 1
    return rounds.Plan((setting.program,), tuple(names), names[1], runs, warmup, setting.seed)


def _seconds(planned: rounds.Plan, setting: Setting) -> float:
    return rounds.planned_runs(planned) * run_seconds(setting.run_seconds)


def run_seconds(pilot_seconds: float) -> float:
    """What one run will take, judged by the pilot run."""
    return pilot_seconds + _START_SECONDS


def expected_runs(setting: Setting) -> int:
    """How many runs that makes when nothing fails."""
    planned = plan(setting)
    return 0 if planned is None else rounds.planned_runs(planned)


def expected_seconds(setting: Setting) -> float:
    """What measuring will take, judged by the pilot run."""
    planned = plan(setting)
    return 0.0 if planned is None else _seconds(planned, setting)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The runs to do next; none for a program that does not run under the baseline itself."""
    planned = plan(setting)
    bare = [r for r in records if (r.run.study, r.run.manager) == (TIMED, setting.baseline)]
    if planned is None or (bare and all(r.outcome.status is not Status.OK for r in bare)):
        return []
    return rounds.next_round(planned, records, delay.STUDY)


def is_built() -> bool:
    """Whether this Tare has the layer."""
    try:
        native_file(layer.OBJECT)
    except MissingError:
        return False
    return True


def section(results: Results) -> Section:
    """What a delay changes under the baseline, or why that was not measured."""
    if any(record.run.study == delay.STUDY for record in read_records(results.folder)):
        whole = delay.section(results, IDENTIFIER, TITLE)
        first = whole.tables[0].identifier
        tables = [
            replace(each, essential=each.identifier == first)
            for each in whole.tables
            if each.identifier != safety.IDENTIFIER
        ]
        return replace(whole, tables=tables)
    return Section(IDENTIFIER, TITLE, findings=[_left_out(results)])


def _left_out(results: Results) -> str:
    if not is_built():
        return "Left out: the layer that delays frees is not built (make build)."
    if results.run.baseline == OWN:
        return "Left out: the program has its own allocator. `tare delay -m own` tries it."
    effort = Effort(results.run.request.effort)
    total = bill_seconds(results.run)
    share = results.run.shares.get(IDENTIFIER)
    budget = total / SECTIONS_ONCE if share is None else share
    pilot = results.run.pilot_seconds
    setting = Setting("", (), results.run.baseline, effort, pilot, budget, 0)
    expected = _seconds(_rounds(setting, _FEWEST_RUNS), setting)
    if expected <= budget:
        return f"Left out: no run under {results.run.baseline} succeeded."
    return (
        f"Left out: the runs take about {format_duration(expected)}, more than is left of the "
        f"bill's {format_duration(total)}. `tare delay` measures without a "
        "limit, and so does `tare weigh --thorough`."
    )
