"""The least heap in which a collector can replay a heap trace.

Every trial is a process of its own with a heap of a fixed size; ``tare.least_heap`` decides the
sizes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tare import least_heap, replay
from tare.errors import UsageError
from tare.executor import OBSERVERS, Observe
from tare.layers import marksweep
from tare.least_heap import PAGE, Search, Trial
from tare.manager import Manager, parse_name
from tare.measurement import Status
from tare.measuring import Planned, Watcher, Where, measure
from tare.planning import Plan, planned_runs
from tare.program import Program
from tare.recipes import load_recipes, object_path
from tare.replay_runs import oracles, prepare
from tare.results import Results
from tare.runner import Limits, Outcome
from tare.schedule import How
from tare.studies import minheap as study
from tare.studies.minheap import PARTS
from tare.trace import open_trace

LEAST_STEP = 4 * PAGE
STEPS_IN_THE_PEAK = 100
"""The interval is narrowed to this part of the peak of live bytes, unless a step is given."""
GUESS = 4
"""The first heap that is tried, in peaks of live bytes."""
HEADER_BYTES = 8
"""Of each object in a collector's heap, beyond what the program asked for."""
SLOW = 20.0
"""A trial that takes so many times as long as the first that fitted counts as not fitting: it does
little but collect."""
LEAST_TIMEOUT_SECONDS = 10.0
MOST_SIDE_BY_SIDE = 4
TRIALS_FILE = "trials.jsonl"
DEFAULT_MANAGERS = (
    "semispace",
    "gencopy",
    "genimmix",
    "immix",
    "immix-nonmoving",
    "stickyimmix",
    "freelist-marksweep",
    "markcompact",
    "glibc",
    "mimalloc",
)
"""And what ``default_managers`` adds."""
ALLOCATORS = ("mimalloc", "tcmalloc")
PERIODS = ("32KiB", "64KiB", "128KiB")
"""Of the mark-sweep collectors over ``ALLOCATORS``."""


def observe(search: Search, trials: Path) -> Observe:
    """What does one search, as an observer of the executor. The file ``trials`` keeps what an
    interrupted one has found."""

    def run_once(
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        if not manager.replayer:
            return _one_replay(program, manager, limits, workspace, keep_output)

        def attempt(size: int, first: Trial | None) -> Outcome:
            options = ("--account", "yes", "--heap", str(size))
            one = replace(manager, replayer=(*manager.replayer, *options))
            allowed = limits
            if first is not None and limits.timeout_seconds is None:
                slow = max(LEAST_TIMEOUT_SECONDS, SLOW * first.seconds)
                allowed = replace(limits, timeout_seconds=slow)
            return replay.run_once(program, one, allowed, workspace, keep_output)

        found = least_heap.least_heap(
            search,
            attempt,
            least_heap.kept_trials(trials, manager.name),
            lambda trial: least_heap.keep_trial(trials, manager.name, trial),
        )
        return replace(found, values=_with_the_rest(found.values, "heap_unused_bytes"))

    return run_once


def _one_replay(
    program: Program, manager: Manager, limits: Limits, workspace: Path, keep_output: Path | None
) -> Outcome:
    """A manager without a limit for its heap takes what it takes. Where the pages that hold an
    object are known, they are its heap, as Sareen counts them."""
    if replay.heap_of(manager) == marksweep.NAME:
        program = replace(program, argv=(*program.argv, "--untimed"))
    outcome = replay.run_once(program, manager, limits, workspace, keep_output)
    if outcome.status is not Status.OK:
        return outcome
    peak = outcome.values.get("peak_active_bytes", outcome.values["peak_reserved_bytes"])
    values = {"min_heap_low_bytes": peak, "min_heap_high_bytes": peak, "trials": 1}
    values = _with_the_rest({**outcome.values, **values}, "heap_fragmentation_bytes")
    return replace(outcome, values=values)


def _with_the_rest(values: Mapping[str, float], rest: str) -> dict[str, float]:
    """``values`` with what no part of the least heap accounts for as the part ``rest``. Without a
    collection of the whole heap there are no parts."""
    if not values.get("heap_live_bytes"):
        return {name: value for name, value in values.items() if name not in PARTS}
    known = sum(values[name] for name in PARTS if name in values)
    return {**values, rest: max(0.0, values["min_heap_high_bytes"] - known)}


def minheap(
    trace: Path | str,
    managers: Sequence[str] = (),
    *,
    how: How | None = None,
    step: int | None = None,
    repeats: int = 3,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """The least heap of each collector for a heap trace, and the peak of each other manager.

    ``step`` is how narrow the interval is to be, in bytes; ``repeats`` how often each of its ends
    is tried. ``folder`` is as for ``tare.compare``, ``how`` as for ``tare.replay.replay``.
    """
    if repeats < 1 or (step is not None and step < PAGE):
        raise UsageError("each end is tried once at least, and a step is a page (4KiB) at least")
    opened = open_trace(trace)
    resolved, baseline = replay.managers_of(managers or default_managers())
    for manager in resolved.values():
        if manager.replayer and "heap" in parse_name(manager.name)[1]:
            raise UsageError(f"{manager.name}: the heap is what is sought", "leave out heap=")
    prepared = prepare(opened, how or How(), study.STUDY, folder, watcher)
    search = search_for(prepared.counted, step, repeats)
    plan = Plan((prepared.program.name,), tuple(resolved))
    planned = Planned(lambda records: study.next_round(plan, records), planned_runs(plan))
    trials = prepared.folder / TRIALS_FILE
    results = measure(
        study.STUDY,
        "least heaps",
        [prepared.program],
        resolved,
        baseline,
        {**prepared.asked(), "step": search.step, "repeats": repeats},
        lambda _seed: planned,
        Where(seed, limits, prepared.folder, prepared.watcher),
        {**OBSERVERS, study.OBSERVER: observe(search, trials)},
        schedule=prepared.counted,
        oracles=oracles(prepared),
    )
    trials.unlink(missing_ok=True)  # they are in the records now
    return results


def search_for(counted: Mapping[str, int], step: int | None, repeats: int) -> Search:
    """How to seek the least heap for a schedule that counts these."""
    cells = counted["peak_bytes"] + HEADER_BYTES * counted["peak_objects"]
    return Search(
        guess=GUESS * cells + LEAST_STEP,
        step=step or max(LEAST_STEP, counted["peak_bytes"] // STEPS_IN_THE_PEAK),
        repeats=repeats,
        side_by_side=min(MOST_SIDE_BY_SIDE, len(os.sched_getaffinity(0))),
    )


def default_managers() -> list[str]:
    """``DEFAULT_MANAGERS``, and of ``ALLOCATORS`` those that are installed, by themselves and under
    mark-sweep collectors."""
    recipes = load_recipes()
    installed = [name for name in ALLOCATORS if object_path(recipes[name]) is not None]
    swept = [f"marksweep({name}, every={every})" for name in installed for every in PERIODS]
    return list(dict.fromkeys([*DEFAULT_MANAGERS, *installed, *swept]))
