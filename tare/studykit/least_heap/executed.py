"""The minimum heap in which a program runs under the collector of a runtime, by really running it.

``tare.studykit.least_heap.search`` decides the sizes. A heap counts as large enough when the
program ends well in it and takes not much more processor time than in a large one: near the least
heap a program either runs out of memory or does little but collect, and which of the two it is can
be chance.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tare.base.errors import UsageError
from tare.campaign import planning
from tare.campaign.planning import Plan, planned_runs
from tare.campaign.session import Compared, Planned, Question, managers_of, measure, programs_of
from tare.memory_managers import runtimes, suitable
from tare.memory_managers.manager import Manager, options_of, resolve, with_options
from tare.memory_managers.mmtk import HEAP
from tare.memory_managers.runtimes import jvm
from tare.observers import runner
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Limits, Outcome
from tare.studykit.least_heap import search as least_heap
from tare.studykit.least_heap.request import MinheapExecuted
from tare.studykit.least_heap.search import Search, Trial
from tare.studykit.request import answers
from tare.studykit.sweeps import size_text

UNIT = 1 << 20
"""Heaps are whole MiB: a JVM rounds to its regions anyway."""
GUESS = 512 << 20
"""The first heap, which is to be large; a larger one follows where it is too small."""
_LEAST_TIMEOUT_SECONDS = 20.0
_WAITING = 4.0
"""A trial may take so many times the wall time that its processor time would allow."""
TRIALS_FILE = "trials.jsonl"
DEFAULT_MANAGERS = jvm.LIMITED
"""Of JVMs."""

Within = Callable[[Manager, Limits, int], tuple[Manager, Limits]]

STUDY = "minheap-executed"
OBSERVER = "minheap-executed"
LOW = "min_heap_low_bytes"
HIGH = "min_heap_high_bytes"


def in_heap(manager: str, size: int) -> str:
    """The name of ``manager`` with a heap of ``size`` bytes."""
    return with_options(manager, {"heap": size_text(size), **options_of(manager)})


def processor_seconds(outcome: Outcome) -> float:
    return outcome.values["user_seconds"] + outcome.values["system_seconds"]


def with_heap(manager: Manager, limits: Limits, size: int) -> tuple[Manager, Limits]:
    """What a trial of ``size`` bytes runs under."""
    return resolve(in_heap(manager.name, size)), limits


def observe(search: Search, slow: float, trials: Path, within: Within = with_heap) -> Observe:
    """What does one search, as an observer of the executor. The file ``trials`` keeps what an
    interrupted one has found; ``within`` gives what sets a size."""

    def run_once(
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        def attempt(size: int, first: Trial | None = None) -> Outcome:
            one, allowed = within(manager, limits, size)
            if first is not None and limits.timeout_seconds is None:
                seconds = max(_LEAST_TIMEOUT_SECONDS, _WAITING * slow * first.seconds)
                allowed = replace(allowed, timeout_seconds=seconds)
            outcome = runner.run_once(program, one, allowed, workspace, keep_output)
            return outcome if first is None else _not_slow(outcome, first.outcome, slow)

        known = least_heap.kept_trials(trials, manager.name)
        if not known:
            begun = time.monotonic()
            outcome = attempt(search.guess)
            if outcome.status is Status.FAILED:  # for want of something else than memory
                return outcome
            known = [Trial(search.guess, outcome, time.monotonic() - begun)]
            least_heap.keep_trial(trials, manager.name, known[0])
        return least_heap.least_heap(
            search,
            attempt,
            known,
            lambda trial: least_heap.keep_trial(trials, manager.name, trial),
        )

    return run_once


def _not_slow(outcome: Outcome, first: Outcome, slow: float) -> Outcome:
    if outcome.status is not Status.OK:
        return outcome
    times = processor_seconds(outcome) / processor_seconds(first)
    if times <= slow:
        return outcome
    reason = f"it took {times:.1f} times the processor time that it takes in much memory"
    return replace(outcome, status=Status.TIMEOUT, reason=reason, values={})


def search_for(step: int | None, repeats: int) -> Search:
    """How to seek a minimum heap: from ``GUESS`` down, or up to half of the machine's memory."""
    memory = describe_machine()["memory_bytes"]
    return Search(
        guess=min(GUESS, memory // 4),
        step=step or UNIT,
        repeats=repeats,
        unit=UNIT,
        most=memory // 2,
    )


def check_collectors(managers: Sequence[Manager]) -> None:
    """Raise UsageError for a manager whose heap cannot be varied."""
    for manager in managers:
        if manager.runtime is None:
            raise UsageError(
                f"{manager.name} cannot limit the heap of a program",
                "give collectors of a runtime, like -m jvm.serial; "
                "a recorded T.tare has a minimum heap under any collector of MMTk",
            )
        setting, runtime = manager.runtime, runtimes.runtime(manager.runtime.runtime)
        if HEAP in setting.options:
            raise UsageError(f"{manager.name}: the heap is searched for", "leave out heap=")
        if runtimes.never_collects(setting):
            raise UsageError(
                f"{manager.name} never collects: its minimum heap is all memory ever allocated",
                f"tare compare -m {shlex.quote(manager.name)} shows what that takes",
            )
        if not runtimes.has_heap(setting):
            raise UsageError(f"{manager.name} has no limit for its heap", runtime.NO_HEAP)


def _limited(program: Program) -> tuple[str, ...]:
    """The collectors of the program's runtime that have a limit for their heap."""
    runtime = runtimes.running(program)
    if not runtime.LIMITED:
        raise UsageError(
            f"{program.name}: {runtime.TITLE} has no limit for its heap", runtime.NO_HEAP
        )
    return runtime.LIMITED


@answers(MinheapExecuted)
def minheap_executed(request: MinheapExecuted) -> Results:
    """The minimum heap of a program under each collector of its runtime.

    ``step`` is how narrow the interval is to be, in bytes; ``repeats`` how often each of its ends
    is tried. In a heap that is large enough the program takes at most ``slow`` times the processor
    time of a large one. ``folder`` is as for ``tare.compare``.
    """
    if request.repeats < 1 or (request.step is not None and request.step < UNIT):
        raise UsageError("--repeats must be at least 1, and --step at least 1MiB")
    if not 1 < request.slow <= 1000:
        raise UsageError(f"--slow {request.slow:g}: give a number above 1, up to 1000")
    (chosen,) = programs_of(request.program)
    resolved, baseline = managers_of(request.managers or _limited(chosen), "")
    check_collectors(list(resolved.values()))
    suitable.check([chosen], [resolve(in_heap(name, UNIT)) for name in resolved])
    search = search_for(request.step, request.repeats)
    where = request.folder_or_new(STUDY, Path(chosen.argv[0]).name)
    trials = where / TRIALS_FILE
    plan = Plan((chosen.name,), tuple(resolved))
    planned = Planned(lambda records: next_round(plan, records), planned_runs(plan))
    question = Question(
        STUDY,
        "minimum heaps",
        Compared([chosen], resolved, baseline),
        {**request.asked(), "step": search.step},
        {OBSERVER: observe(search, request.slow, trials)},
    )
    results = measure(question, lambda _seed: planned, request.where(folder=where))
    trials.unlink(missing_ok=True)  # they are in the records now
    return results


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
