"""What a change did to each figure: the verdicts of `tare gate`.

Counts decide first: they do not depend on what else the machine does. A claim is made only where
the whole interval lies beyond the threshold; where it does not, and could, nothing can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from msgspec import Struct

from tare.base import statistics
from tare.base.documents import converted
from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.campaign.pace import Pace
from tare.gating.request import COUNT, DEFAULT_THRESHOLD, TIME
from tare.records.evidence import (
    COUNTED_ONCE,
    LEAST_COUNTED,
    UNSEEN,
    Runs,
    error_of,
    judge,
    judge_apart,
)
from tare.records.header import Amount, Asked
from tare.records.metrics import METRICS, Status
from tare.records.results import Results
from tare.records.runs import Number, Record

Row = TypeVar("Row")
BASE, HEAD = "base", "head"
"""The names of the two programs."""
REGRESSION, IMPROVEMENT, SAME, UNTOLD, NO_FIGURE = (
    "regression",
    "improvement",
    "same",
    "cannot tell",
    "no figure",
)
VERDICTS = {
    REGRESSION: "The whole interval is beyond the threshold, for the worse.",
    IMPROVEMENT: "The whole interval is beyond the threshold, for the better.",
    SAME: "The whole interval is within the threshold.",
    UNTOLD: "The threshold lies within the interval, which more runs make narrower.",
    NO_FIGURE: "One of the two gave no figure.",
}
COUNTED = (
    *("instructions", "objects", "allocated_bytes", "max_live_bytes"),
    *("peak_free_bytes", "simulated_cycles"),
)
"""Of which less is better. The last two are of results of `tare drag` and `memsys`."""
COUNTING = ("count", "drag", "memsys")
"""Studies whose figures do not depend on what else the machine does, the best first."""
_SPACE = "space"
_TO_SEE_REPETITION = 2
"""Counts."""
MEASURED = ("peak_resident_bytes", "wall_seconds", "processor_seconds")


class AskedOfGate(Asked, frozen=True):
    threshold: float = DEFAULT_THRESHOLD
    skip: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """The two results that were judged, where nothing was run."""
    pace: Pace | None = None
    """Of the machine in them."""
    once: Amount = 0
    """How far counts that were made once may lie from others, as a share."""


@dataclass(frozen=True)
class Change:
    """Of one metric; None where there is no figure. ``ratio`` is head over base, with the interval
    that the verdict rests on; ``reason`` says why nothing can be told, where that is not it."""

    metric: str
    base: float | None
    head: float | None
    ratio: statistics.Interval | None
    runs: int
    verdict: str
    reason: str = ""


def asked_of(results: Results) -> AskedOfGate:
    return converted(results.document.get("request", {}), AskedOfGate)


def changes(results: Results) -> list[Change]:
    """All figures that either has, the counted ones first."""
    frame = results.measurements.filter(pl.col("status") == "ok", pl.col("value").is_finite())
    asked = asked_of(results)
    found = [
        *(_counted(name, frame, asked) for name in COUNTED),
        *(_measured(name, frame, asked, results.run.seed) for name in MEASURED),
    ]
    known = [each for each in found if each.base is not None or each.head is not None]
    return without_twins(known, [each.metric for each in known])


def without_twins(rows: Sequence[Row], metrics: Sequence[str]) -> list[Row]:
    """The rows of these ``metrics`` without the peak of live bytes that a study of drag saw, where
    a count has it, too."""
    twin = "peak_free_bytes" if "max_live_bytes" in metrics else ""
    return [row for row, metric in zip(rows, metrics, strict=True) if metric != twin]


class _OfOwners(Struct):
    threads: Number = 0


class _Threads(Struct):
    threads: Number = 0
    owners: _OfOwners | None = None


def once_of(records: Iterable[Record]) -> float:
    """How far counts of these programs may lie from others where they were made once: those of one
    thread hardly vary. Older folders do not always tell how many threads there were."""
    seen = [
        each.outcome.details_as(_Threads)
        for each in records
        if each.run.study in (*COUNTING, _SPACE) and each.outcome.status is Status.OK
    ]
    threads = [of.threads or (of.owners.threads if of.owners else 0) for of in seen]
    known = [number for number in threads if number]
    return LEAST_COUNTED if known and max(known) == 1 else COUNTED_ONCE


def check_threshold(threshold: float, skip: Sequence[str]) -> None:
    """Raises UsageError for what no gate can have."""
    if not 0 <= threshold <= 1:
        raise UsageError(f"a threshold of {threshold:g}: give a share from 0% to 100%")
    if unknown := sorted(set(skip) - {COUNT, TIME}):
        raise UsageError(f"there is no part '{unknown[0]}' to skip", f"known: {COUNT}, {TIME}")
    if {COUNT, TIME} <= set(skip):
        raise UsageError("nothing is left to measure", f"skip {COUNT} or {TIME}, not both")


def is_worse(found: Sequence[Change]) -> bool:
    return any(each.verdict == REGRESSION for each in found)


def _runs_of(frame: pl.DataFrame, study: str, program: str, metric: str) -> Runs:
    mine = frame.filter(
        pl.col("study") == study, pl.col("program") == program, pl.col("metric") == metric
    ).sort("order")
    return Runs(mine["value"].to_list(), mine["invocation"].to_list())


def _counted(metric: str, frame: pl.DataFrame, asked: AskedOfGate) -> Change:
    """By the first study that counted it in both."""
    sides = {
        study: [_runs_of(frame, study, name, metric).values for name in (BASE, HEAD)]
        for study in (*COUNTING, _SPACE)
    }
    base, head = next((each for each in sides.values() if all(each)), sides[COUNTING[0]])
    number = min(len(base), len(head))
    middles = _middle(base), _middle(head)
    if not base or not head:
        return Change(metric, *middles, None, number, NO_FIGURE)
    if min(base) <= 0:  # there is no ratio to it
        verdict = REGRESSION if min(head) > max(base) else SAME if max(head) <= 0 else UNTOLD
        return Change(metric, *middles, None, number, verdict)
    ratio = counted_ratio(base, head, asked.once)
    return Change(metric, *middles, ratio, number, word_of(ratio, asked.threshold))


def counted_ratio(
    base: Sequence[float], head: Sequence[float], once: float = 0
) -> statistics.Interval:
    """Counts of one program differ by little from run to run, or not at all. So the interval is
    that of the extremes, made wider by how much the counts of either differ; where neither was made
    again, by the share ``once``."""
    spread = max((max(values) - min(values)) / max(min(values), 1) for values in (base, head))
    if max(len(base), len(head)) < _TO_SEE_REPETITION:
        spread = once
    return statistics.Interval(
        median(head) / median(base),
        min(head) / max(base) / (1 + spread),
        max(head) / min(base) * (1 + spread),
    )


def _measured(metric: str, frame: pl.DataFrame, asked: AskedOfGate, seed: int) -> Change:
    """By what holds for all that is measured at once; and beyond the noise of base against
    itself."""
    base, head = (_runs_of(frame, "compare", name, metric) for name in (BASE, HEAD))
    if asked.folders:
        return _measured_apart(metric, base, head, asked, seed)
    judged = judge(head, base, METRICS[metric].unit, error_of(1), seed)
    word = NO_FIGURE if judged.ratio is None else UNTOLD
    if judged.sure is not None:
        word = word_of(judged.sure, asked.threshold)
        if word in (REGRESSION, IMPROVEMENT) and judged.word == UNSEEN:
            word = UNTOLD
    ratio = judged.sure or judged.ratio
    return Change(metric, _middle(base.values), _middle(head.values), ratio, judged.runs, word)


def _measured_apart(metric: str, base: Runs, head: Runs, asked: AskedOfGate, seed: int) -> Change:
    """Of runs that did not take turns, the times only where the machine was the same."""
    judged = judge_apart(head.values, base.values, seed)
    reason = ""
    if asked.pace and judged.ratio and METRICS[metric].unit == "s":
        reason = asked.pace.reason_against(judged.ratio.low, judged.ratio.high)
    word = NO_FIGURE if judged.ratio is None else UNTOLD
    if judged.ratio is not None and judged.runs >= FEWEST_FOR_INTERVAL and not reason:
        word = word_of(judged.ratio, asked.threshold)
        if word in (REGRESSION, IMPROVEMENT) and judged.word == UNSEEN:
            word = UNTOLD
    middles = _middle(base.values), _middle(head.values)
    return Change(metric, *middles, judged.ratio, judged.runs, word, reason)


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def word_of(ratio: statistics.Interval, threshold: float) -> str:
    if ratio.low > 1 + threshold:
        return REGRESSION
    if ratio.high < 1 / (1 + threshold):
        return IMPROVEMENT
    within = 1 / (1 + threshold) <= ratio.low and ratio.high <= 1 + threshold
    return SAME if within else UNTOLD
