"""The study behind `tare compare`: time and memory of programs under each manager.

Rounds of runs in random order (rules 1 and 2 of docs/method.md); the baseline runs twice a round,
so that comparing it with itself gives the noise floor.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tare import statistics
from tare.measurement import FIRST_METRICS, METRICS, Status
from tare.results import Record, Results, Run

if TYPE_CHECKING:
    import polars

    from tare.report.model import Section

STUDY = "compare"
BASELINE_RUNS_A_ROUND = 2
FAILURES_ALLOWED = 2
"""After so many failed runs of a program under a manager, further ones are not started."""


@dataclass(frozen=True)
class Plan:
    """``runs`` counts invocations per program and manager. With ``precision`` (half the width of
    the interval of the wall-time ratio, as a fraction), rounds go on beyond ``runs`` until every
    interval is that narrow or ``most_runs`` is reached. ``references`` are managers that others
    are held against besides the baseline, and that run as often as it does."""

    programs: tuple[str, ...]
    managers: tuple[str, ...]
    baseline: str
    runs: int = 10
    warmup: int = 1
    seed: int = 1
    precision: float | None = None
    most_runs: int = 100
    references: tuple[str, ...] = ()


def next_round(plan: Plan, records: Sequence[Record], study: str = STUDY) -> list[Run]:
    """The runs of ``study`` to do next, given those that are done; empty when it is complete.

    Depends on nothing but its arguments, so a study that was interrupted goes on where it was.
    Programs are measured one after another: the runs of a comparison stay close in time.
    """
    for program in plan.programs:
        mine = [r for r in records if r.run.study == study and r.run.program == program]
        if pending := _next_round_of(plan, program, mine):
            order = 1 + max((r.run.order for r in records), default=0)
            return [
                Run(study, program, manager, invocation, order + offset, warmup)
                for offset, (manager, invocation, warmup) in enumerate(pending)
            ]
    return []


def _next_round_of(
    plan: Plan, program: str, records: Sequence[Record]
) -> list[tuple[str, int, bool]]:
    failures = Counter(r.run.manager for r in records if r.outcome.status is not Status.OK)
    managers = [m for m in plan.managers if failures[m] < FAILURES_ALLOWED]
    warm = Counter(r.run.manager for r in records if r.run.warmup)
    done = Counter(r.run.manager for r in records if not r.run.warmup)
    shuffler = random.Random(f"{plan.seed}/{program}/{len(records)}")

    cold = [m for m in managers if warm[m] < plan.warmup]
    if cold:
        shuffler.shuffle(cold)
        return [(manager, warm[manager], True) for manager in cold]
    target = _target_runs(
        plan, records, min((done[m] // _share(plan, m) for m in managers), default=0)
    )
    short: list[str] = []
    for manager in managers:
        missing = target * _share(plan, manager) - done[manager]
        short += [manager] * min(_share(plan, manager), missing)
    shuffler.shuffle(short)
    runs = []
    for manager in short:
        runs.append((manager, done[manager], False))
        done[manager] += 1
    return runs


def _share(plan: Plan, manager: str) -> int:
    return BASELINE_RUNS_A_ROUND if manager in (plan.baseline, *plan.references) else 1


def _target_runs(plan: Plan, records: Sequence[Record], rounds_done: int) -> int:
    if plan.precision is None or rounds_done < plan.runs:
        return plan.runs
    wide = any(
        interval is None or interval.high - interval.low > 2 * plan.precision * interval.median
        for interval in _wall_ratios(plan, records)
    )
    return min(rounds_done + 1, plan.most_runs) if wide else rounds_done


def _wall_ratios(plan: Plan, records: Sequence[Record]) -> list[statistics.Interval | None]:
    walls: dict[str, list[float]] = {manager: [] for manager in plan.managers}
    for record in records:
        if not record.run.warmup and record.outcome.status is Status.OK:
            walls[record.run.manager].append(record.outcome.values["wall_seconds"])
    baseline = walls[plan.baseline]
    return [
        statistics.ratio_interval(values, baseline, plan.seed)
        for manager, values in walls.items()
        if manager != plan.baseline and values
    ]


def planned_runs(plan: Plan) -> int:
    """How many runs the plan takes when nothing fails, warm-up included."""
    return len(plan.programs) * (plan.runs * runs_a_round(plan) + plan.warmup * len(plan.managers))


def runs_a_round(plan: Plan) -> int:
    """How many runs of one program a round has when nothing fails."""
    return sum(_share(plan, manager) for manager in plan.managers)


def summary_schema() -> dict[str, Any]:
    """Column names and Polars types of ``summarise``."""
    import polars as pl

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


def summarise(measurements: polars.DataFrame, baseline: str, seed: int) -> polars.DataFrame:
    """One row per program, manager and metric.

    median, low, high in the metric's unit; ratio, ratio_low, ratio_high against the baseline;
    noise_floor as a fraction; intervals of 95%. The verdict is ``baseline``, or a word of
    ``statistics.verdict``. Managers without a good run keep their row, with runs 0.
    """
    return summarise_against(measurements, lambda _manager: baseline, seed)


def summarise_against(
    measurements: polars.DataFrame, reference_of: Callable[[str], str], seed: int
) -> polars.DataFrame:
    """As ``summarise``, with a reference for each manager instead of one baseline for all. A
    manager that is its own reference is a ``baseline``."""
    import polars as pl

    ordered = measurements.sort("order")
    good = ordered.filter(pl.col("status") == "ok")
    groups: dict[tuple[str, str, str], list[float]] = {}
    for key, part in good.group_by(["program", "manager", "metric"], maintain_order=True):
        program, manager, metric = (str(item) for item in key)
        groups[program, manager, metric] = part["value"].to_list()
    pairs = ordered.select("program", "manager").unique(maintain_order=True).rows()
    metrics = [m for m in METRICS if m in set(ordered["metric"].unique())]
    rows = []
    for program, manager in pairs:
        reference = reference_of(manager)
        for metric in metrics:
            values = groups.get((program, manager, metric), [])
            base = groups.get((program, reference, metric), [])
            if not values and metric not in FIRST_METRICS.values():
                continue
            rows.append(_summary_row(program, manager, metric, values, base, reference, seed))
    return pl.DataFrame(rows, schema=summary_schema(), orient="row")


def _summary_row(
    program: str,
    manager: str,
    metric: str,
    values: list[float],
    base: list[float],
    reference: str,
    seed: int,
) -> tuple[Any, ...]:
    middle = statistics.median_interval(values, seed)
    floor = statistics.noise_floor(base, seed)
    if manager == reference:
        ratio = statistics.Interval(1.0, 1.0, 1.0) if values else None
        word = "baseline" if values else "no data"
    else:
        ratio = statistics.ratio_interval(values, base, seed)
        word = statistics.verdict(ratio, floor, min(len(values), len(base)))
    return (
        program,
        manager,
        metric,
        METRICS[metric].unit,
        len(values),
        *((middle.median, middle.low, middle.high) if middle else (None,) * 3),
        *((ratio.median, ratio.low, ratio.high) if ratio else (None,) * 3),
        floor,
        word,
    )


def geometric_means(measurements: polars.DataFrame, baseline: str, seed: int) -> polars.DataFrame:
    """Geometric means over the programs that ran well under every manager, so that all are over the
    same programs: columns manager, metric, programs, runs (the fewest that any rests on), ratio,
    ratio_low, ratio_high.

    A manager that ran no program at all has no mean, and does not take those of the others away.
    """
    import polars as pl

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
    for metric in ("wall_seconds", "user_seconds", "peak_resident_bytes", "iteration_seconds"):
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


def section(results: Results) -> Section:
    """What a comparison found: in sentences, tables and figures, and its failures."""
    from dataclasses import replace

    from tare.report.comparison import comparison_section

    run = results.run
    summary = summarise(results.measurements, run["baseline"], run["seed"])
    means = geometric_means(results.measurements, run["baseline"], run["seed"])
    return replace(
        comparison_section(results, summary), findings=findings(summary, means, run["baseline"])
    )


def findings(summary: polars.DataFrame, means: polars.DataFrame, baseline: str) -> list[str]:
    """Who took least time and least memory, as far as a difference was seen: of one program by its
    summary, of several by the geometric means."""
    from tare.report.comparison import MEMORY, TIME, change, summary_rows

    programs = summary["program"].unique().to_list()
    sentences = []
    for metric, what, least in ((TIME, "time", "fastest"), (MEMORY, "memory", "smallest")):
        rows = [
            row
            for (_, manager, name), row in summary_rows(summary).items()
            if name == metric and manager != baseline and row["ratio"] is not None
        ]
        if len(programs) > 1:
            rows = [_as_seen(row) for row in means.iter_rows(named=True) if row["metric"] == metric]
        if not rows:
            continue
        lower = [row for row in rows if row["verdict"] == "lower"]
        if lower:
            best = min(lower, key=lambda row: row["ratio"])
            mean = f" by the mean of {best['programs']} programs" if "programs" in best else ""
            sentences.append(
                f"{best['manager']} was {least}{mean}: {change(best, what)} than {baseline}."
            )
        elif any(row["verdict"] == statistics.TOO_FEW_RUNS for row in rows):
            fewest = statistics.FEWEST_FOR_VERDICT
            sentences.append(f"Fewer than {fewest} runs cannot tell who needs less {what}.")
        else:
            sentences.append(f"No manager was seen to need less {what} than {baseline}.")
    return sentences


def _as_seen(mean: Mapping[str, Any]) -> Mapping[str, Any]:
    """A geometric mean with the verdict that its interval allows."""
    ratio = statistics.Interval(mean["ratio"], mean["ratio_low"], mean["ratio_high"])
    return {**mean, "verdict": statistics.verdict(ratio, None, mean["runs"])}
