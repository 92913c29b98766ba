"""The least heap in which a collector can replay a heap trace, found by bisection.

Every trial is a process of its own with a heap of a fixed size. ``next_trial`` decides the sizes
from the trials so far, and starts nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tare import replay
from tare.errors import UsageError
from tare.manager import Manager, parse_name
from tare.measurement import Status
from tare.program import Program, hash_file
from tare.recipes import load_recipes, object_path
from tare.runner import Limits, Outcome
from tare.schedule import DEATHS, How, check, compile_trace
from tare.trace import META_FILE, Trace, open_trace

if TYPE_CHECKING:
    from tare.api import Watcher
    from tare.executor import Observe
    from tare.results import Results

PAGE = 4096
LEAST_STEP = 4 * PAGE
STEPS_IN_THE_PEAK = 100
"""The interval is narrowed to this part of the peak of live bytes, unless a step is given."""
GUESS = 4
"""The first heap that is tried, in peaks of live bytes."""
MOST_HEAP = 64
"""The largest heap that is tried, in first heaps."""
MOST_TRIALS = 100
HEADER_BYTES = 8
"""Of each object in a collector's heap, beyond what the program asked for."""
SLOW = 20.0
"""A trial that takes so many times as long as the first that fitted counts as not fitting: it does
little but collect."""
LEAST_TIMEOUT_SECONDS = 10.0
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
_DO_NOT_FIT = (Status.OUT_OF_MEMORY, Status.TIMEOUT, Status.FAILED)
"""A collector that crashes in a small heap does not fit into it either; trials keep them apart."""


@dataclass(frozen=True)
class Trial:
    heap_bytes: int
    fits: bool


@dataclass(frozen=True)
class Interval:
    """All trials in heaps up to ``low`` did not fit, all from ``high`` on did; None before there
    is such a trial. ``low`` 0 stands for no heap at all."""

    low: int | None
    high: int | None
    varied: tuple[int, ...]
    """Sizes between the two that were tried; none where the answer does not vary."""


def interval_of(trials: Sequence[Trial]) -> Interval:
    """What trials say, in whatever order they were made."""
    sizes = sorted({trial.heap_bytes for trial in trials})
    failed = {trial.heap_bytes for trial in trials if not trial.fits}
    fitted = {trial.heap_bytes for trial in trials if trial.fits}
    above = [size for size in sizes if size > max(failed, default=0)]
    below = [size for size in sizes if not fitted or size < min(fitted)]
    low, high = max(below, default=None), min(above, default=None)
    between = [
        size for size in sizes if (low is None or size > low) and (high is None or size < high)
    ]
    return Interval(low, high, tuple(between))


def next_trial(trials: Sequence[Trial], guess: int, step: int, repeats: int) -> int | None:
    """The heap to try next, in bytes; None when the interval is known.

    Both ends are tried ``repeats`` times, and the gap beside each is at most ``step``; where the
    answer varies, the interval is as wide as the sizes at which it does.
    """
    if not trials:
        return _pages(guess)
    found = interval_of(trials)
    sizes = [trial.heap_bytes for trial in trials]
    if found.high is None:
        return max(sizes) * 2
    if found.low is None:
        # The smallest heap of all is one page, and nothing fits into none.
        smallest = min(sizes)
        if smallest > PAGE:
            return max(PAGE, _pages(smallest // 2))
    low = found.low or 0
    for below, above in (
        (low, min(found.varied, default=found.high)),
        (max(found.varied, default=low), found.high),
    ):
        if above - below > max(step, PAGE):
            return _pages((below + above) // 2)
    for end in (found.high, found.low):
        if end is not None and sizes.count(end) < repeats:
            return end
    return None


def _pages(size: int) -> int:
    return max(1, size // PAGE) * PAGE


@dataclass(frozen=True)
class Search:
    """How the least heap is sought. ``guess`` and ``step`` are bytes."""

    guess: int
    step: int
    repeats: int


def observe(search: Search) -> Observe:
    """What does one search, as an observer of the executor."""

    def run_once(
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        if not manager.replayer:
            return _one_replay(program, manager, limits, workspace, keep_output)
        return _search(search, program, manager, limits, workspace, keep_output)

    return run_once


def _one_replay(
    program: Program, manager: Manager, limits: Limits, workspace: Path, keep_output: Path | None
) -> Outcome:
    """A manager without a limit for its heap takes what it takes. Where the pages that hold an
    object are known, they are its heap, as Sareen counts them."""
    outcome = replay.run_once(program, manager, limits, workspace, keep_output)
    if outcome.status is not Status.OK:
        return outcome
    peak = outcome.values.get("peak_active_bytes", outcome.values["peak_reserved_bytes"])
    values = {"min_heap_low_bytes": peak, "min_heap_high_bytes": peak, "trials": 1}
    return replace(outcome, values={**outcome.values, **values})


def _search(
    search: Search,
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None,
) -> Outcome:
    trials: list[Trial] = []
    told: list[tuple[int, str, float]] = []
    best: Outcome | None = None
    while (size := next_trial(trials, search.guess, search.step, search.repeats)) is not None:
        if size > search.guess * MOST_HEAP or len(trials) >= MOST_TRIALS:
            break
        one = replace(manager, replayer=(*manager.replayer, "--heap", str(size)))
        begun = time.monotonic()
        outcome = replay.run_once(program, one, limits, workspace, keep_output)
        took = time.monotonic() - begun
        told.append((size, str(outcome.status), took))
        fits = outcome.status is Status.OK
        if best is not None and fits and outcome.output_sha256 != best.output_sha256:
            reason = f"with a heap of {size} bytes the objects at the end are others"
            return Outcome(Status.WRONG_OUTPUT, reason, details={"trials": told})
        if not fits and outcome.status not in _DO_NOT_FIT:
            return replace(outcome, details={"trials": told})
        trials.append(Trial(size, fits))
        if fits and best is None:
            timeout = max(LEAST_TIMEOUT_SECONDS, SLOW * took)
            limits = replace(limits, timeout_seconds=limits.timeout_seconds or timeout)
        if fits and (best is None or size == interval_of(trials).high):
            best = outcome
    found = interval_of(trials)
    if best is None or found.high is None:
        largest = max(trial.heap_bytes for trial in trials)
        why = f"no least heap was found in {len(trials)} trials, up to {largest} bytes"
        status = Status.FAILED if outcome.status is Status.OK else outcome.status
        return replace(outcome, status=status, reason=why, values={}, details={"trials": told})
    values = {
        **best.values,
        "min_heap_low_bytes": float(found.low or 0),
        "min_heap_high_bytes": float(found.high),
        "trials": float(len(trials)),
    }
    return replace(best, values=values, details={"trials": told})


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
    from tare import api
    from tare.executor import OBSERVERS
    from tare.planning import Plan, planned_runs
    from tare.results import default_folder
    from tare.studies import minheap as study

    if repeats < 1 or (step is not None and step < PAGE):
        raise UsageError("each end is tried once at least, and a step is a page (4KiB) at least")
    opened = open_trace(trace)
    how = how or How()
    how = replace(how, process=check(opened, how))
    resolved, baseline = replay.managers_of(managers or default_managers())
    for manager in resolved.values():
        if manager.replayer and "heap" in parse_name(manager.name)[1]:
            raise UsageError(f"{manager.name}: the heap is what is sought", "leave out heap=")
    where = Path(folder) if folder else default_folder(study.STUDY, opened.folder.stem)
    watcher = watcher or api.Watcher()
    schedule = (where / ".work" / replay.SCHEDULE_FILE).resolve()
    program = replay.program_of(opened, how, schedule)
    schedule.parent.mkdir(parents=True, exist_ok=True)
    watcher.note("compiling the trace")
    oracles = _oracles(opened, how, schedule)
    counted = compile_trace(opened, how, schedule)
    search = Search(
        guess=_pages(GUESS * (counted["peak_bytes"] + HEADER_BYTES * counted["peak_objects"]))
        + LEAST_STEP,
        step=step or max(LEAST_STEP, _pages(counted["peak_bytes"] // STEPS_IN_THE_PEAK)),
        repeats=repeats,
    )
    asked = {
        "trace": str(opened.folder.resolve()),
        "meta_sha256": hash_file(opened.folder / META_FILE),
        "how": {name: getattr(how, name) for name in ("death", "touch", "process", "pointers")},
        "step": search.step,
        "repeats": repeats,
    }
    plan = Plan((program.name,), tuple(resolved))
    planned = api._Planned(lambda records: study.next_round(plan, records), planned_runs(plan))
    return api._measure(
        study.STUDY,
        "least heaps",
        [program],
        resolved,
        baseline,
        asked,
        lambda _seed: planned,
        api._Where(seed, limits, where, watcher),
        {**OBSERVERS, study.OBSERVER: observe(search)},
        schedule=counted,
        oracles=oracles,
    )


def default_managers() -> list[str]:
    """``DEFAULT_MANAGERS``, and of ``ALLOCATORS`` those that are installed, by themselves and under
    mark-sweep collectors."""
    recipes = load_recipes()
    installed = [name for name in ALLOCATORS if object_path(recipes[name]) is not None]
    swept = [f"marksweep({name}, every={every})" for name in installed for every in PERIODS]
    return list(dict.fromkeys([*DEFAULT_MANAGERS, *installed, *swept]))


def _oracles(trace: Trace, how: How, schedule: Path) -> Mapping[str, int]:
    """By each death that the trace tells of, the most bytes that live at one moment."""
    peaks = {}
    for death in DEATHS:
        try:
            check(trace, replace(how, death=death))
        except UsageError:
            continue
        peaks[death] = compile_trace(trace, replace(how, death=death), schedule)["peak_bytes"]
    return peaks
