"""What changed between the figures of two results, row by row of program, manager and metric."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tare.base import statistics
from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.campaign.pace import Pace
from tare.gating.changes import (
    COUNTED,
    COUNTING,
    IMPROVEMENT,
    REGRESSION,
    SAME,
    UNTOLD,
    counted_ratio,
    without_twins,
    word_of,
)
from tare.records.evidence import TIME_UNITS
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results, measurement_schema
from tare.records.runs import Record
from tare.studies.space import report as space
from tare.studies.space.site_sums import totals

MEASURED = ("wall_seconds", "user_seconds", "system_seconds", "peak_resident_bytes")
RATE = "requests_per_second"
OF_SERVICES = (RATE, "latency_p99_seconds", "loaded_resident_bytes", "idle_resident_bytes")
JUDGED = (*MEASURED, *COUNTED, *OF_SERVICES)
"""Metrics of which less is better whatever else holds, and of the rate more. The others are shown,
and never fail."""
VERDICTS: dict[str, str] = {
    "newly failing": "All old runs succeeded, and some new ones failed.",
    "regression": "Worse beyond noise, and by more than the threshold.",
    "improvement": "Better beyond noise, and by more than the threshold.",
    "higher": "Higher beyond noise; this metric never fails.",
    "lower": "Lower beyond noise; this metric never fails.",
    "cannot tell": "The threshold lies within the interval; or a time, and the machine changed.",
    "no longer failing": "All old runs failed, and all new ones succeeded.",
    "disappeared": "Only in the old results.",
    "appeared": "Only in the new results.",
    "failing": "No run succeeded, old or new.",
    "too few runs": "A difference, with too few runs to tell it from noise.",
    "within threshold": "A difference beyond noise, but not beyond the threshold.",
    "no ratio": "Old values may be zero, so there is no ratio to them.",
    "no difference seen": "Nothing beyond noise.",
}
"""In the order in which a reader wants them."""
FAILING = ("regression", "newly failing")
_OF_TIME = (
    *("regression", "improvement", "within threshold", "higher", "lower", "too few runs"),
    "no difference seen",
)
"""Verdicts on times that a machine that changed may have made."""

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Means:
    """What rows are judged by. ``once`` is how far counts that were made once may lie apart, by
    program."""

    threshold: float
    seed: int
    pace: Pace
    once: Mapping[str, float]


@dataclass(frozen=True)
class Side:
    """One of the two results, ready to look things up in."""

    values: Mapping[Key, list[float]]
    failed: Mapping[tuple[str, str], bool]
    baseline: str
    counted: Collection[Key] = ()
    """What does not depend on what else the machine does."""

    def floor(self, program: str, metric: str, seed: int) -> float | None:
        return statistics.noise_floor(self.values.get((program, self.baseline, metric), ()), seed)


def changed_figures(
    old: Results, new: Results, records: Sequence[Sequence[Record]], means: Means
) -> pl.DataFrame:
    """``records`` are those of the two."""
    frames = [_with_totals(*each) for each in zip((old, new), records, strict=True)]
    before, after = (
        _side(frame, results.run.baseline)
        for frame, results in zip(_of_one_study(*frames), (old, new), strict=True)
    )
    return _compare(before, after, means)


def _with_totals(results: Results, records: Sequence[Record]) -> pl.DataFrame:
    """The measurements, with what the records of who owns the memory have in all."""
    known = {*results.measurements["metric"]}
    rows = [
        (run.study, run.program, run.manager, run.invocation, run.order, metric, float(value),
         METRICS[metric].unit, "ok", str(Obtained.EXECUTED))
        for record in records
        if (run := record.run).study == space.STUDY and record.outcome.status is Status.OK
        for metric, value in totals(record).items()
        if metric not in known
    ]  # fmt: skip
    added = pl.DataFrame(rows, schema=measurement_schema(), orient="row")
    return pl.concat([results.measurements, added]).sort("order")


def _of_one_study(old: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Each metric by one study alone, the first of those in both: what several studies of a bill
    saw of one program are not runs of one kind."""
    key = ["program", "manager", "metric"]
    both = (
        old.select(*key, "study")
        .unique()
        .join(new.select(*key, "study").unique(), on=[*key, "study"])
    )
    chosen = both.group_by(key).agg(chosen=pl.col("study").min())

    def of_chosen(frame: pl.DataFrame) -> pl.DataFrame:
        joined = frame.join(chosen, on=key, how="left", maintain_order="left")
        kept = pl.col("chosen").is_null() | (pl.col("chosen") == pl.col("study"))
        return joined.filter(kept | (pl.col("status") != "ok")).drop("chosen")

    return of_chosen(old), of_chosen(new)


def _side(frame: pl.DataFrame, baseline: str) -> Side:
    good = frame.filter((pl.col("status") == "ok") & pl.col("value").is_finite())
    values = {
        (str(program), str(manager), str(metric)): part["value"].to_list()
        for (program, manager, metric), part in good.group_by(
            "program", "manager", "metric", maintain_order=True
        )
    }
    failed = {
        (str(program), str(manager)): bool((part["status"] != "ok").any())
        for (program, manager), part in frame.group_by("program", "manager", maintain_order=True)
    }
    counted = {
        (str(program), str(manager), str(metric))
        for program, manager, metric in good.filter(pl.col("study").is_in(COUNTING) | _is_total())
        .select("program", "manager", "metric")
        .iter_rows()
    }
    return Side(values, failed, baseline, counted)


def _is_total() -> pl.Expr:
    return (pl.col("study") == space.STUDY) & pl.col("metric").is_in(COUNTED)


def _compare(old: Side, new: Side, means: Means) -> pl.DataFrame:
    if not old.failed.keys() & new.failed.keys():
        raise UsageError(
            "the two results have no program and manager in common",
            "compare results of the same programs under the same managers",
        )
    rows = []
    for program, manager in dict.fromkeys((*old.failed, *new.failed)):
        pair = (program, manager)
        found = [{m for p, n, m in side.values if (p, n) == pair} for side in (old, new)]
        everything = found[0] | found[1]
        metrics = [name for name in METRICS if name in everything]
        metrics += sorted(everything - METRICS.keys())
        metrics = without_twins(metrics, metrics)
        if not all(found):  # one row says that nothing can be compared
            metrics = metrics[:1] or ["wall_seconds"]
        rows += [
            _compare_row(old, new, (*pair, metric), means, told=number > 0)
            for number, metric in enumerate(metrics)
        ]
    floats = ("old", "new", "ratio", "ratio_low", "ratio_high", "noise_floor")
    schema = {
        **dict.fromkeys(("program", "manager", "metric", "unit"), pl.String),
        **dict.fromkeys(("runs_old", "runs_new"), pl.Int64),
        **dict.fromkeys(floats, pl.Float64),
        **dict.fromkeys(("verdict", "reason"), pl.String),
    }
    compared = pl.DataFrame(rows, schema=schema, orient="row")
    figures = compared.filter(pl.col("metric") != "processes")  # all studies have that one
    if figures["verdict"].is_in(["appeared", "disappeared"]).all():
        raise UsageError(
            "the two results have no figure in common", "measure both with the same command"
        )
    return compared


def _compare_row(old: Side, new: Side, key: Key, means: Means, *, told: bool) -> tuple[Any, ...]:
    program, _, metric = key
    seed = means.seed
    before, after = old.values.get(key, []), new.values.get(key, [])
    floors = [side.floor(program, metric, seed) for side in (old, new)]
    floor = max((known for known in floors if known is not None), default=None)
    ratio = statistics.ratio_interval(after, before, seed)
    old_median, new_median = (
        statistics.median_interval(values, seed) for values in (before, after)
    )
    counted = key in old.counted and key in new.counted
    if counted and ratio is not None:
        ratio = counted_ratio(before, after, means.once[program])
    word, reason = _status_verdict(old, new, key, told), ""
    if not word and counted:
        word = _counted_verdict(metric, before, after, ratio, means.threshold)
    elif not word:
        word = _value_verdict(metric, before, after, ratio, floor, means.threshold)
        if METRICS[metric].unit in TIME_UNITS and word in _OF_TIME and ratio is not None:
            reason = means.pace.reason_against(ratio.low, ratio.high)
            word = "cannot tell" if reason else word
    return (
        *key,
        METRICS[metric].unit if metric in METRICS else "",
        len(before),
        len(after),
        old_median.median if old_median else None,
        new_median.median if new_median else None,
        *((ratio.median, ratio.low, ratio.high) if ratio else (None, None, None)),
        floor,
        word,
        reason,
    )


def _status_verdict(old: Side, new: Side, key: Key, told: bool) -> str:
    """What the runs' statuses say, which comes before what their values say; or nothing.

    A failure has no metric: it is told once a program and manager, with the first metric.
    """
    program, manager, _ = key
    pair = (program, manager)
    if pair not in old.failed:
        return "appeared"
    if pair not in new.failed:
        return "disappeared"
    if not told:
        if new.failed[pair] and not old.failed[pair]:
            return "newly failing"
        if old.failed[pair] and not new.failed[pair] and key not in old.values:
            return "no longer failing"
    if key not in old.values and key not in new.values:
        return "failing"
    if key not in old.values:
        return "appeared"
    if key not in new.values:
        return "disappeared"
    return ""


def _value_verdict(
    metric: str,
    before: Sequence[float],
    after: Sequence[float],
    ratio: statistics.Interval | None,
    floor: float | None,
    threshold: float,
) -> str:
    if ratio is None:
        return "no difference seen" if sorted(before) == sorted(after) else "no ratio"
    word = statistics.verdict(ratio, floor, min(len(before), len(after)))
    if word not in ("lower", "higher") or metric not in JUDGED:
        return word
    if 1 / (1 + threshold) <= ratio.median <= 1 + threshold:
        return "within threshold"
    worse = "lower" if metric == RATE else "higher"
    return "regression" if word == worse else "improvement"


def _counted_verdict(
    metric: str,
    before: Sequence[float],
    after: Sequence[float],
    ratio: statistics.Interval | None,
    threshold: float,
) -> str:
    """Of what does not depend on what else the machine does: the whole interval has to be beyond
    the threshold."""
    if sorted(before) == sorted(after):
        return "no difference seen"
    if ratio is None:
        if max(before) > 0 or min(after) <= 0:
            return "no ratio"
        return "regression" if metric in JUDGED else "higher"
    words = {
        REGRESSION: ("higher", "regression"),
        IMPROVEMENT: ("lower", "improvement"),
        SAME: ("within threshold", "within threshold"),
        UNTOLD: ("cannot tell", "cannot tell"),
    }
    return words[word_of(ratio, threshold)][metric in JUDGED]
