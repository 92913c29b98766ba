"""Ratios to a baseline with their 95% intervals, of one metric or of several side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.base.text import shortened, visible
from tare.base.units import format_floor
from tare.report.figures.marks import (
    BAND,
    HIGHER,
    INK,
    LOWER,
    MUTED,
    PAGE,
    SAME,
    Spec,
    as_is,
    layer,
    measure,
    params,
    ratio_axis,
    ratio_text,
    right_texts,
    title_of,
)
from tare.report.figures.rows import Layout, lay_out, programs_that_fit
from tare.report.model import Figure


def forest_figure(summary: pl.DataFrame, metrics: Sequence[str], baseline: str) -> Figure:
    """Ratios to the baseline of several metrics of one program, on rows that they share."""
    mine = summary.filter(pl.col("metric").is_in(metrics))
    layout = lay_out(mine.filter(pl.col("metric") == metrics[0]), "ratio", headings=False)
    panels: list[Spec] = []
    for number, metric in enumerate(metrics):
        rows = _intervals(mine.filter(pl.col("metric") == metric), layout)
        x = ratio_axis(rows.bounds, "")
        x["axis"] |= {"title": None, "tickCount": {"expr": "narrow ? 3 : 4"}}
        panel = {
            "title": {"text": title_of(metric).capitalize(), "anchor": "start"},
            "height": max(1.0, layout.height),
            "layer": _interval_layers(rows, layout, x, named=not number),
        }
        panels.append(panel)
    runs = mine.filter(pl.col("median").is_not_null())["runs"]
    exact = min(runs, default=0) >= FEWEST_FOR_INTERVAL
    lines = "their 95% intervals" if exact else "the extreme ratios, as runs are few"
    return Figure(
        "forest",
        f"Against {shortened(visible(baseline), 40)}",
        f"Dots: ratios of medians; lines: {lines}. Left of 1 is less. Filled: a difference; "
        "hollow: no difference seen. Shaded: noise, the baseline against itself.",
        {"params": params(), "columns": len(panels), "concat": panels, "spacing": 24},
    )


def interval_figure(summary: pl.DataFrame, metric: str, baseline: str) -> Figure:
    """Each manager's ratio of ``metric`` to the baseline, as a dot with its 95% interval.

    ``summary`` is what ``tare.records.summary.summarise`` gives; ratios have no unit. The shaded
    band is the noise floor, within which two equal managers can seem to differ.
    """
    rows = summary.filter(pl.col("metric") == metric)
    rows, cut = programs_that_fit(rows, "ratio")
    layout = lay_out(rows, "ratio", headings=rows["program"].n_unique() > 1)
    drawn = _intervals(rows, layout)
    title = title_of(metric)
    x = ratio_axis(drawn.bounds, f"{title}, relative to {shortened(visible(baseline), 40)}")
    x["axis"]["orient"] = layout.side()
    caption = (
        "Dot: ratio of the medians; line: its 95% interval. Left of 1 is less. Filled dots differ "
        "from the baseline; hollow ones show no difference beyond noise."
    )
    if drawn.bands:
        caption += " Shaded: the noise floor, the baseline against itself."
    return Figure(
        f"interval-{metric}",
        f"{title.capitalize()} against the baseline",
        caption + cut,
        layout.spec(_interval_layers(drawn, layout, x, named=True)),
    )


@dataclass(frozen=True)
class _Intervals:
    """What is drawn of a metric: ``empty`` are rows without a figure."""

    bands: Sequence[Spec]
    points: Sequence[Spec]
    empty: Sequence[Spec]
    bounds: Sequence[float]


def _intervals(rows: pl.DataFrame, layout: Layout) -> _Intervals:
    bands: list[Spec] = []
    points: list[Spec] = []
    empty: list[Spec] = []
    bounds = [1.0]
    for block in layout.blocks:
        of_program = rows.filter(pl.col("program") == block.program)
        floor = of_program["noise_floor"].drop_nulls().max()
        if isinstance(floor, float) and 0 < floor < math.inf:
            low, high = 1 / (1 + floor), 1 + floor
            bounds += [low, high]
            bands.append(
                {
                    "low": low,
                    "high": high,
                    "top": block.top,
                    "bottom": block.bottom,
                    "tip": f"noise floor: ratios from {format_floor(floor)} are noise",
                }
            )
        for row in of_program.iter_rows(named=True):
            place = layout.places.get((row["program"], row["manager"]))
            if place is None:
                continue
            name = shortened(visible(row["manager"]))
            is_baseline = row["verdict"] == "baseline"
            ratio = 1.0 if is_baseline else _finite(row["ratio"])
            if ratio is None:
                empty.append({"y": place, "text": "no data", "tip": f"{name}: no data"})
                continue
            low = ratio if is_baseline else _finite(row["ratio_low"]) or ratio
            high = ratio if is_baseline else _finite(row["ratio_high"]) or ratio
            bounds += [low, high, ratio]
            colour, filled = _tone(row["verdict"])
            points.append(
                {
                    "y": place,
                    "ratio": ratio,
                    "low": low,
                    "high": high,
                    "colour": colour,
                    "fill": colour if filled else PAGE,
                    "text": "baseline" if is_baseline else ratio_text(ratio),
                    "tip": f"{name}: the baseline"
                    if is_baseline
                    else f"{name}: {ratio_text(ratio)} "
                    f"(95% interval {ratio_text(low)} to {ratio_text(high)}), {row['verdict']}",
                }
            )
    return _Intervals(bands, points, empty, bounds)


def _interval_layers(drawn: _Intervals, layout: Layout, x: Spec, *, named: bool) -> list[Spec]:
    """``named`` rows have names beside them; others only where panels are not side by side."""
    y = layout.axis()
    points = drawn.points
    return [
        layer(
            {"type": "rect", "color": BAND},
            drawn.bands,
            x=measure("low", x),
            x2={"field": "high"},
            y=measure("top", y),
            y2={"field": "bottom"},
        ),
        *layout.furniture(y, always=named),
        layer(
            {"type": "rule", "color": MUTED, "strokeDash": [2, 2], "aria": False},
            [{"one": 1.0}],
            x=measure("one", x),
        ),
        layer(
            {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round", "aria": False},
            points,
            x=measure("low", x),
            x2={"field": "high"},
            y=measure("y", y),
            stroke=as_is("colour"),
        ),
        layer(
            {"type": "point", "size": 70, "strokeWidth": 2, "opacity": 1},
            points,
            x=measure("ratio", x),
            y=measure("y", y),
            stroke=as_is("colour"),
            fill=as_is("fill"),
        ),
        right_texts([*points, *drawn.empty], y),
    ]


def _tone(verdict: str) -> tuple[str, bool]:
    return {"lower": (LOWER, True), "higher": (HIGHER, True), "baseline": (INK, False)}.get(
        verdict, (SAME, False)
    )


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, float) and math.isfinite(value) else None
