"""`tare.tune`: what may be tried, and within which bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tare.base.errors import UsageError
from tare.campaign.cluster import Cluster
from tare.campaign.session import Compared, Planned, Question, managers_of, measure, programs_of
from tare.memory_managers import runtimes, suitable
from tare.memory_managers.manager import resolve
from tare.programs.program import Program
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.tune import report
from tare.studies.tune.observe import Impatient
from tare.studies.tune.plan import Tuning, next_round
from tare.studies.tune.request import Tune
from tare.studies.tune.seen import Bounds
from tare.studies.tune.space import space_of
from tare.studykit.request import answers

MOST_SLOWER = 10.0


@answers(Tune)
def tune(request: Tune) -> Results:
    """The settings of managers that take least time and least memory, confirmed in fresh runs.

    ``managers`` empty means the installed defaults, or the collectors of the program's runtime;
    each is tried as it is named, and with what may be set beside. ``seconds`` bounds the runs.
    ``limits.memory_bytes`` bounds the peak of the answers, not of every run. A ``folder`` that
    holds an interrupted search of the same question is gone on with.
    """
    if request.slower_by is not None and not 0 <= request.slower_by <= MOST_SLOWER:
        raise UsageError(
            f"--slower-by {request.slower_by:g}: give a share from 0% to {MOST_SLOWER:.0%}"
        )
    (program,) = programs_of(request.program)
    names, first = (request.managers, "") if request.managers else of_its_runtime(program)
    resolved, baseline = managers_of(names, request.baseline or first)
    limits = request.limits or Limits()
    bounds = Bounds(request.slower_by, limits.memory_bytes)

    def plan(seed: int) -> Planned:
        space = space_of(list(resolved), partial(can_be, program))
        tuning = Tuning(program.name, baseline, space, request.seconds, seed, bounds)
        planner = partial(next_round, tuning)
        return Planned(planner, 0, {program.name: planner}, request.seconds)

    question = Question(
        report.STUDY,
        "trying settings",
        Compared([program], resolved, baseline),
        {**request.asked(), "memory_limit": limits.memory_bytes},
        {"runner": Impatient()},
    )
    where = replace(
        request.where(limits=replace(limits, memory_bytes=None)),
        cluster=Cluster(request.scheduler) if request.scheduler else None,
    )
    return measure(question, plan, where)


def of_its_runtime(program: Program) -> tuple[Sequence[str], str]:
    """The managers to try, and the baseline; none for a program that has no runtime of its own."""
    for module in map(runtimes.runtime, runtimes.names()):
        if module.runs(program):
            return [name for name in module.TUNED if can_be(program, name)], module.TUNED[0]
    return (), ""


def can_be(program: Program, name: str) -> bool:
    """Whether no option of the program's own speaks of what a setting of its runtime sets."""
    if not runtimes.is_name(name.partition("(")[0]):
        return True
    try:
        suitable.check([program], [resolve(name)])
    except UsageError:
        return False
    return True


def exit_code(results: Results) -> int:
    return int(report.failed(results))
