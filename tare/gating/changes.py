"""What a change did to each figure: the verdicts of `tare gate`.

Counts decide first: they do not depend on what else the machine does. A claim is made only where
the whole interval lies beyond the threshold; where it does not, and could, nothing can be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tare.base import statistics
from tare.base.documents import converted
from tare.base.libraries import pl
from tare.gating.request import DEFAULT_THRESHOLD
from tare.records.evidence import UNSEEN, Runs, error_of, judge
from tare.records.header import Asked
from tare.records.metrics import METRICS
from tare.records.results import Results

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
COUNTED = ("instructions", "objects", "allocated_bytes", "max_live_bytes")
MEASURED = ("peak_resident_bytes", "wall_seconds", "processor_seconds")


class AskedOfGate(Asked, frozen=True):
    threshold: float = DEFAULT_THRESHOLD
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """Of one metric; None where there is no figure. ``ratio`` is head over base, with the interval
    that the verdict rests on."""

    metric: str
    base: float | None
    head: float | None
    ratio: statistics.Interval | None
    runs: int
    verdict: str


def asked_of(results: Results) -> AskedOfGate:
    return converted(results.document.get("request", {}), AskedOfGate)


def changes(results: Results) -> list[Change]:
    """All figures that either has, the counted ones first."""
    frame = results.measurements.filter(pl.col("status") == "ok", pl.col("value").is_finite())
    threshold = asked_of(results).threshold
    found = [
        *(_counted(name, frame, threshold) for name in COUNTED),
        *(_measured(name, frame, threshold, results.run.seed) for name in MEASURED),
    ]
    return [each for each in found if each.base is not None or each.head is not None]


def is_worse(found: Sequence[Change]) -> bool:
    return any(each.verdict == REGRESSION for each in found)


def _runs_of(frame: pl.DataFrame, study: str, program: str, metric: str) -> Runs:
    mine = frame.filter(
        pl.col("study") == study, pl.col("program") == program, pl.col("metric") == metric
    ).sort("order")
    return Runs(mine["value"].to_list(), mine["invocation"].to_list())


def _counted(metric: str, frame: pl.DataFrame, threshold: float) -> Change:
    """Counts of one program differ by little from run to run, or not at all. So the interval is
    that of the extremes, made wider by how much the counts of either differ."""
    base, head = (_runs_of(frame, "count", name, metric).values for name in (BASE, HEAD))
    number = min(len(base), len(head))
    if not base or not head:
        return Change(metric, _middle(base), _middle(head), None, number, NO_FIGURE)
    if min(base) <= 0:  # there is no ratio to it
        verdict = REGRESSION if min(head) > max(base) else SAME if max(head) <= 0 else UNTOLD
        return Change(metric, median(base), median(head), None, number, verdict)
    spread = max((max(values) - min(values)) / max(min(values), 1) for values in (base, head))
    ratio = statistics.Interval(
        median(head) / median(base),
        min(head) / max(base) / (1 + spread),
        max(head) / min(base) * (1 + spread),
    )
    return Change(metric, median(base), median(head), ratio, number, _word(ratio, threshold))


def _measured(metric: str, frame: pl.DataFrame, threshold: float, seed: int) -> Change:
    """By what holds for all that is measured at once; and beyond the noise of base against
    itself."""
    base, head = (_runs_of(frame, "compare", name, metric) for name in (BASE, HEAD))
    judged = judge(head, base, METRICS[metric].unit, error_of(1), seed)
    word = NO_FIGURE if judged.ratio is None else UNTOLD
    if judged.sure is not None:
        word = _word(judged.sure, threshold)
        if word in (REGRESSION, IMPROVEMENT) and judged.word == UNSEEN:
            word = UNTOLD
    ratio = judged.sure or judged.ratio
    return Change(metric, _middle(base.values), _middle(head.values), ratio, judged.runs, word)


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _word(ratio: statistics.Interval, threshold: float) -> str:
    if ratio.low > 1 + threshold:
        return REGRESSION
    if ratio.high < 1 / (1 + threshold):
        return IMPROVEMENT
    within = 1 / (1 + threshold) <= ratio.low and ratio.high <= 1 + threshold
    return SAME if within else UNTOLD
