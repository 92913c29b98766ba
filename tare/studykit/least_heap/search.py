"""The minimum heap into which something fits, found by bisection.

``next_trials`` decides the sizes from the trials so far, and starts nothing. ``least_heap`` makes
the trials with a function that it is given: a replay, or a real program with an option for its
heap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tare.base.files import writing
from tare.observers.runner import side_by_side
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run

PAGE = 4096
MOST_GROWTH = 64
"""The largest heap that is tried, in first heaps, unless it is given."""
MOST_TRIALS = 100
DO_NOT_FIT = (Status.OUT_OF_MEMORY, Status.TIMEOUT, Status.FAILED)
"""A program that crashes in a small heap does not fit into it either; trials keep them apart."""
_STUDY, _FACTS = "least-heap-trial", "trial"


@dataclass(frozen=True)
class Search:
    """How the minimum heap is sought; sizes are bytes. ``guess`` is the first heap; the interval is
    narrowed to ``step``, and each of its ends tried ``repeats`` times. Heaps are multiples of
    ``unit``, and at most ``most``. ``second`` is the heap to try after the first, near where the
    least one is to be expected. ``side_by_side`` trials are made at the same time, which is for
    trials whose time does not matter."""

    guess: int
    step: int
    repeats: int
    unit: int = PAGE
    most: int | None = None
    side_by_side: int = 1
    second: int | None = None

    @property
    def largest(self) -> int:
        return self.guess * MOST_GROWTH if self.most is None else self.most

    def whole(self, size: int) -> int:
        """``size`` in whole units, one at least."""
        return max(1, size // self.unit) * self.unit


@dataclass(frozen=True)
class Trial:
    heap_bytes: int
    outcome: Outcome
    seconds: float = 0.0

    @property
    def fits(self) -> bool:
        return self.outcome.status is Status.OK


Attempt = Callable[[int, Trial | None], Outcome]
"""Tries a heap of so many bytes; also given is the first trial that fitted, None before there is
one. A status that is neither ok nor of ``DO_NOT_FIT`` ends the search."""


@dataclass(frozen=True)
class Interval:
    """All trials in heaps up to ``low`` did not fit, all from ``high`` on did; None before there
    is such a trial."""

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


def next_trials(trials: Sequence[Trial], search: Search) -> list[int]:
    """The heaps to try next, in bytes, as many at most as may be tried at the same time; none when
    the interval is known.

    Both ends are tried ``repeats`` times, and the gap beside each is at most ``step``; where the
    answer varies, the interval is as wide as the sizes at which it does.
    """
    if not trials:
        return [search.whole(search.guess)]
    found = interval_of(trials)
    sizes = [trial.heap_bytes for trial in trials]
    if found.high is None:
        larger = min(max(sizes) * 2, search.whole(search.largest))
        return [larger] if larger > max(sizes) else []
    if found.low is None and search.second and min(sizes) > (second := search.whole(search.second)):
        return [second]
    if found.low is None and min(sizes) > search.unit:
        # The smallest heap of all is one unit, and nothing fits into none.
        smaller = (min(sizes) >> halvings for halvings in range(1, search.side_by_side + 1))
        return _distinct(search.whole(size) for size in smaller)
    low = found.low or 0
    for below, above in (
        (low, min(found.varied, default=found.high)),
        (max(found.varied, default=low), found.high),
    ):
        if above - below > max(search.step, search.unit):
            parts = search.side_by_side + 1
            inside = (below + (above - below) * part // parts for part in range(1, parts))
            return [size for size in _distinct(map(search.whole, inside)) if size > below]
    ends = [end for end in (found.high, found.low) if end is not None]
    missing = [end for end in ends for _ in range(sizes.count(end), search.repeats)]
    return missing[: search.side_by_side]


def _distinct(sizes: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(sizes))


def least_heap(
    search: Search,
    attempt: Attempt,
    known: Sequence[Trial] = (),
    keep: Callable[[Trial], None] = lambda _: None,
) -> Outcome:
    """The outcome of ``attempt`` in the minimum heap, with the interval among its values and all
    trials in its details; or a status without values.

    ``known`` are trials of an earlier search for the same that was interrupted; ``keep`` is given
    each new one.
    """
    trials = list(known)
    while (fault := _fault(trials)) is None and (sizes := next_trials(trials, search)):
        if len(trials) + len(sizes) > MOST_TRIALS:
            break
        first = next((trial for trial in trials if trial.fits), None)
        for trial in side_by_side([_trial(attempt, size, first) for size in sizes]):
            keep(trial)
            trials.append(trial)
    details = {"trials": [(t.heap_bytes, str(t.outcome.status), t.seconds) for t in trials]}
    if fault is not None:
        return replace(fault, values={}, details=details)
    found = interval_of(trials)
    if found.high is None:
        largest = max(trials, key=lambda trial: trial.heap_bytes)
        why = f"no minimum heap was found in {len(trials)} trials, up to {largest.heap_bytes} bytes"
        outcome = next(trial.outcome for trial in reversed(trials) if not trial.fits)
        return replace(outcome, reason=why, values={}, details=details)
    best = [trial.outcome for trial in trials if trial.heap_bytes == found.high][-1]
    values = {
        **best.values,
        "min_heap_low_bytes": float(found.low or 0),
        "min_heap_high_bytes": float(found.high),
        "trials": float(len(trials)),
    }
    return replace(best, values=values, details={**best.details, **details})


def _trial(attempt: Attempt, size: int, first: Trial | None) -> Callable[[], Trial]:
    def make() -> Trial:
        begun = time.monotonic()
        outcome = attempt(size, first)
        return Trial(size, outcome, time.monotonic() - begun)

    return make


def _fault(trials: Sequence[Trial]) -> Outcome | None:
    """What ends a search without an answer."""
    output = next((trial.outcome.output_sha256 for trial in trials if trial.fits), "")
    for trial in trials:
        if trial.fits and trial.outcome.output_sha256 != output:
            reason = f"in a heap of {trial.heap_bytes} bytes its result is different"
            return Outcome(Status.WRONG_OUTPUT, reason)
        if not trial.fits and trial.outcome.status not in DO_NOT_FIT:
            return trial.outcome
    return None


# ---- trials of searches that may be interrupted ----


def keep_trial(path: Path, manager: str, trial: Trial) -> None:
    """Append a trial of the search for ``manager`` to the file ``path``."""
    run = Run(_STUDY, "", manager, trial.heap_bytes, 0)
    facts = {"heap_bytes": trial.heap_bytes, "seconds": trial.seconds}
    outcome = replace(trial.outcome, details={**trial.outcome.details, _FACTS: facts})
    with writing(path.parent), path.open("a") as file:
        file.write(Record(run, outcome).to_line() + "\n")


def kept_trials(path: Path, manager: str) -> list[Trial]:
    """The trials of the search for ``manager`` that ``path`` has; what is torn or damaged there is
    left out, and will be tried again."""
    trials = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            record = Record.from_line(line)
            details = dict(record.outcome.details)
            facts = details.pop(_FACTS)
            outcome = replace(record.outcome, details=details)
            trial = Trial(int(facts["heap_bytes"]), outcome, float(facts["seconds"]))
        except (ValueError, KeyError, TypeError):
            continue
        if record.run.manager == manager and trial.heap_bytes > 0:
            trials.append(trial)
    return trials
