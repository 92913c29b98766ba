"""The least memory limit of a container for a program under each manager, by really running it.

The search is that of ``tare.studykit.least_heap.executed``, with a limit of the kernel in place of
a collector's heap. After it the program runs near the limit and without one, in turns, so that its
times can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import to_builtins

from tare.base.errors import UsageError
from tare.campaign import planning
from tare.campaign.planning import Plan, planned_runs
from tare.campaign.session import Compared, Planned, Question, managers_of, measure, programs_of
from tare.memory_managers.manager import Manager
from tare.observers import containers, runner
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.conditions import Container
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Limits, Outcome
from tare.studies.minheap import container_report as study
from tare.studies.minheap.details import Near, Timed
from tare.studies.minheap.request import MinheapOfProgram
from tare.studykit.least_heap import executed
from tare.studykit.least_heap.search import PAGE, Search

_ROOM = 2
"""The first limit, in peaks of resident memory: there are files and page tables beside that."""
_STEPS_IN_THE_PEAK = 100
_LEAST_STEP = 256 << 10
"""The kernel accounts for memory in batches, of which each processor has one."""


def in_container(request: MinheapOfProgram) -> Results:
    """The least memory limit under each manager, and the time near it."""
    quota = request.quota
    if request.repeats < 1 or (request.step is not None and request.step < PAGE):
        raise UsageError("--repeats must be at least 1, and --step at least a page (4KiB)")
    if not 1 < request.slow <= 1000:
        raise UsageError(f"--slow {request.slow:g}: give a number above 1, up to 1000")
    if quota is not None and not 0.01 <= quota <= 1024:
        raise UsageError(f"--quota {quota:g}: give a number of processors from 0.01 to 1024")
    (chosen,) = programs_of(request.program)
    resolved, baseline = managers_of(request.managers, "")
    containers.check(Container(processors=quota))
    where = request.folder_or_new(study.STUDY, Path(chosen.argv[0]).name)
    trials = where / executed.TRIALS_FILE
    plan = Plan((chosen.name,), tuple(resolved))
    planned = Planned(
        lambda records: planning.next_round(
            plan, records, study=study.STUDY, observer=study.OBSERVER
        ),
        planned_runs(plan),
    )
    question = Question(
        study.STUDY,
        "least limits of a container",
        Compared([chosen], resolved, baseline),
        request.asked(),
        {study.OBSERVER: _Seeking(request, trials).run_once},
        {"cgroup_version": containers.version()},
    )
    results = measure(question, lambda _seed: planned, request.where(folder=where))
    trials.unlink(missing_ok=True)  # they are in the records now
    return results


@dataclass(frozen=True)
class _Seeking:
    """One manager's search, and what is timed after it."""

    request: MinheapOfProgram
    trials: Path

    def run_once(
        self,
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        def run(container: Container | None) -> Outcome:
            allowed = replace(limits, container=container)
            return runner.run_once(program, manager, allowed, workspace, keep_output)

        quota = self.request.quota
        free = Container(processors=quota)
        outcome = run(free)
        if outcome.status is not Status.OK:
            return outcome
        seek = self._search(outcome.values["peak_resident_bytes"])
        found = seek(program, manager, limits, workspace, keep_output)
        if found.status is not Status.OK:
            return found
        low, high = (int(found.values[name]) for name in (executed.LOW, executed.HIGH))
        settings: list[tuple[float, Container | None]] = [
            *((multiple, _limited(multiple * high, quota)) for multiple in study.MULTIPLES),
            (study.NO_LIMIT, free),
        ]
        if quota is not None:
            settings.append((study.NO_QUOTA, None))
        rounds = [[run(container) for _, container in settings] for _ in range(study.RUNS)]
        near = [
            _near(multiple, outcomes)
            for (multiple, _), outcomes in zip(settings, zip(*rounds, strict=True), strict=True)
        ]
        values = {**found.values, study.LOW: float(low), study.HIGH: float(high)}
        del values[executed.LOW], values[executed.HIGH]
        details = {**found.details, "near": to_builtins(near)}
        return replace(found, values=values, details=details)

    def _search(self, peak: float) -> Observe:
        memory = describe_machine()["memory_bytes"]
        guess = min(int(_ROOM * peak), memory // 2)
        step = self.request.step or max(_LEAST_STEP, int(peak) // _STEPS_IN_THE_PEAK)
        search = Search(guess, step, self.request.repeats, most=memory // 2, second=int(peak))
        quota = self.request.quota

        def within(manager: Manager, limits: Limits, size: int) -> tuple[Manager, Limits]:
            return manager, replace(limits, container=_limited(size, quota))

        return executed.observe(search, self.request.slow, self.trials, within)


def _limited(size: float, quota: float | None) -> Container:
    return Container(math.ceil(size / PAGE) * PAGE, quota)


def _near(multiple: float, outcomes: Sequence[Outcome]) -> Near:
    good = [each for each in outcomes if each.status is Status.OK]
    return Near(
        multiple,
        tuple(_timed(each) for each in good),
        sum(each.status is Status.OUT_OF_MEMORY for each in outcomes),
        sum(each.status not in (Status.OK, Status.OUT_OF_MEMORY) for each in outcomes),
    )


def _timed(outcome: Outcome) -> Timed:
    values = outcome.values
    return Timed(
        values["wall_seconds"], executed.processor_seconds(outcome), values["peak_resident_bytes"]
    )
