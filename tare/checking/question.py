"""Holds the programs of a suite to their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tare.base.errors import MissingError, UsageError
from tare.campaign.session import Compared, Planned, Question, check_counts, measure
from tare.checking import report as check_study
from tare.checking.limits import most_of, study_of
from tare.checking.report import Checked
from tare.checking.request import Check
from tare.memory_managers import suitable
from tare.memory_managers.manager import Manager, resolve
from tare.programs.program import Program
from tare.programs.suite import Suite, SuiteProgram, as_program, load_suite, missing, prepare
from tare.records.metrics import WITH_LIMITS
from tare.records.results import Results
from tare.studies import over_programs
from tare.studies.compare import report as compare
from tare.studykit.request import answers

DEFAULT_MANAGER = "glibc"


@answers(Check)
def check(request: Check) -> Results:
    """Measure what the limits of a suite's programs are about; ``tare.checking.limits.judged``
    gives the verdicts. ``only`` names some of the programs; one without limits is left out.
    ``report`` is told of inputs that are made. Raises MissingError when one of them cannot run
    here.
    """
    check_counts(request.runs, request.warmup)
    whole = load_suite(request.suite)
    limited = _limited(whole, request.only)
    managers = {each.name: resolve(each.manager or DEFAULT_MANAGER) for each in limited}
    most = [
        [each.name, managers[each.name].name, metric, most_of(metric, given)]
        for each in limited
        for metric, given in each.limits.items()
    ]
    programs = [_ready(each, request.report) for each in limited]
    checked = tuple(
        _checked(each, program, managers[each.name])
        for each, program in zip(limited, programs, strict=True)
    )

    def plan(seed: int) -> Planned:
        rounds = check_study.Plan(checked, request.runs, request.warmup, seed)
        return Planned(
            lambda records: check_study.next_round(rounds, records),
            check_study.planned_runs(rounds),
        )

    question = Question(
        check_study.STUDY,
        "what has limits",
        Compared(
            programs, {manager.name: manager for manager in managers.values()}, checked[0].manager
        ),
        {**request.asked(), "limits": most},
        {
            measured.observer: measured.observe
            for measured in over_programs().values()
            if measured.observe is not None
        },
    )
    return measure(question, plan, request.where(label=whole.path.stem))


def _limited(suite: Suite, only: Sequence[str]) -> list[SuiteProgram]:
    limited = {program.name: program for program in suite.programs if program.limits}
    if unknown := [name for name in only if name not in limited]:
        raise UsageError(f"{suite.path} has no program {', '.join(unknown)} with limits")
    if not limited:
        raise UsageError(
            f"no program of {suite.path} has limits", 'add some: limits = { wall_seconds = "2s" }'
        )
    return [program for name, program in limited.items() if not only or name in only]


def _checked(limited: SuiteProgram, program: Program, manager: Manager) -> Checked:
    """What is to be measured of a program, when all of it can be measured here."""
    wanted = {study_of(metric) for metric in limited.limits}
    studies = tuple(study for study in WITH_LIMITS if study in wanted)
    for study in studies:
        if study != compare.STUDY:
            over_programs()[study].require()
            suitable.check([program], [manager], f"a limit that tare {study} measures")
    return Checked(program.name, manager.name, studies)


def _ready(limited: SuiteProgram, report: Callable[[str], None]) -> Program:
    if lack := missing(limited):
        raise MissingError(f"{limited.name} cannot run here: {lack}", lack.command)
    prepare(limited, report)
    return as_program(limited)
