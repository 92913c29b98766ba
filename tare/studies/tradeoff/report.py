"""The study behind `tare tradeoff`: what a collector costs in time, by the size of its heap.

A collector in a heap of one size is one manager of the study. All of them and the managers without
collections take turns in a random order, as in ``tare.studies.compare.report``. A heap that is too
small is an answer of the study and not a failure of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tare.base.units import format_bytes, format_count, format_floor, format_percent
from tare.campaign import rounds
from tare.records import summary
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results
from tare.records.runs import Number
from tare.records.summary import Row
from tare.report.comparison import (
    INTERVAL,
    OF_ALL_RUNS,
    measured,
    medians,
    ratio_cell,
    runs,
    summary_rows,
)
from tare.report.fields import SERVED, Field, Kind, numbers, ratios, sizes, table, text, texts
from tare.report.figures.curves import Mark, curves_spec
from tare.report.model import Cell, Figure, Section, Table
from tare.studykit.replays import ReplayRun

STUDY = "tradeoff"
OBSERVER = "replay"
TITLE = "Time against space: what a collector costs, replayed"
TIME, MUTATOR, MEMORY = "replay_seconds", "mutator_seconds", "peak_reserved_bytes"
TOO_SMALL = (str(Status.OUT_OF_MEMORY), str(Status.TIMEOUT))
"""How a replay ends in a heap that is too small: it does not fit, or does little but collect."""
ASKED = (2.0, 3.0)
"""Heaps that the findings give the cost of."""
NO_MORE = ("lower", "no difference seen")
TOO_FEW = "too few runs"
WORTH_SAYING = 0.1
"""A noise floor above this is told with the answers: they could hide a cost of that size."""
LIMITS = {
    "free": "alive until the program's own frees",
    "unreachable": "alive until unreachable",
    "last-use": "alive until the last use",
}
FROM_TIMES = 2
"""From this ratio on a cost is told as a multiple and not as a percentage."""
_DETAILS = ("collections", "nursery_collections", "max_pause_seconds", "copy_reserve_bytes")

Rows = Mapping[tuple[str, str, str], "Row"]


@dataclass(frozen=True)
class Point:
    """``manager`` is the name of ``collector`` with a heap of ``heap`` times the most bytes alive
    at one moment."""

    manager: str
    collector: str
    heap: float


class TradeoffRun(ReplayRun, frozen=True, kw_only=True):
    points: tuple[Point, ...]
    oracles: dict[str, Number]


@dataclass(frozen=True)
class Answers:
    """What a results folder holds. ``endings`` are the statuses of each manager's runs."""

    program: str
    baseline: str
    rows: Rows
    points: Sequence[Point]
    others: Sequence[str]
    live: int
    oracles: Mapping[str, int]
    endings: Mapping[str, set[str]]

    def row(self, manager: str, metric: str) -> Row | None:
        """That of a metric which was measured, or None."""
        row = self.rows.get((self.program, manager, metric))
        return row if row is not None and row["ratio"] is not None else None

    def curves(self) -> dict[str, list[Point]]:
        """The points of each collector, the smallest heap first."""
        found: dict[str, list[Point]] = {}
        for point in sorted(self.points, key=lambda point: point.heap):
            found.setdefault(point.collector, []).append(point)
        return {name: found[name] for name in dict.fromkeys(p.collector for p in self.points)}


next_round = partial(rounds.next_round, study=STUDY, observer=OBSERVER)
summarise = summary.summarise_apart


def failed(results: Results) -> bool:
    """Whether a run ended otherwise than well or by a heap that is too small, or a collector fitted
    into none of its heaps."""
    answers = _answers(results)
    heaps = {point.manager for point in answers.points}
    fine = {str(Status.OK)}
    return any(
        not endings <= (fine.union(TOO_SMALL) if manager in heaps else fine)
        for manager, endings in answers.endings.items()
    ) or not all(
        any(answers.row(point.manager, TIME) for point in points)
        for points in answers.curves().values()
    )


def section(results: Results) -> Section:
    """Findings, tables and the figure of a results folder."""
    answers = _answers(results)
    tables = [
        _curve_table(answers, TIME, "table-tradeoff-time"),
        _curve_table(answers, MUTATOR, "table-tradeoff-mutator"),
        _others_table(answers),
        _details_table(answers),
    ]
    findings = _findings(results.run_as(TradeoffRun), answers)
    figure = _figure(answers)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[figure] if figure is not None else [],
        obtained=Obtained.REPLAYED,
    )


def _answers(results: Results) -> Answers:
    run, measurements = results.run_as(TradeoffRun), results.measurements
    heaps = {point.manager for point in run.points}
    (program,) = (program.name for program in run.programs)
    endings: dict[str, set[str]] = {}
    for manager, status in measurements.select("manager", "status").unique().rows():
        endings.setdefault(manager, set()).add(status)
    return Answers(
        program,
        run.baseline,
        summary_rows(summarise(measurements, run.baseline, run.seed)),
        run.points,
        [manager for manager in run.managers if manager not in heaps],
        run.schedule.peak_bytes,
        run.oracles,
        endings,
    )


# ---- findings ----


def _findings(run: TradeoffRun, answers: Answers) -> list[str]:
    counted, death = run.schedule, run.request.how.death
    sentences = [
        f"Replayed: {format_count(counted.objects)} objects, "
        f"{format_bytes(counted.allocated_bytes)}, of which at most "
        f"{format_bytes(answers.live)} are {LIMITS[death]} at one moment. Heaps are multiples of "
        "that."
    ]
    sentences += _cheapest(answers)
    floor = (answers.row(answers.baseline, TIME) or {}).get("noise_floor")
    if floor is not None and floor > WORTH_SAYING:
        sentences.append(
            f"{answers.baseline} against itself differs by up to {format_percent(floor)} here: "
            "smaller costs cannot be seen."
        )
    sentences += [_of_collector(answers, *curve) for curve in answers.curves().items()]
    if death == "free" and len(answers.oracles) > 1:
        least = min(answers.oracles, key=lambda name: answers.oracles[name])
        sentences.append(
            f"The least that any manager needs is {format_bytes(answers.oracles[least])} "
            f"({answers.oracles[least] / answers.live:.2f} times): the objects {LIMITS[least]}."
        )
    sentences.append(
        "A replay does the program's allocations without its work. Where the program does more "
        "than allocate, the same seconds are a smaller part of its time."
    )
    return sentences


def _cheapest(answers: Answers) -> list[str]:
    """Of all collectors, the smallest heap that costs nothing, and the least cost of a few."""
    measured = [p for p in answers.points if answers.row(p.manager, TIME) is not None]
    if any(_verdict(answers, point, TIME) == TOO_FEW for point in measured):
        return ["There were too few runs to tell a cost from noise: do at least six (-n 6)."]
    sentences = []
    if free := {
        collector: heap
        for collector, points in answers.curves().items()
        if (heap := costs_nothing_from(answers, points, TIME)) is not None
    }:
        least = min(free.values())
        names = ", ".join(name for name, heap in free.items() if heap == least)
        sentences.append(
            f"The smallest heap in which collecting was not seen to cost more time than "
            f"{answers.baseline}: {_times(least)} ({names}{_hidden(answers, free, TIME)})."
        )
    elif measured:
        largest = max(point.heap for point in measured)
        sentences.append(
            f"Up to {_times(largest)} no collector is as fast as {answers.baseline}, collections "
            "included."
        )
    for asked in ASKED:
        there = {
            point.collector: row
            for point in measured
            if point.heap == asked and (row := answers.row(point.manager, TIME)) is not None
        }
        if there:
            best = min(there, key=lambda name: float(there[name]["ratio"]))
            sentences.append(
                f"At {_times(asked)} the cheapest is {best}: {_cost(there[best], answers)}."
            )
    return sentences


def _verdict(answers: Answers, point: Point, metric: str) -> str:
    row = answers.row(point.manager, metric)
    return str(row["verdict"]) if row is not None else ""


def _of_collector(answers: Answers, collector: str, points: Sequence[Point]) -> str:
    """A sentence: where a collector fits, and from where on it costs nothing."""
    fitting = [point for point in points if answers.row(point.manager, TIME) is not None]
    if not fitting:
        return f"{collector} fits into none of the heaps."
    parts = [f"{collector} fits from {_times(fitting[0].heap)}"]
    for metric, what in ((TIME, "time"), (MUTATOR, "mutator time")):
        if any(_verdict(answers, point, metric) == TOO_FEW for point in fitting):
            continue
        heap = costs_nothing_from(answers, points, metric)
        parts.append(
            f"takes more {what} than {answers.baseline} up to {_times(fitting[-1].heap)}"
            if heap is None
            else f"no more {what} than {answers.baseline} was seen from {_times(heap)} on"
            f"{_hidden(answers, {collector: heap}, metric)}"
        )
    return "; ".join(parts) + "."


def _hidden(answers: Answers, free: Mapping[str, float], metric: str) -> str:
    """What the runs in the heaps from which on collectors cost nothing would not have shown."""
    most = max(
        row["ratio_high"]
        for point in answers.points
        if point.heap >= free.get(point.collector, float("inf"))
        and (row := answers.row(point.manager, metric)) is not None
    )
    return f", though up to {format_percent(most - 1)} more would not show" if most > 1 else ""


def costs_nothing_from(answers: Answers, points: Sequence[Point], metric: str) -> float | None:
    """The smallest heap from which on no more of ``metric`` than the baseline's was seen; None
    where the largest that was measured still costs more."""
    smallest = None
    for point in sorted(points, key=lambda point: -point.heap):
        if answers.row(point.manager, metric) is None:
            continue
        if _verdict(answers, point, metric) not in NO_MORE:
            break
        smallest = point.heap
    return smallest


def _cost(row: Row, answers: Answers) -> str:
    if row["verdict"] == "no difference seen":
        low, high = row["ratio_low"], row["ratio_high"]
        return f"no difference from {answers.baseline} seen ({low:.2f} to {high:.2f} times)"
    if row["ratio"] >= FROM_TIMES:
        return f"{row['ratio']:.3g} times the time of {answers.baseline}"
    direction = "more" if row["ratio"] > 1 else "less"
    return f"{format_percent(1 - row['ratio'])} {direction} time than {answers.baseline}"


def _times(heap: float) -> str:
    return f"{heap:g} times"


# ---- tables ----


def _curve_table(answers: Answers, metric: str, identifier: str) -> Table:
    """A line for each collector, a column for each heap: ratios to the baseline."""
    what = METRICS[metric].title
    managers = {(point.collector, point.heap): point.manager for point in answers.points}

    def in_heap(heap: float) -> Field[str]:
        def value(collector: str) -> Cell:
            manager = managers[collector, heap]
            row = answers.row(manager, metric)
            return ratio_cell(row) if row else Cell(_why_none(answers, manager), tone="quiet")

        help = (
            f"Median {what} in a heap of {heap:g} times the most bytes alive at one moment, "
            f"divided by that under {answers.baseline}."
        )
        return Field(f"{heap:g}×", help, value)

    heaps = sorted({point.heap for point in answers.points})
    fields: list[Field[str]] = [texts("collector", SERVED, str), *map(in_heap, heaps)]
    notes = [
        "heaps: multiples of the most bytes alive at one moment. Coloured: a difference beyond "
        "noise; dim: no difference seen."
    ]
    floor = (answers.row(answers.baseline, metric) or {}).get("noise_floor")
    if floor is not None:
        notes.append(
            f"noise floor: ratios from {format_floor(floor)} ({answers.baseline} against itself, "
            "interleaved with the others)."
        )
    title = f"{what[:1].upper()}{what[1:]} by the size of the heap, over {answers.baseline}"
    return table(identifier, title, answers.curves(), fields, notes)


def _why_none(answers: Answers, manager: str) -> str:
    """In a word, why a heap has no figure."""
    words = {
        str(Status.OUT_OF_MEMORY): "too small",
        str(Status.TIMEOUT): "too slow",
    }
    found = sorted(answers.endings.get(manager, set()))
    return next((words.get(status, status) for status in found), "–")


def _others_table(answers: Answers) -> Table:
    """The managers without a heap of a fixed size, and what no manager can go below."""
    live = answers.live
    under = f"Median time divided by that under {answers.baseline}."
    alive = "The peak divided by the most bytes alive at one moment."
    fields: list[Field[Row]] = [
        Field("manager", SERVED, lambda row: row["manager"], numeric=False),
        *measured("time", METRICS[TIME].explanation + OF_ALL_RUNS, under, "time"),
        sizes("peak", METRICS[MEMORY].explanation + OF_ALL_RUNS, "peak"),
        ratios(
            "over live",
            alive,
            lambda row: row["peak"] / live if live and row["peak"] is not None else None,
        ),
        numbers("runs", "Runs counted.", "runs", essential=False),
    ]
    rows: list[Row] = []
    for manager in answers.others:
        time, memory = answers.row(manager, TIME), answers.row(manager, MEMORY)
        peak = float(memory["median"]) if memory else None
        number = time["runs"] if time else 0
        rows.append({"manager": text(manager), "time": time, "peak": peak, "runs": number})
    rows += [
        {"manager": Cell(f"no manager: {LIMITS[death]}", death), "peak": peak}
        for death, peak in answers.oracles.items()
    ]
    notes = ["a limit (no manager) is only the bytes asked for."]
    return table("table-tradeoff-others", "Without a collector", rows, fields, notes)


def _details_table(answers: Answers) -> Table:
    """A line for each collector and heap."""
    under = f"Divided by that under {answers.baseline}."

    def of(metric: str) -> Callable[[Point], Row | None]:
        return lambda point: answers.row(point.manager, metric)

    def median(metric: str) -> Field[Point]:
        return medians(
            METRICS[metric].title,
            METRICS[metric].explanation,
            lambda point: answers.rows.get((answers.program, point.manager, metric)),
        )

    fields: list[Field[Point]] = [
        texts("manager", "The collector with its heap.", lambda point: point.manager),
        Kind("{:g}".format)(
            "heap", "In multiples of the most bytes alive at one moment.", lambda point: point.heap
        ),
        *measured("time", METRICS[TIME].explanation + OF_ALL_RUNS, under, of(TIME), INTERVAL),
        *measured(
            "mutator", METRICS[MUTATOR].explanation + OF_ALL_RUNS, under, of(MUTATOR), INTERVAL
        ),
        *map(median, _DETAILS),
        runs(of(TIME), essential=True),
        texts(
            "ended",
            "How the runs ended.",
            lambda point: ", ".join(sorted(answers.endings.get(point.manager, set()))),
        ),
    ]
    title = "Each collector in each heap"
    return table("table-tradeoff-details", title, answers.points, fields, essential=False)


# ---- the figure ----


def _figure(answers: Answers) -> Figure | None:
    def marks(metric: str) -> list[Mark]:
        found = []
        for point in answers.points:
            if (row := answers.row(point.manager, metric)) is not None:
                found.append(Mark(point.collector, point.heap, row, is_curve=True))
        for manager in answers.others:
            row, memory = answers.row(manager, metric), answers.row(manager, MEMORY)
            # What took no memory of its own, as a short replay can, has no place on the axis.
            if row is not None and memory is not None and memory["median"] and answers.live:
                found.append(Mark(manager, memory["median"] / answers.live, row, is_curve=False))
        return found

    least = min(answers.oracles.values(), default=answers.live)
    titles = ("heap, as a multiple of the most bytes alive", f"relative to {answers.baseline}")
    panels = [(METRICS[metric].title, marks(metric)) for metric in (TIME, MUTATOR)]
    spec = curves_spec(panels, least / answers.live if answers.live else None, titles)
    if spec is None:
        return None
    return Figure(
        "tradeoff",
        "Time against space",
        f"Lines: collectors in heaps of fixed sizes; where one starts, smaller heaps were too "
        f"small. Squares: managers without a collector, at their peak. Broken line: "
        f"{format_bytes(least)}, the least that any manager needs. Bars: 95% intervals. Filled: a "
        f"difference from {answers.baseline} beyond noise.",
        spec,
    )
