"""Medians, ratios, intervals and verdicts, made of measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from tare.base import statistics
from tare.base.libraries import pl
from tare.records.evidence import (
    ERROR,
    NO_DATA,
    Judged,
    Runs,
    error_of,
    judge,
    judge_apart,
    noise_floor,
    runs_of,
)
from tare.records.metrics import FIRST_METRICS, METRICS

Row = Mapping[str, Any]


def summary_schema() -> dict[str, Any]:
    """Column names and Polars types of ``summarise``."""
    floats = ("median", "low", "high", "ratio", "ratio_low", "ratio_high", "noise_floor")
    return {
        "program": pl.String,
        "manager": pl.String,
        "metric": pl.String,
        "unit": pl.String,
        "runs": pl.Int64,
        **dict.fromkeys(floats, pl.Float64),
        "verdict": pl.String,
    }


def summarise(
    measurements: pl.DataFrame,
    baseline: str,
    seed: int,
    *,
    in_turns: bool = True,
    error: float = ERROR,
) -> pl.DataFrame:
    """One row per program, manager and metric.

    median, low, high in the metric's unit; ratio, ratio_low, ratio_high against the baseline;
    noise_floor as a fraction; intervals of 95%. The verdict is ``baseline``, or a word of
    ``tare.records.evidence``, which allows for every manager being compared. Managers without a
    good run keep their row, with runs 0. ``in_turns``: the runs were done in rounds of random
    order. ``error`` is how often a verdict among them may be false.
    """
    alternatives = measurements.filter(pl.col("manager") != baseline)["manager"].n_unique()

    def in_rounds(runs: Runs, base: Runs, metric: str) -> Judged:
        return judge(runs, base, METRICS[metric].unit, error_of(alternatives, error), seed)

    def apart(runs: Runs, base: Runs, _metric: str) -> Judged:
        return judge_apart(runs.values, base.values, seed)

    judging = in_rounds if in_turns else apart
    return _summarise(measurements, lambda _manager: baseline, seed, judging)


def summarise_against(
    measurements: pl.DataFrame, reference_of: Callable[[str], str], seed: int
) -> pl.DataFrame:
    """As ``summarise``, with a reference for each manager instead of one baseline for all; each
    comparison stands for itself. A manager that is its own reference is a ``baseline``."""

    def alone(runs: Runs, base: Runs, metric: str) -> Judged:
        return judge(runs, base, METRICS[metric].unit, error_of(1), seed)

    return _summarise(measurements, reference_of, seed, alone)


def summarise_apart(measurements: pl.DataFrame, baseline: str, seed: int) -> pl.DataFrame:
    """As ``summarise``, each comparison for itself: the managers are the steps of a sweep."""
    return summarise_against(measurements, lambda _manager: baseline, seed)


def by_reference(
    reference_of: Callable[[str], str],
) -> Callable[[pl.DataFrame, str, int], pl.DataFrame]:
    """How a study summarises whose managers have references in place of a baseline."""
    return lambda measurements, _baseline, seed: summarise_against(measurements, reference_of, seed)


def _summarise(
    measurements: pl.DataFrame,
    reference_of: Callable[[str], str],
    seed: int,
    judging: Callable[[Runs, Runs, str], Judged],
) -> pl.DataFrame:
    groups = runs_of(measurements)
    ordered = measurements.sort("order")
    pairs = ordered.select("program", "manager").unique(maintain_order=True).rows()
    there = set(ordered["metric"].unique())
    metrics = [m for m in METRICS if m in there]
    rows = []
    for program, manager in pairs:
        reference = reference_of(manager)
        for metric in metrics:
            runs = groups.get((program, manager, metric), Runs())
            if not runs.values and metric not in FIRST_METRICS.values():
                continue
            base = groups.get((program, reference, metric), Runs())
            is_baseline = manager == reference
            judged = _of_baseline(runs) if is_baseline else judging(runs, base, metric)
            floor = noise_floor(base, seed)
            rows.append((program, manager, metric, *_figures(metric, runs, judged, floor, seed)))
    return pl.DataFrame(rows, schema=summary_schema(), orient="row")


def _of_baseline(runs: Runs) -> Judged:
    if not runs.values:
        return Judged(NO_DATA)
    return Judged("baseline", statistics.Interval(1.0, 1.0, 1.0))


def _figures(
    metric: str, runs: Runs, judged: Judged, floor: float | None, seed: int
) -> tuple[Any, ...]:
    middle = statistics.median_interval(runs.values, seed)
    ratio = judged.ratio
    return (
        METRICS[metric].unit,
        len(runs.values),
        *((middle.median, middle.low, middle.high) if middle else (None,) * 3),
        *((ratio.median, ratio.low, ratio.high) if ratio else (None,) * 3),
        floor,
        judged.word,
    )


def geometric_means(
    measurements: pl.DataFrame, metrics: Sequence[str], baseline: str, seed: int
) -> pl.DataFrame:
    """Geometric means over the programs that have the metric under every manager, so that all are
    over the same programs: columns manager, metric, programs, runs (the fewest that any rests on),
    ratio, ratio_low, ratio_high.

    A manager that ran no program at all has no mean, and does not take those of the others away.
    """
    good = measurements.filter(pl.col("status") == "ok").sort("order")
    managers = good["manager"].unique(maintain_order=True).to_list()
    schema = {
        "manager": pl.String,
        "metric": pl.String,
        "programs": pl.Int64,
        "runs": pl.Int64,
        "ratio": pl.Float64,
        "ratio_low": pl.Float64,
        "ratio_high": pl.Float64,
    }
    rows = []
    for metric in metrics:
        groups: dict[str, dict[str, list[float]]] = {}
        of_metric = good.filter(pl.col("metric") == metric)
        for key, part in of_metric.group_by(["program", "manager"], maintain_order=True):
            groups.setdefault(str(key[0]), {})[str(key[1])] = part["value"].to_list()
        shared = [by for by in groups.values() if all(manager in by for manager in managers)]
        for manager in managers:
            mean = statistics.geometric_mean_ratio(
                [(by[manager], by[baseline]) for by in shared if baseline in by], seed
            )
            if mean is not None:
                fewest = min(len(by[name]) for by in shared for name in (manager, baseline))
                rows.append(
                    (manager, metric, len(shared), fewest, mean.median, mean.low, mean.high)
                )
    return pl.DataFrame(rows, schema=schema, orient="row")


def summarise_range(
    measurements: pl.DataFrame, baseline: str, seed: int, first_metric: str = "instructions"
) -> pl.DataFrame:
    """As ``tare.records.summary.summarise``, but low, high and the bounds of ratios are the least
    and the greatest values seen, and the verdict needs them not to overlap. ``first_metric`` has a
    row even where no run gave a value."""
    del seed  # nothing is sampled
    ordered = measurements.sort("order")
    good = ordered.filter(pl.col("status") == "ok")
    groups: dict[tuple[str, str, str], list[float]] = {}
    for key, part in good.group_by(["program", "manager", "metric"], maintain_order=True):
        groups[str(key[0]), str(key[1]), str(key[2])] = part["value"].to_list()
    rows = []
    there = set(ordered["metric"].unique())
    metrics = [m for m in METRICS if m in there]
    for program, manager in ordered.select("program", "manager").unique(maintain_order=True).rows():
        for metric in metrics:
            values = groups.get((program, manager, metric), [])
            base = groups.get((program, baseline, metric), [])
            if not values and metric != first_metric:
                continue
            middle = (median(values), min(values), max(values)) if values else (None,) * 3
            ratio, word = _range_ratio(values, base, manager == baseline)
            unit = METRICS[metric].unit
            rows.append((program, manager, metric, unit, len(values), *middle, *ratio, None, word))
    return pl.DataFrame(rows, schema=summary_schema(), orient="row")


def _range_ratio(
    values: Sequence[float], base: Sequence[float], is_baseline: bool
) -> tuple[tuple[float | None, float | None, float | None], str]:
    if is_baseline:
        return ((1.0, 1.0, 1.0), "baseline") if values else ((None, None, None), "no data")
    if not values or not base or min(base) <= 0:
        return (None, None, None), "no data"
    ratio = median(values) / median(base)
    low, high = min(values) / max(base), max(values) / min(base)
    word = "lower" if high < 1 else "higher" if low > 1 else "no difference seen"
    return (ratio, low, high), word
