"""Measures two builds of one program side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from tare.base.errors import MissingError, UsageError
from tare.campaign.session import Compared, Planned, Question, check_counts, measure
from tare.gating.changes import BASE, HEAD, check_threshold
from tare.gating.plan import Plan, next_round, planned_runs
from tare.gating.report import STUDY
from tare.gating.request import COUNT, TIME, Gate
from tare.memory_managers import suitable
from tare.memory_managers.manager import resolve
from tare.observers import call_sites, instrument
from tare.programs.program import Program, program_from_command
from tare.records.results import Results
from tare.studies.count import report as count
from tare.studykit.request import answers


@answers(Gate)
def gate(request: Gate) -> Results:
    """What the change from ``base`` to ``head`` did to instructions, objects, bytes, time and peak
    memory; ``tare.gating.changes.changes`` gives the verdicts. Both run under ``manager``. What
    grew by ``threshold`` or less is no regression. Raises MissingError where nothing can be
    counted here, unless ``skip`` has ``count``."""
    check_counts(request.runs, 0)
    check_threshold(request.threshold, request.skip)
    parts = tuple(part for part in (COUNT, TIME) if part not in request.skip)
    programs = [_named(BASE, request.base), _named(HEAD, request.head)]
    manager = resolve(request.manager)
    if COUNT in parts:
        _require()
        suitable.check(programs, [manager], f"tare {count.STUDY}")
    question = Question(
        STUDY,
        "base and head",
        Compared(programs, {manager.name: manager}, manager.name),
        {**request.asked(), "skip": sorted(set(request.skip))},
        {count.OBSERVER: call_sites.observer_of(())},
    )

    def plan(seed: int) -> Planned:
        whole = Plan(manager.name, parts, request.runs, seed)
        return Planned(partial(next_round, whole), planned_runs(whole))

    return measure(question, plan, request.where(label=Path(programs[1].argv[0]).name))


def _named(name: str, given: Program | object) -> Program:
    if isinstance(given, Program):
        return replace(given, name=name)
    if isinstance(given, str) or not isinstance(given, (list, tuple)):
        raise UsageError("a program is a list of words, not one string")
    return program_from_command([str(word) for word in given], name=name)


def _require() -> None:
    try:
        instrument.launcher()
    except MissingError as error:
        raise MissingError(error.message, f"{error.hint}; or --skip {COUNT}") from None
