"""Studies that are not about time: one observer watches each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tare.campaign.planning import Plan, planned_runs
from tare.campaign.session import Compared, Planned, Question, managers_of, measure, programs_of
from tare.memory_managers import suitable
from tare.memory_managers.manager import OWN, Manager, resolve
from tare.observers import runner
from tare.observers.coverage import refusal
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Limits, Outcome, Record, Run
from tare.studykit.request import AgainstBaseline


class _WatchedStudy(Protocol):
    """A study whose runs one observer other than the runner watches."""

    @property
    def STUDY(self) -> str: ...  # noqa: N802
    @property
    def OBSERVER(self) -> str: ...  # noqa: N802
    def next_round(self, plan: Plan, records: Sequence[Record]) -> list[Run]: ...


def of_covered(observe: Observe) -> Observe:
    """``observe``, of programs that have their memory from malloc. A run of each, as it is and
    unwatched, comes first; where that shows that no manager could serve the program, the observer
    runs nothing."""
    refusals: dict[str, str] = {}

    def run(
        program: Program, manager: Manager, limits: Limits, workspace: Path, keep: Path | None
    ) -> Outcome:
        if manager.server is not None and manager.runtime is None and limits.least_coverage > 0:
            if program.name not in refusals:
                alone = runner.run_once(program, resolve(OWN), limits, workspace)
                refusals[program.name] = refusal(alone, limits)
            if reason := refusals[program.name]:
                return Outcome(Status.NOT_COVERED, reason)
        return observe(program, manager, limits, workspace, keep)

    return run


@dataclass(frozen=True)
class Watched:
    """``doing`` is what progress says of the runs; ``others`` observe further ones, as many, by the
    names that the study gives them; ``narrow``: programs can have 32 bits."""

    study: _WatchedStudy
    doing: str
    observe: Observe
    runs: int = 1
    others: Mapping[str, Observe] = field(default_factory=dict)
    narrow: bool = False


def watch(watched: Watched, request: AgainstBaseline, asked: Mapping[str, Any]) -> Results:
    """Do the runs of a study that is not about time; ``asked`` is what its request holds beyond
    programs and managers."""
    chosen = programs_of(request.programs)
    resolved, baseline = managers_of(request.managers, request.baseline, programs=chosen)
    study = watched.study
    suitable.check(chosen, resolved.values(), f"tare {study.STUDY}")
    plan = Plan(tuple(program.name for program in chosen), tuple(resolved), watched.runs)
    runs = planned_runs(plan) * (1 + len(watched.others))
    planned = Planned(lambda records: study.next_round(plan, records), runs)
    question = Question(
        study.STUDY,
        watched.doing,
        Compared(chosen, resolved, baseline),
        asked,
        {study.OBSERVER: of_covered(watched.observe), **watched.others},
        narrow=watched.narrow,
    )
    return measure(question, lambda _seed: planned, request.where())


@dataclass(frozen=True)
class OverPrograms:
    """How other commands use a study that is not about time: as ``OVER_PROGRAMS`` of its module
    ``over_programs``.

    `tare suite run --study` calls ``question``, with ``managers`` where the user names none, and
    with what parameters it has beyond those of all studies: ``options`` says what they are called
    on the command line. `tare check` does one run with ``observe``, the observer ``observer``, for
    a limit on one of its metrics; ``require`` raises MissingError where that cannot be.
    """

    question: Callable[..., Results]
    observer: str
    observe: Observe | None = None
    require: Callable[[], object] = lambda: None
    managers: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
