"""The minimum heap in which a collector can replay a heap trace.

Every trial is a process of its own with a heap of a fixed size; ``tare.studykit.least_heap.search``
decides the sizes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tare.memory_managers.catalogue import load_recipes, object_path
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import Manager, options_of, with_options
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studykit import replayer
from tare.studykit.least_heap import search as least_heap
from tare.studykit.least_heap.search import PAGE, Search, Trial
from tare.studykit.sweeps import size_text

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

PARTS = (
    "heap_live_bytes",
    "heap_copy_reserve_bytes",
    "heap_metadata_bytes",
    "heap_fragmentation_bytes",
    "heap_garbage_bytes",
    "heap_unused_bytes",
)
"""What a minimum heap is made of."""


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
            return replayer.run_once(program, one, allowed, workspace, keep_output)

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
    if replayer.heap_of(manager) == marksweep.NAME:
        program = replace(program, argv=(*program.argv, "--untimed"))
    outcome = replayer.run_once(program, manager, limits, workspace, keep_output)
    if outcome.status is not Status.OK:
        return outcome
    peak = outcome.values.get("peak_active_bytes", outcome.values["peak_reserved_bytes"])
    values = {"min_heap_low_bytes": peak, "min_heap_high_bytes": peak, "trials": 1}
    values = _with_the_rest({**outcome.values, **values}, "heap_fragmentation_bytes")
    return replace(outcome, values=values)


def _with_the_rest(values: Mapping[str, float], rest: str) -> dict[str, float]:
    """``values`` with what no part of the minimum heap accounts for as the part ``rest``. Without a
    collection of the whole heap there are no parts."""
    if not values.get("heap_live_bytes"):
        return {name: value for name, value in values.items() if name not in PARTS}
    known = sum(values[name] for name in PARTS if name in values)
    return {**values, rest: max(0.0, values["min_heap_high_bytes"] - known)}


def search_for(counted: Mapping[str, int], step: int | None, repeats: int) -> Search:
    """How to seek the minimum heap for a schedule that counts these."""
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


def in_heap(collector: str, size: int) -> str:
    """The name of ``collector`` with a heap of ``size`` bytes, in whole pages."""
    pages = -(-size // PAGE) * PAGE
    return with_options(collector, {"heap": size_text(pages), **options_of(collector)})
