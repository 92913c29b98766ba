"""The study behind `tare proximity`: do events take longer close to a collection, and why?

A run is a pair of runs by ``tare.studies.proximity.question``; its record holds the curves of all
that stopped the program. They are put together over invocations: the median of their medians,
between the least and the greatest bound.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from msgspec import structs

from tare.base.units import format_count, format_percent, format_seconds
from tare.campaign import planning
from tare.records import summary
from tare.records.header import Header
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import Field, Kind, Row, counts, numbers, seconds, table, texts
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.proximity.details import Details, Grouped, Spread
from tare.studies.proximity.figures import densities_figure, groups_figure
from tare.studykit.sweep_tables import Curve as Drawn
from tare.studykit.sweep_tables import Panel, ratio_figure

STUDY = "proximity"
OBSERVER = "proximity"
T = TypeVar("T")
TITLE = "Close to a collection"
RANKS = (1, 2, 3, 5, 10, 20)
"""Those of the metrics and tables."""
DRAWN = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20)
FIRST = "after_1_ratio"
COLLECTION, AGAIN, NULL = "collection", "collection again", "null"
CONTROLS = ("spin", "park", "stop")
TITLES = {
    COLLECTION: "a collection",
    AGAIN: "one, among pauses",
    "spin": "a spin",
    "park": "a sleep",
    "stop": "a stop of all",
    NULL: "nothing",
}
CLOCKS = {"wall": "wall time", "cpu": "processor time of the thread"}
NEGLIGIBLE = 0.02
"""Ratios within this of 1 are told as no effect, however narrow their intervals are."""
BIASED = 1.1
"""Interrupted events whose keys take longer than the others by this are told as a bias."""
MATCHED = 2.0
"""A control counts for the verdict where its pauses are not so many times as long as those of the
collections, or so many times shorter."""
_ANY, _ITSELF, _LESS, _NONE = "any pause", "the collection itself", "less than a pause", "nothing"
PUBLISHED = (
    "Published for Lucene on MMTk's collectors (Sareen 2021, tables 5.1 and 5.2): the fastest 5% "
    "of a query's executions lie 1.06 to 1.30 times as far from the collection before them as its "
    "median execution, under mark-sweep on one machine 0.34 times; the slowest 5% 0.69 to 0.98 "
    "times."
)


@dataclass(frozen=True)
class Point:
    """A median with its bounds; ``count`` events of all invocations went into it."""

    median: float
    low: float
    high: float
    count: int


Curve = Sequence[Point | None]


@dataclass(frozen=True)
class Variant:
    """A manager, and that which it was made of where so many ``collections`` were asked for."""

    manager: str
    base: str
    collections: int | None


class ProximityRun(Header, frozen=True, kw_only=True):
    variants: tuple[Variant, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What was found of a program under a manager. ``curves`` are by what came before and clock."""

    program: str
    manager: str
    records: Sequence[Record]
    curves: Mapping[tuple[str, str], Curve]

    def at(self, name: str, clock: str, rank: int) -> Point | None:
        curve = self.curves.get((name, clock), ())
        return curve[rank - 1] if rank <= len(curve) else None

    @cached_property
    def details(self) -> list[Details]:
        return [record.outcome.details_as(Details) for record in self.records]

    @property
    def groups(self) -> list[Grouped]:
        return [each.groups for each in self.details if each.groups is not None]

    @property
    def extremes(self) -> list[Spread]:
        return [each.extremes for each in self.details if each.extremes is not None]

    def length(self, name: str) -> float:
        """The median length in seconds of what stopped the program; 0 for nothing."""
        kind = COLLECTION if name == AGAIN else name
        found = [each.pause_ns.get(kind, (0.0,))[0] for each in self.details]
        return float(statistics.median(found)) / 1e9

    def is_matched(self, control: str) -> bool:
        ratio = self.length(control) / max(self.length(COLLECTION), 1e-9)
        return 1 / MATCHED <= ratio <= MATCHED

    def total(self, metric: str) -> float:
        return sum(record.outcome.values[metric] for record in self.records)


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
summarise = partial(summary.summarise_range, first_metric=FIRST)


def combined(curves: Sequence[Sequence[Sequence[float] | None]]) -> list[Point | None]:
    """The curves of several invocations as one."""
    found: list[Point | None] = []
    for column in zip(*curves, strict=True):
        seen = [point for point in column if point is not None]
        found.append(
            Point(
                statistics.median(point[0] for point in seen),
                min(point[1] for point in seen),
                max(point[2] for point in seen),
                int(sum(point[3] for point in seen)),
            )
            if seen
            else None
        )
    return found


def cause(collection: Point, controls: Mapping[str, Point], null: Point | None) -> str:
    """What makes events slower after a collection, by their intervals and those of controls; "" is
    left open. A thread that spins keeps its core, as none does that is stopped: so without one of
    the others nothing can be said to be a collection's own."""
    top = max(1 + NEGLIGIBLE, null.high if null else 1.0)
    if collection.low <= top:
        return _NONE
    if not controls:
        return ""
    if collection.low > max(point.high for point in controls.values()):
        return _ITSELF if controls.keys() - {"spin"} else ""
    if collection.high < min(point.low for point in controls.values()):
        return _LESS
    return _ANY


def section(results: Results) -> Section:
    """Findings, tables and figures of a results folder."""
    answers = _answers(results)
    findings = [sentence for answer in answers for sentence in _findings(answer, answers)]
    tables = [
        *(_after_table(answers, clock) for clock in CLOCKS if _is_known(answers, clock)),
        _distance_table(answers),
        _runs_table(answers),
    ]
    figures = [_after_figure(answers), *_distance_figures(answers, _bases(results))]
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=[*findings, PUBLISHED] if answers else [],
        tables=tables,
        figures=[figure for figure in figures if figure is not None],
    )


def _answers(results: Results) -> list[Answer]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in read_records(results.folder):
        if record.run.study == STUDY and record.outcome.status is Status.OK:
            groups.setdefault((record.run.program, record.run.manager), []).append(record)
    answers = []
    for (program, manager), records in groups.items():
        seen = [record.outcome.details_as(Details).curves for record in records]
        curves = {
            (name, clock): combined([each[name][clock] for each in seen])
            for name in seen[0]
            for clock in CLOCKS
        }
        answers.append(Answer(program, manager, records, curves))
    return answers


def _is_known(answers: Sequence[Answer], clock: str) -> bool:
    """A server's clients do not know the processor time of a request."""
    return any(answer.at(NULL, clock, 1) or answer.at(COLLECTION, clock, 1) for answer in answers)


def _bases(results: Results) -> dict[str, str]:
    """By manager, the one that it is made of with another period."""
    return {each.manager: each.base for each in results.run_as(ProximityRun).variants}


# ---- findings ----


def _findings(answer: Answer, answers: Sequence[Answer]) -> list[str]:
    under = f"Under {answer.manager}"
    if len({each.program for each in answers}) > 1:
        under = f"{answer.program} under {answer.manager}"
    first = answer.at(COLLECTION, "wall", 1)
    if first is None:
        return [
            f"{under} too few collections have 20 events since the collection before: nothing "
            "can be said. Give another heap or period, or let the program do more."
        ]
    sentences = [_answer_sentence(answer, under, first)]
    sentences.append(_null_sentence(answer))
    sentences.append(_survivors_sentence(answer))
    return [sentence for sentence in sentences if sentence]


def _answer_sentence(answer: Answer, under: str, first: Point) -> str:
    cpu = answer.at(COLLECTION, "cpu", 1)
    controls = {
        name: point for name in CONTROLS if (point := answer.at(name, "wall", 1)) is not None
    }
    matched = {name: point for name, point in controls.items() if answer.is_matched(name)}
    reason = cause(first, matched, answer.at(NULL, "wall", 1))
    told = (
        f"{under} the first event after a collection takes {_times(first)} its own median"
        + (f", and {_times(cpu)} the processor time" if cpu else "")
        + "."
    )
    if controls:
        words = ", ".join(
            f"{_times(point)} after {TITLES[name]}"
            + ("" if answer.is_matched(name) else f" for {format_seconds(answer.length(name))}")
            for name, point in controls.items()
        )
        pause = format_seconds(answer.length(COLLECTION))
        told += f" After equally long pauses ({pause}) without a collection it is {words}."
    else:
        told += " Too few events follow pauses without a collection for a comparison."
    if len(matched) < len(controls):
        told += " Of these only pauses about as long as collections count."
    return (
        told
        + {
            _NONE: " So no effect of a collection on the next event was seen.",
            _ANY: " So a collection costs the next event no more than any pause does.",
            _ITSELF: " So a part of it comes from the collection itself.",
            _LESS: " So a collection costs the next event less than a pause does.",
            "": " Whether the collection itself is the cause is left open"
            + (": no sleep and no stop of all threads was about as long." if controls else "."),
        }[reason]
    )


def _times(point: Point) -> str:
    return f"{point.median:.2f} ({point.low:.2f} to {point.high:.2f}) times"


def _null_sentence(answer: Answer) -> str:
    points = [point for point in answer.curves[NULL, "wall"] if point is not None]
    if not points:
        return "There are too few quiet intervals between the collections for a null."
    far = max(points, key=lambda point: abs(point.median - 1))
    return (
        f"The null, {format_count(points[0].count)} places where nothing happened, lies within "
        f"{abs(far.median - 1):.1%} of 1 for all of the next {len(points)} events."
    )


def _survivors_sentence(answer: Answer) -> str:
    events, cut = answer.total("events"), answer.total("interrupted_events")
    kept = statistics.median(each.kept_ns for each in answer.details)
    own = statistics.median(each.interrupted_ns for each in answer.details)
    told = (
        f"{format_count(cut)} of {format_count(events)} events ({format_percent(cut / events)}) "
        "were interrupted and are left out"
    )
    if cut and kept > 0:
        told += f"; events of their keys take {own / kept:.2f} times as long as those of the others"
        if own > BIASED * kept:
            told += ": long events are missing close to the next collection (survivor bias)"
    return told + "."


# ---- tables ----


def _after_table(answers: Sequence[Answer], clock: str) -> Table:
    def ratio(rank: int) -> Field[_After]:
        help = (
            f"Median {CLOCKS[clock]} of the {_ordinal(rank)} event after it, each event divided by "
            "the median of all that do the same."
        )

        def value(after: _After) -> Cell:
            null = after.answer.at(NULL, clock, 1)
            return _ratio(after.answer.at(after.name, clock, rank), null)

        return Field(_ordinal(rank), help, value)

    often = "How many of these were followed by an event that counts."
    fields: list[Field[_After]] = [
        texts("manager", "The collector.", lambda after: after.answer.manager),
        texts(
            "events after",
            "What had stopped the program, if anything.",
            lambda after: TITLES[after.name],
        ),
        seconds(
            "length",
            "Median length of what stopped it.",
            lambda after: after.answer.length(after.name) or None,
            essential=False,
        ),
        counts("times", often, lambda after: after.first.count),
        *map(ratio, RANKS),
        Field(
            "1st: interval",
            "95% interval of the 1st; with few runs the widest.",
            lambda after: Cell(f"{after.first.low:.3f} – {after.first.high:.3f}", after.first.low),
            numeric=False,
        ),
    ]
    rows = [
        _After(answer, name, first)
        for answer in answers
        for name in TITLES
        if (first := answer.at(name, clock, 1)) is not None
    ]
    notes = [
        "one, among pauses: a collection in the second run. Spin and sleep: of the thread of the "
        "events, or of the one that serves them. A stop of all: of all threads, without a "
        "collection. Nothing: the null.",
        "coloured: beyond the null and 2%. Only what has 20 events before it without another stop "
        "counts.",
    ]
    title = f"Events after a collection, and after pauses without one: {CLOCKS[clock]}"
    return table(f"table-proximity-{clock}", title, rows, fields, notes)


def _ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"


def _ratio(point: Point | None, null: Point | None) -> Cell:
    if point is None:
        return Cell("–")
    high = max(1 + NEGLIGIBLE, null.high if null else 1.0)
    low = min(1 - NEGLIGIBLE, null.low if null else 1.0)
    tone = "bad" if point.low > high else "good" if point.high < low else "quiet"
    return Cell(f"{point.median:.3f}", point.median, tone)


@dataclass(frozen=True)
class _After:
    """The events after what ``name`` stands for; ``first`` of the first of them."""

    answer: Answer
    name: str
    first: Point


def _distance_table(answers: Sequence[Answer]) -> Table:
    def of_groups(title: str, help: str, value: Callable[[Grouped], float]) -> Field[Answer]:
        return Field(title, help, lambda answer: _median(answer.groups, value))

    def of_extremes(
        title: str, help: str, value: Callable[[Spread], float], wide: bool = False
    ) -> Field[Answer]:
        return Field(
            title, help, lambda answer: _median(answer.extremes, value), essential=not wide
        )

    def pauses(answer: Answer) -> Cell:
        values = [record.outcome.values for record in answer.records]
        return _median(values, itemgetter("pauses"), "{:.0f}")

    def groups(answer: Answer) -> Cell:
        return _median(answer.groups, lambda each: len(each.wall), "{:.0f}")

    by_best = "Mean wall time of the {} group, divided by that of the best group."
    by_all = "Median distance of a key's {} events, divided by that of all its events."
    dealt = "The same, with distances assigned at random."
    fields: list[Field[Answer]] = [
        texts("manager", "The collector.", lambda answer: answer.manager),
        Field(
            "collections", "Pauses for collections after the warm-up; median of the runs.", pauses
        ),
        Field(
            "groups", "Groups of equally many events, by distance to the collection before.", groups
        ),
        of_groups("closest", by_best.format("closest"), lambda each: each.wall[0]),
        of_groups("farthest", by_best.format("farthest"), lambda each: each.wall[-1]),
        of_groups("worst", by_best.format("worst"), lambda each: max(each.wall)),
        of_groups(
            "by chance",
            "The same, with events assigned to groups at random.",
            attrgetter("chance"),
        ),
        of_extremes("fastest 5%", by_all.format("fastest"), attrgetter("best")),
        of_extremes("by chance", dealt, attrgetter("best_by_chance"), wide=True),
        of_extremes("slowest 5%", by_all.format("slowest"), attrgetter("worst")),
        of_extremes("by chance", dealt, attrgetter("worst_by_chance"), wide=True),
    ]
    notes = [
        "as in Sareen and Blackburn (2022) and Sareen (2021). The best of many groups is the best "
        "by luck: the columns by chance show how much. Unlike the tables above, this one does not "
        "separate collections from slow periods of the machine."
    ]
    return table("table-proximity-distance", "By distance in time", answers, fields, notes)


def _median(found: Sequence[T], value: Callable[[T], float], form: str = "{:.2f}") -> Cell:
    if not found:
        return Cell("–")
    median = float(statistics.median(value(each) for each in found))
    return Cell(form.format(median), median)


def _runs_table(answers: Sequence[Answer]) -> Table:
    fields: list[Field[Row]] = [
        texts("manager", "The collector.", "manager"),
        numbers("invocation", "Number of the pair of runs.", "invocation"),
        counts("events", "Events after the warm-up.", "events"),
        Kind(lambda nanoseconds: format_seconds(nanoseconds / 1e9))(
            "median", "Median wall time of the events.", "events_ns"
        ),
        counts("keys", "Different events: those of one key do the same.", "keys"),
        numbers("threads", "Threads that had events.", "threads"),
        counts("pauses", "Pauses for collections after the warm-up.", "pauses"),
        counts(
            "other stops",
            "Safepoints without a collection.",
            lambda row: row["kinds"].get("other", 0),
        ),
        counts("interrupted", "Events that a stop interrupted.", "interrupted_events"),
        counts("dropped", "Events that did not fit into the file.", "dropped"),
        texts("warm-up", "How its end was determined.", "steady"),
    ]
    rows = [
        {
            **record.outcome.details,
            **record.outcome.values,
            "manager": answer.manager,
            "invocation": record.run.invocation,
        }
        for answer in answers
        for record in answer.records
    ]
    return table("table-proximity-runs", "The runs", rows, fields, essential=False)


# ---- figures ----


def _after_figure(answers: Sequence[Answer]) -> Figure | None:
    panels = [
        Panel(
            f"{answer.manager}: {words}",
            [
                Drawn(name, [_row(name, answer.at(name, clock, rank)) for rank in DRAWN])
                for name in (COLLECTION, *CONTROLS, NULL)
                if answer.at(name, clock, 1) is not None
            ],
        )
        for answer in answers
        for clock, words in (("wall", "wall time"), ("cpu", "processor time"))
        if _is_known([answer], clock)
    ]
    return ratio_figure(
        "proximity-after",
        "The events after a collection, and after pauses without one",
        "Dot: median over all stops; line: its 95% interval. Each event is divided by the median "
        "of all events that do the same. Where the curve of collections coincides with those of "
        "the pauses, a collection does no more than a pause.",
        panels,
        [[str(rank)] for rank in DRAWN],
        ("events since the stop", "relative to the event's own median"),
    )


def _row(name: str, point: Point | None) -> Any:
    if point is None:
        return None
    return {
        "manager": name,
        "ratio": point.median,
        "ratio_low": point.low,
        "ratio_high": point.high,
        "verdict": "higher" if point.low > 1 + NEGLIGIBLE else "no difference seen",
        "runs": point.count,
    }


def _distance_figures(answers: Sequence[Answer], bases: Mapping[str, str]) -> list[Figure | None]:
    first = {answer.manager: answer.details[0] for answer in answers}
    grouped = {name: each.groups for name, each in first.items() if each.groups}
    best: dict[str, float] = {}
    for name, each in grouped.items():
        base = bases.get(name, name)
        best[base] = min(each.best, best.get(base, each.best))
    scaled = {
        name: structs.replace(
            each, wall=tuple(wall * each.best / best[bases.get(name, name)] for wall in each.wall)
        )
        for name, each in grouped.items()
    }
    return [
        groups_figure(scaled),
        densities_figure({name: each.extremes for name, each in first.items() if each.extremes}),
    ]
