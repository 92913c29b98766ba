"""What reports of sweeps show: ratios against the values of an option, lengths of pauses, and the
sentences about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tare.base.libraries import pl
from tare.base.text import listed, shortened, visible
from tare.base.units import format_count, format_percent, format_seconds
from tare.records.header import Amount
from tare.records.metrics import METRICS, Status
from tare.records.runs import Outcome, Record
from tare.records.summary import Row
from tare.report.comparison import TIME, change, medians, summary_rows
from tare.report.fields import Field, Kind, percents, seconds
from tare.report.figures.marks import (
    BAND,
    INK,
    LINE,
    MUTED,
    PAGE,
    SERIES,
    Spec,
    as_is,
    layer,
    measure,
    params,
    ratio_axis,
    ratio_text,
)
from tare.report.model import Figure
from tare.studykit.sweeps import Groups, Variant, size_text

Rows = Mapping[tuple[str, str, str], Row]
MOST_PANELS = 6
DIFFERENT = ("lower", "higher")
_PANEL_HEIGHT = 260
_SPREAD = 0.36
"""What the curves of a panel are spread over at each step, where one step is 1 wide."""
_ROW_HEIGHT, _BAR_HEIGHT, _HEADING_HEIGHT = 27, 21, 32
_NANOSECONDS = 1e9


@dataclass(frozen=True)
class Curve:
    """A row of a summary, or None, for each step of the axis."""

    name: str
    rows: Sequence[Row | None]


@dataclass(frozen=True)
class Panel:
    """``floor`` is the noise floor of all its curves, as a fraction, where they share one."""

    title: str
    curves: Sequence[Curve]
    floor: float | None = None


@dataclass(frozen=True)
class Sweep:
    """What was measured of a program under the variants of each allocator."""

    program: str
    rows: Rows
    groups: Groups

    @property
    def named(self) -> str:
        """Stands before a sentence about one of several programs."""
        return f"{self.program}: " if len({program for program, _, _ in self.rows}) > 1 else ""

    @property
    def variants(self) -> list[Variant]:
        return [each for group in self.groups.values() for each in group]

    @property
    def with_layer(self) -> list[Variant]:
        return [each for each in self.variants if each.layer]

    def row(self, each: Variant, metric: str) -> Row | None:
        return self.rows.get((self.program, each.name, metric))

    def of(self, metric: str) -> Callable[[Variant], Row | None]:
        """What the rows have of a metric under a variant."""
        return lambda each: self.row(each, metric)

    def panel(self, metric: str, step_of: Callable[[Variant], Any], steps: Sequence[Any]) -> Panel:
        """A curve for each allocator, of the variant at each step."""
        curves = []
        for allocator, group in self.groups.items():
            by_step = {step_of(each): self.row(each, metric) for each in group}
            curves.append(Curve(allocator, [by_step.get(step) for step in steps]))
        floors = [row["noise_floor"] for curve in curves for row in curve.rows if row is not None]
        return Panel(self.program, curves, floors[0] if floors and len(curves) == 1 else None)


def sweeps_of(summary: pl.DataFrame, groups: Groups) -> list[Sweep]:
    """One for each program."""
    rows = summary_rows(summary)
    programs = dict.fromkeys(program for program, _, _ in rows)
    return [Sweep(program, rows, groups) for program in programs]


def ratio_figure(
    identifier: str,
    title: str,
    caption: str,
    panels: Sequence[Panel],
    steps: Sequence[Sequence[str]],
    titles: tuple[str, str],
) -> Figure | None:
    """Ratios with their intervals at each of ``steps``, whose labels have a line or two; None where
    there is no ratio. ``titles`` are those of the axes. The steps are equally far apart."""
    shown = panels[:MOST_PANELS]
    bounds = [
        bound
        for panel in shown
        for curve in panel.curves
        for row in curve.rows
        if row is not None and row["ratio"] is not None
        for bound in (row["ratio"], row["ratio_low"], row["ratio_high"])
    ]
    if not bounds:
        return None
    names = list(dict.fromkeys(curve.name for panel in shown for curve in panel.curves))
    x: Spec = {
        "scale": {"domain": [-0.5, len(steps) - 0.5], "nice": False, "zero": False},
        "axis": {
            "title": titles[0],
            "values": list(range(len(steps))),
            "labelExpr": f"{[list(lines) for lines in steps]}[datum.value]",
            "labelOverlap": False,
            "labelAngle": {"expr": "narrow ? -50 : 0"},
            "labelAlign": {"expr": "narrow ? 'right' : 'center'"},
            "grid": False,
        },
    }
    y = ratio_axis([1.0, *bounds], titles[1])
    specs = [_ratio_panel(panel, names, x, y) for panel in shown]
    spec: Spec = {"params": params()}
    if len(specs) == 1:
        spec |= specs[0]
    else:
        for one, panel in zip(specs, shown, strict=True):
            one["title"] = {"text": shortened(visible(panel.title), 50), "anchor": "start"}
        spec |= {"concat": specs, "columns": 2}
    cut = f" Drawn: the first {MOST_PANELS}." if len(panels) > MOST_PANELS else ""
    return Figure(identifier, title, caption + cut, spec)


def _ratio_panel(panel: Panel, names: Sequence[str], x: Spec, y: Spec) -> Spec:
    points: list[Spec] = []
    for curve in panel.curves:
        number = names.index(curve.name)
        shift = _SPREAD * (number - (len(names) - 1) / 2) / max(1, len(names))
        for step, row in enumerate(curve.rows):
            if row is not None and row["ratio"] is not None:
                points.append(_point(curve.name, SERIES[number % len(SERIES)], step + shift, row))
    colours = [SERIES[number % len(SERIES)] for number in range(len(names))]
    legend = {"title": None, "columns": {"expr": "narrow ? 2 : 5"}, "symbolType": "circle"}
    layers = [
        layer(
            {"type": "rule", "color": MUTED, "strokeDash": [2, 2], "aria": False},
            [{"one": 1.0}],
            y=measure("one", y),
        ),
        layer(
            {"type": "line", "strokeWidth": 1.2, "opacity": 0.6, "aria": False},
            points,
            x=measure("x", x),
            y=measure("ratio", y),
            color={
                "field": "name",
                "type": "nominal",
                "scale": {"domain": [_short(name) for name in names], "range": colours},
                "legend": legend if len(names) > 1 else None,
            },
        ),
        layer(
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round", "aria": False},
            points,
            x=measure("x", x),
            y=measure("low", y),
            y2={"field": "high"},
            stroke=as_is("colour"),
        ),
        layer(
            {"type": "point", "size": 45, "strokeWidth": 2, "opacity": 1},
            points,
            x=measure("x", x),
            y=measure("ratio", y),
            stroke=as_is("colour"),
            fill=as_is("fill"),
        ),
    ]
    if panel.floor is not None and math.isfinite(panel.floor):
        low, high = y["scale"]["domain"]
        band = {
            "low": max(low, 1 / (1 + panel.floor)),
            "high": min(high, 1 + panel.floor),
            "tip": f"noise floor: {format_percent(panel.floor)}",
        }
        layers.insert(
            0,
            layer(
                {"type": "rect", "color": BAND},
                [band],
                y=measure("low", y),
                y2={"field": "high"},
            ),
        )
    return {"height": _PANEL_HEIGHT, "layer": layers}


def _short(name: str) -> str:
    return shortened(visible(name), 40)


def _point(name: str, colour: str, x: float, row: Row) -> Spec:
    ratio, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
    return {
        "name": _short(name),
        "x": x,
        "ratio": ratio,
        "low": low,
        "high": high,
        "colour": colour,
        "fill": colour if row["verdict"] in DIFFERENT else PAGE,
        "tip": f"{_short(row['manager'])}: {ratio_text(ratio)} (95% interval {ratio_text(low)} to "
        f"{ratio_text(high)}), {row['verdict']}",
    }


# ---- pauses ----


Histogram = tuple[tuple[Amount, Amount, Amount], ...]
"""Rows of two lengths in nanoseconds, and how many pauses were between them."""


@dataclass(frozen=True)
class Pauses:
    """Pauses of one variant."""

    label: str
    histogram: Sequence[Sequence[float]]
    longest_seconds: float


def good_runs(records: Sequence[Record], study: str, program: str, manager: str) -> list[Outcome]:
    """Those that are no warm-up."""
    return [
        record.outcome
        for record in records
        if (record.run.study, record.run.program, record.run.manager) == (study, program, manager)
        and not record.run.warmup
        and record.outcome.status is Status.OK
    ]


def pauses_of(
    outcomes: Sequence[Outcome], histogram_of: Callable[[Outcome], Histogram], label: str
) -> Pauses:
    """The pauses of all these runs."""
    longest = [outcome.values.get("max_pause_seconds", 0.0) for outcome in outcomes]
    return Pauses(label, merged(map(histogram_of, outcomes)), max(longest, default=0.0))


option_sizes = Kind(lambda size: size_text(int(size)))
"""Sizes as options of a manager have them."""
_PAUSE_METRICS = ("collections", "pause_seconds", "max_pause_seconds")


def pause_fields(sweep: Sweep) -> list[Field[Variant]]:
    """How often and how long variants collected, medians of the runs."""

    def median(each: Variant, metric: str) -> float:
        return float(sweep.rows[sweep.program, each.name, metric]["median"])

    def mean(each: Variant) -> float:
        collections = median(each, "collections")
        return median(each, "pause_seconds") / collections if collections else 0.0

    number, total, longest = (METRICS[metric].explanation for metric in _PAUSE_METRICS)
    return [
        medians("collections", number, sweep.of("collections")),
        medians("in collections", total, sweep.of("pause_seconds")),
        percents(
            "share",
            "Time in collections, divided by the wall time.",
            lambda each: median(each, "pause_seconds") / median(each, TIME),
        ),
        seconds("mean pause", "Time in collections, divided by their number.", mean),
        medians("longest pause", f"{longest} The median of runs.", sweep.of("max_pause_seconds")),
    ]


def with_pauses(sweep: Sweep) -> list[Variant]:
    """Those of which ``pause_fields`` are known."""
    return [
        each
        for each in sweep.with_layer
        if all(
            (row := sweep.row(each, metric)) and row["median"] is not None
            for metric in (TIME, *_PAUSE_METRICS)
        )
    ]


def merged(histograms: Iterable[Sequence[Sequence[float]]]) -> list[tuple[float, float, float]]:
    """The histograms of several runs as one."""
    counts: dict[tuple[float, float], float] = {}
    for histogram in histograms:
        for low, high, count in histogram:
            counts[low, high] = counts.get((low, high), 0.0) + count
    return [(*ends, count) for ends, count in sorted(counts.items())]


def pause_figure(
    identifier: str, title: str, caption: str, groups: Sequence[tuple[str, Sequence[Pauses]]]
) -> Figure | None:
    """A row of bars for each variant, under the name of its allocator: how its pauses were spread
    over lengths, and a tick at the longest. None where there were no pauses."""
    bars: list[Spec] = []
    longest: list[Spec] = []
    names: list[Spec] = []
    bottom = 0.0
    for heading, rows in groups:
        names.append({"y": bottom + _HEADING_HEIGHT - 9, "text": _short(heading), "bold": True})
        bottom += _HEADING_HEIGHT
        for row in rows:
            bottom += _ROW_HEIGHT
            names.append({"y": bottom - _BAR_HEIGHT / 2, "text": row.label, "bold": False})
            bars += _bars(f"{_short(heading)}, {row.label}", row, bottom)
            if row.longest_seconds > 0:
                longest.append(
                    {
                        "x": row.longest_seconds * _NANOSECONDS,
                        "y": bottom,
                        "top": bottom - _BAR_HEIGHT,
                        "tip": f"{_short(heading)}, {row.label}: the longest took "
                        f"{format_seconds(row.longest_seconds)}",
                    }
                )
    if not bars:
        return None
    least = min(bar["from"] for bar in bars)
    most = max([bar["to"] for bar in bars] + [tick["x"] for tick in longest])
    x = _time_axis(least, most)
    y: Spec = {"scale": {"domain": [0, bottom], "reverse": True, "nice": False}, "axis": None}
    text = {"type": "text", "align": "right", "dx": -10, "baseline": "middle", "aria": False}
    layers = [
        layer(
            {"type": "rule", "color": LINE, "aria": False},
            [{"y": name["y"] + _BAR_HEIGHT / 2} for name in names if not name["bold"]],
            y=measure("y", y),
        ),
        *(
            layer(
                {**text, "color": INK, "fontWeight": 600 if bold else 400},
                [name for name in names if name["bold"] == bold],
                x={"value": 0},
                y=measure("y", y),
                text={"field": "text"},
            )
            for bold in (True, False)
        ),
        layer(
            {"type": "rect", "color": SERIES[0]},
            bars,
            x=measure("from", x),
            x2={"field": "to"},
            y=measure("top", y),
            y2={"field": "bottom"},
        ),
        layer(
            {"type": "rule", "strokeWidth": 2, "color": INK},
            longest,
            x=measure("x", x),
            y=measure("top", y),
            y2={"field": "y"},
        ),
    ]
    spec: dict[str, Any] = {"params": params(), "height": bottom, "layer": layers}
    return Figure(identifier, title, caption, spec)


def _bars(name: str, row: Pauses, bottom: float) -> list[Spec]:
    total = sum(count for _, _, count in row.histogram)
    bars = []
    for low, high, count in row.histogram:
        share = count / total
        bars.append(
            {
                "from": max(low, high / 2),
                "to": high,
                "top": bottom - _BAR_HEIGHT * math.sqrt(share),
                "bottom": bottom,
                "tip": f"{name}: {format_count(count)} pauses ({format_percent(share)}) under "
                f"{format_seconds(high / _NANOSECONDS)}",
            }
        )
    return bars


def _time_axis(least: float, most: float) -> Spec:
    powers = range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)
    texts = {10**power: format_seconds(10**power / _NANOSECONDS) for power in powers}
    labels = [f"{value:.0f}" for value in texts]
    texts_by_label = dict(zip(labels, map(_plain, texts.values()), strict=True))
    return {
        "scale": {"type": "log", "domain": [least, most * 1.05], "nice": False},
        "axis": {
            "title": "length of a pause",
            "values": list(texts),
            "labelExpr": f"{texts_by_label}[format(datum.value, 'd')]",
        },
    }


def _plain(text: str) -> str:
    """``1.00 µs`` as ``1 µs``."""
    number, unit = text.split(" ")
    return f"{float(number):g} {unit}"


# ---- sentences ----


def effect(rows: Sequence[tuple[str, Row]], what: str, at: str = "at") -> str:
    """Where the rows, by the label of their step, differ most from their reference, and where else:
    ``3.1% more time (2.2% to 4.0%) at 2MiB, also at 1MiB``. ``at`` stands before a label."""
    parts = []
    for verdict in reversed(DIFFERENT):
        seen = [(label, row) for label, row in rows if row["verdict"] == verdict]
        if seen:
            label, row = max(seen, key=lambda each: abs(math.log(each[1]["ratio"])))
            others = [other for other, _ in seen if other != label]
            also = f", also {at} {listed(others)}" if others else ""
            parts.append(f"{change(row, what)} {at} {label}{also}")
    if parts:
        return ", but ".join(parts)
    if any(row["verdict"] == "too few runs" for _, row in rows):
        return f"too few runs to see a difference in {what}"
    return f"no difference in {what} seen"
