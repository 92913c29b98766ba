"""The study behind `tare lbo`: the lower-bound overhead of collectors.

What a program would cost without any memory management cannot be measured. But it costs at most
what is left of any run when the time in which a collector had stopped it is taken off. The least of
that, over all collectors and heaps, is the distilled baseline; and what a collector costs beyond it
is a lower bound of its overhead. After Cai and others, ISPASS 2022; unlike there, the least is
taken over medians, because the least of single runs is that of the luckiest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import Struct

from tare.base.libraries import NDArray, np, pl
from tare.base.statistics import FEWEST_FOR_INTERVAL, RESAMPLES, Interval, verdict
from tare.base.units import format_bytes, format_value
from tare.campaign import rounds
from tare.records import summary
from tare.records.header import Amount, Header
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results, read_records
from tare.records.summary import Row
from tare.report.comparison import medians, runs, summary_rows
from tare.report.fields import Field, table, texts
from tare.report.figures.curves import Mark, curves_spec
from tare.report.model import Cell, Figure, Section, Table

STUDY = "lbo"
OBSERVER = "lbo"
TITLE = "What collectors cost at least"
COSTS: Mapping[str, tuple[str, str, str]] = {
    "wall": ("work_wall_seconds", "stopped_wall_seconds", "lbo_wall_ratio"),
    "cpu": ("work_cpu_seconds", "stopped_cpu_seconds", "lbo_cpu_ratio"),
}
"""By cost: the metrics of the whole and of what was stopped, and that of the overhead."""
WORDS = {"wall": "wall time", "cpu": "processor time"}
TOO_SMALL = (str(Status.OUT_OF_MEMORY), str(Status.TIMEOUT))
"""How a run ends in a heap that is too small: it does not fit, or does little but collect."""
_TAIL = 2.5
_ENDINGS = {str(Status.OUT_OF_MEMORY): "out of memory", str(Status.TIMEOUT): "too slow"}


@dataclass(frozen=True)
class Point:
    """``manager`` is the name of ``collector`` in a heap of ``heap`` times the unit; None for one
    whose heap the study does not set."""

    manager: str
    collector: str
    heap: float | None


class Work(Struct, frozen=True):
    """Iterations that a program reported, and the first that counts; None where none was steady."""

    steady_from: int | None


class Details(Struct, frozen=True):
    work: Work | None = None


class LboRun(Header, frozen=True, kw_only=True):
    points: tuple[Point, ...]
    unit: str
    least_heap_bytes: Amount | None


@dataclass(frozen=True)
class Distilled:
    """The baseline of a cost, seconds; ``manager`` is the one it was distilled from."""

    manager: str
    cost: Interval


@dataclass(frozen=True)
class Overheads:
    """``ratios`` are whole costs divided by the distilled one, by manager."""

    distilled: Distilled
    ratios: Mapping[str, Interval]
    fewest_runs: int


Runs = Mapping[str, Sequence[tuple[float, float]]]
"""By manager, of each run the whole cost, and of it that while the program was stopped."""


def overheads(runs: Runs, seed: int) -> Overheads | None:
    """What each manager costs in multiples of the distilled cost; None without a run.

    Intervals are 95% bootstrap intervals, in which the distilled cost varies, too: each resample
    draws the runs of all managers anew. With fewer than ``FEWEST_FOR_INTERVAL`` runs of any they
    are the extreme ratios to the extremes of the runs that the baseline comes from.
    """
    whole = {name: np.array([run[0] for run in found]) for name, found in runs.items() if found}
    rest = {name: np.array([run[0] - run[1] for run in found]) for name, found in runs.items()}
    if not whole:
        return None
    best = min(whole, key=lambda name: float(np.median(rest[name])))
    base = float(np.median(rest[best]))
    if base <= 0:
        return None
    fewest = min(found.size for found in whole.values())
    if fewest < FEWEST_FOR_INTERVAL:
        low, high = float(rest[best].min()), float(rest[best].max())
        ratios = {
            name: Interval(
                float(np.median(costs)) / base, float(costs.min()) / high, float(costs.max()) / low
            )
            for name, costs in whole.items()
        }
        return Overheads(Distilled(best, Interval(base, low, high)), ratios, fewest)
    rng = np.random.default_rng(seed)
    whole_medians, rest_medians = {}, {}
    for name in whole:
        drawn = rng.integers(0, whole[name].size, (RESAMPLES, whole[name].size))
        whole_medians[name] = np.median(whole[name][drawn], axis=1)
        rest_medians[name] = np.median(rest[name][drawn], axis=1)
    bases = np.min(list(rest_medians.values()), axis=0)
    ratios = {
        name: _interval(float(np.median(costs)) / base, whole_medians[name] / bases)
        for name, costs in whole.items()
    }
    return Overheads(Distilled(best, _interval(base, bases)), ratios, fewest)


def _interval(middle: float, resampled: NDArray[np.float64]) -> Interval:
    """The least over resamples is a little less than the least itself, so the bounds are made to
    enclose the estimate."""
    low, high = np.percentile(resampled, [_TAIL, 100 - _TAIL])
    return Interval(middle, min(float(low), middle), max(float(high), middle))


next_round = partial(rounds.next_round, study=STUDY, observer=OBSERVER)


def runs_of(measurements: pl.DataFrame, cost: str) -> dict[str, Runs]:
    """By program, the good runs that know a cost."""
    whole, stopped, _ = COSTS[cost]
    good = measurements.filter(
        (pl.col("status") == str(Status.OK)) & pl.col("metric").is_in([whole, stopped])
    ).sort("order")
    found: dict[str, dict[str, dict[int, dict[str, float]]]] = {}
    for program, manager, order, metric, value in good.select(
        "program", "manager", "order", "metric", "value"
    ).rows():
        runs = found.setdefault(program, {}).setdefault(manager, {})
        runs.setdefault(order, {})[metric] = value
    return {
        program: {
            manager: [
                (run[whole], run[stopped])
                for run in runs.values()
                if len(run) == len((whole, stopped))
            ]
            for manager, runs in managers.items()
        }
        for program, managers in found.items()
    }


def summarise(measurements: pl.DataFrame, baseline: str, seed: int) -> pl.DataFrame:
    """As ``tare.records.summary.summarise``, with rows of the overheads: ratios to the distilled
    baseline."""
    rows = []
    for cost, (_, _, metric) in COSTS.items():
        for program, of_program in runs_of(measurements, cost).items():
            found = overheads(of_program, seed)
            for manager, ratio in found.ratios.items() if found else ():
                bounds = (ratio.median, ratio.low, ratio.high)
                count = len(of_program[manager])
                word = verdict(ratio, None, count)
                unit = METRICS[metric].unit
                rows.append((program, manager, metric, unit, count, *bounds, *bounds, None, word))
    schema = summary.summary_schema()
    return pl.concat(
        [
            summary.summarise_against(measurements, lambda _manager: baseline, seed),
            pl.DataFrame(rows, schema=schema, orient="row"),
        ]
    )


def failed(results: Results) -> bool:
    """Whether a run ended otherwise than well or by a heap that is too small, or a collector fitted
    into none of its heaps."""
    fine = {str(Status.OK)}
    by_collector: dict[str, bool] = {}
    endings = _endings(results)
    for point in results.run_as(LboRun).points:
        ended = endings.get(point.manager, set())
        if not ended <= (fine.union(TOO_SMALL) if point.heap is not None else fine):
            return True
        fitted = by_collector.get(point.collector, False)
        by_collector[point.collector] = fitted or str(Status.OK) in ended
    return not all(by_collector.values())


def _endings(results: Results) -> dict[str, set[str]]:
    endings: dict[str, set[str]] = {}
    for manager, status in results.measurements.select("manager", "status").unique().rows():
        endings.setdefault(manager, set()).add(status)
    return endings


def section(results: Results) -> Section:
    """Findings, tables and the figure of a results folder."""
    run = results.run_as(LboRun)
    points, endings = run.points, _endings(results)
    (program,) = (each.name for each in run.programs)
    rows = summary_rows(summarise(results.measurements, run.baseline, run.seed))
    found = {
        cost: overhead
        for cost in COSTS
        if (runs := runs_of(results.measurements, cost).get(program))
        and (overhead := overheads(runs, run.seed))
    }
    ratios = {
        (cost, point.manager): rows.get((program, point.manager, COSTS[cost][2]))
        for cost in found
        for point in points
    }
    tables = [
        _table(cost, points, ratios, endings, run.unit, overhead.fewest_runs)
        for cost, overhead in found.items()
    ]
    tables.append(_details_table(program, points, rows, endings))
    figure = _figure(list(found), points, ratios, run.unit)
    findings = [*_findings(run, found), *_unsteady(results)]
    return Section(
        identifier=STUDY,
        title=TITLE + (", replayed" if run.request.trace else ""),
        findings=findings,
        tables=tables,
        figures=[figure] if figure is not None else [],
        obtained=Obtained.REPLAYED if run.request.trace else Obtained.EXECUTED,
    )


def _findings(run: LboRun, found: Mapping[str, Overheads]) -> list[str]:
    sentences = []
    if run.least_heap_bytes:
        sentences.append(
            f"Heaps are multiples of {run.unit}, {format_bytes(run.least_heap_bytes)}."
        )
    for cost, overhead in found.items():
        best, interval = overhead.distilled.manager, overhead.distilled.cost
        sentences.append(
            f"The distilled baseline of {WORDS[cost]} is {format_value(interval.median, 's')} "
            f"({format_value(interval.low, 's')} to {format_value(interval.high, 's')}), from "
            f"{best}, without its pauses."
        )
        least = min(overhead.ratios, key=lambda name: overhead.ratios[name].median)
        ratio = overhead.ratios[least]
        sentences.append(
            f"In {WORDS[cost]} the cheapest is {least}: at least {ratio.median:.3f} times the "
            f"baseline ({ratio.low:.3f} to {ratio.high:.3f})."
        )
    sentences.append(
        "These are lower bounds: what a collector costs while the program runs (barriers, "
        "allocation, threads beside it) is in the baseline, too, where its manager has such costs."
    )
    return sentences


def _unsteady(results: Results) -> list[str]:
    """What is to be known of runs that reported iterations and did not become steady."""
    work = [
        work
        for record in read_records(results.folder)
        if not record.run.warmup and (work := record.outcome.details_as(Details).work) is not None
    ]
    restless = sum(each.steady_from is None for each in work)
    if not restless:
        return []
    return [
        f"In {restless} of {len(work)} runs the iterations were still getting faster at the end: "
        "only the last few count. Let the program do more iterations."
    ]


def _table(
    cost: str,
    points: Sequence[Point],
    ratios: Mapping[tuple[str, str], Row | None],
    endings: Mapping[str, set[str]],
    unit: str,
    fewest_runs: int,
) -> Table:
    """A line per collector, a column per heap."""
    managers = {(point.collector, point.heap): point.manager for point in points}
    heaps = sorted({point.heap for point in points if point.heap is not None})

    def overhead(title: str, help: str, heap: float | None, shown: bool = True) -> Field[str]:
        def value(collector: str) -> Cell:
            manager = managers.get((collector, heap))
            return _cell(cost, manager, ratios, endings) if manager else Cell("")

        return Field(title, help, value, numeric=False, shown=shown)

    fixed = any(point.heap is None for point in points)
    fields: list[Field[str]] = [
        texts("collector", "The collector.", str),
        *(
            overhead(
                f"{heap:g}×",
                f"{WORDS[cost].capitalize()} in a heap of {heap:g} times {unit}, divided by the "
                "distilled baseline; in parentheses its 95% interval.",
                heap,
            )
            for heap in heaps
        ),
        overhead("as it is", "In a heap that the study does not set.", None, fixed),
    ]
    notes = [
        f"lower bounds of the overhead, in {WORDS[cost]}, with 95% intervals; 1 is the distilled "
        "baseline."
    ]
    if fewest_runs < FEWEST_FOR_INTERVAL:
        notes.append(
            f"with fewer than {FEWEST_FOR_INTERVAL} runs there is no 95% interval: the bounds are "
            "the extreme ratios that the runs allow."
        )
    collectors = dict.fromkeys(point.collector for point in points)
    title = f"Lower-bound overhead: {WORDS[cost]}"
    return table(f"table-lbo-{cost}", title, collectors, fields, notes)


def _cell(
    cost: str,
    manager: str,
    ratios: Mapping[tuple[str, str], Row | None],
    endings: Mapping[str, set[str]],
) -> Cell:
    row = ratios.get((cost, manager))
    if row is not None:
        text = f"{row['ratio']:.2f} ({row['ratio_low']:.2f} – {row['ratio_high']:.2f})"
        return Cell(text, row["ratio"])
    ended = sorted(endings.get(manager, set()))
    return Cell(next((_ENDINGS.get(each, each) for each in ended), "–"), tone="quiet")


def _details_table(
    program: str,
    points: Sequence[Point],
    rows: Mapping[tuple[str, str, str], Row],
    endings: Mapping[str, set[str]],
) -> Table:
    def of(metric: str) -> Callable[[Point], Row | None]:
        return lambda point: rows.get((program, point.manager, metric))

    metrics = [metric for metric in _DETAILS if any(map(of(metric), points))]
    fields: list[Field[Point]] = [
        texts("manager", "The collector in its heap.", lambda point: point.manager),
        *(medians(METRICS[name].title, METRICS[name].explanation, of(name)) for name in metrics),
        runs(of(metrics[0] if metrics else ""), essential=True),
        texts(
            "ended",
            "How the runs ended.",
            lambda point: ", ".join(sorted(endings.get(point.manager, set()))),
        ),
    ]
    title = "Each collector in each heap (medians)"
    return table("table-lbo-details", title, points, fields, essential=False)


_DETAILS = (
    "work_wall_seconds",
    "stopped_wall_seconds",
    "work_cpu_seconds",
    "stopped_cpu_seconds",
    "collector_cpu_seconds",
    "collections",
    "max_pause_seconds",
    "peak_resident_bytes",
)


def _figure(
    costs: Sequence[str],
    points: Sequence[Point],
    ratios: Mapping[tuple[str, str], Row | None],
    unit: str,
) -> Figure | None:
    def marks(cost: str) -> list[Mark]:
        return [
            Mark(point.collector, point.heap, row, is_curve=True)
            for point in points
            if point.heap is not None and (row := ratios.get((cost, point.manager))) is not None
        ]

    titles = (f"heap, as a multiple of {unit}", "relative to the distilled baseline")
    panels = [(WORDS[cost], marks(cost)) for cost in costs if marks(cost)]
    spec = curves_spec(panels, None, titles, of=unit)
    if spec is None:
        return None
    return Figure(
        STUDY,
        "Lower-bound overhead by the size of the heap",
        "Lines: collectors; where one starts, smaller heaps were too small. Bars: 95% intervals. "
        "1 is the distilled baseline, the least cost of any run without its pauses.",
        spec,
    )
