"""Figures of measurements, as Vega-Lite specifications that carry the data they draw.

Everything that would grow with the number of runs is reduced in Polars first: a specification
stays small whatever it summarises. Only the width is left to the page, which also sets the
parameter ``narrow``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tare.base.libraries import pl
from tare.base.text import shortened, visible
from tare.report.figures.intervals import forest_figure, interval_figure
from tare.report.figures.marks import (
    INK,
    MUTED,
    NARROW_LABEL,
    ONLY_THIS_WIDTH,
    PAGE,
    RATIO_LABEL,
    SERIES,
    TIMES,
    WASH,
    WIDE_LABEL,
    Scale,
    Spec,
    as_is,
    layer,
    measure,
    params,
    ratio_axis,
    ratio_text,
    right_texts,
    scale_for,
    title_of,
    unit_of,
)
from tare.report.figures.rows import Layout, lay_out, programs_that_fit
from tare.report.labels import LINE_HEIGHT, place_labels
from tare.report.model import Figure

MOST_PANELS = 6
FOREST = ("processor_seconds", "wall_seconds", "peak_resident_bytes")
MOST_DOTS_A_ROW, MOST_DOTS = 60, 1200
"""Above these, runs are drawn as quantiles: more dots hide one another and fill the page."""
ORDER_BUCKETS, FEWEST_IN_BUCKET = 40, 5
PANEL_HEIGHT = 320
ASSUMED_PANEL = {False: 455.0, True: 288.0}
"""Width of a panel, by ``narrow``, for which its labels are placed."""
_BOUNDS = ("ratio", "ratio_low", "ratio_high")


def comparison_figures(
    measurements: pl.DataFrame, summary: pl.DataFrame, baseline: str
) -> list[Figure]:
    """What a comparison of managers shows: the answer first, then what it rests on."""
    time, memory = "wall_seconds", "peak_resident_bytes"
    measured = set(summary.filter(pl.col("median").is_not_null())["metric"])
    figures: list[Figure] = []
    shown = [metric for metric in FOREST if metric in measured]
    if summary["program"].n_unique() == 1 and shown:
        figures.append(forest_figure(summary, shown, baseline))
    else:
        figures += [interval_figure(summary, m, baseline) for m in (time, memory) if m in measured]
    behind: list[Figure] = []
    if {time, memory} <= measured:
        behind.append(scatter_figure(summary, baseline, time, memory))
    if time in measured:
        behind.append(distribution_figure(measurements, time, baseline))
        behind.append(order_figure(measurements, time))
    return [*figures, *(replace(figure, essential=False) for figure in behind)]


def distribution_figure(
    measurements: pl.DataFrame, metric: str, baseline: str | None = None
) -> Figure:
    """Every run of each manager: dots and a median tick, or quantiles when there are many runs.

    ``measurements`` are tidy rows in the metric's unit. One program is drawn in that unit; several
    programs share one axis, relative to the baseline's median (without a baseline, to the median
    of all the program's runs).
    """
    rows = measurements.filter(pl.col("metric") == metric).with_columns(
        pl.when(pl.col("value").is_finite()).then(pl.col("value")).alias("value")
    )
    relative = rows["program"].n_unique() > 1
    unit = unit_of(rows, metric)
    if relative:
        own = pl.col("value").filter(
            pl.col("manager") == baseline if baseline is not None else pl.lit(True)
        )
        median = own.median().over("program")
        rows = rows.with_columns(pl.when(median > 0).then(pl.col("value") / median).alias("value"))
        scale = Scale(1.0, TIMES, "")
    else:
        scale = scale_for(unit, rows["value"].median())
    rows = rows.with_columns(pl.col("value") / scale.divisor)
    rows, cut = programs_that_fit(rows, "value")
    quantiles = rows.group_by("program", "manager", maintain_order=True).agg(
        pl.col("value").count().alias("runs"),
        pl.col("value").median().alias("median"),
        *(
            pl.col("value").quantile(share, "linear").alias(name)
            for name, share in (("p5", 0.05), ("q1", 0.25), ("q3", 0.75), ("p95", 0.95))
        ),
        pl.col("status").filter(pl.col("status") != "ok").unique().sort().alias("statuses"),
    )
    layout = lay_out(quantiles, "median", headings=relative)
    runs = quantiles["runs"]
    dots = not _integer(runs.max()) > MOST_DOTS_A_ROW and _integer(runs.sum()) <= MOST_DOTS
    boxes: list[Spec] = []
    empty: list[Spec] = []
    for row in quantiles.iter_rows(named=True):
        place = layout.places[row["program"], row["manager"]]
        name = shortened(visible(row["manager"]))
        if row["median"] is None:
            reason = ", ".join(map(str, row["statuses"])) or "no data"
            empty.append({"y": place, "text": reason, "tip": f"{name}: {reason}"})
            continue
        boxes.append(
            {key: row[key] for key in ("median", "p5", "q1", "q3", "p95")}
            | {
                "y": place,
                "text": scale.text(row["median"]),
                "tip": f"{name}: median {scale.text(row['median'])} of {row['runs']} runs; half "
                f"of them from {scale.text(row['q1'])} to {scale.text(row['q3'])}",
            }
        )
    y = layout.axis()
    label = f"{title_of(metric)}, relative to " + (
        f"the median of {shortened(visible(baseline), 40)}" if baseline else "the program's median"
    )
    x: Spec = {
        "scale": {"zero": False, "nice": True, "padding": 8},
        "axis": {
            "title": label if relative else f"{title_of(metric)}{scale.bracketed}",
            "tickCount": {"expr": "narrow ? 3 : 5"},
            "orient": layout.side(),
            "labelExpr": RATIO_LABEL if relative else "datum.label",
        },
    }
    if dots:
        drawn = _dots(rows, layout, scale)
        marks = [
            layer(
                {"type": "circle", "size": 26, "opacity": 0.55, "color": SERIES[0]},
                drawn,
                x=measure("value", x),
                y=measure("y", y),
            )
        ]
        caption = "Each dot is one run (shifted up or down so that dots do not overlap)"
    else:
        marks = [
            layer(
                {"type": mark, "color": SERIES[0], "aria": False} | style,
                boxes,
                x=measure(low, x),
                x2={"field": high},
                y=measure("y", y),
            )
            for mark, low, high, style in (
                ("rule", "p5", "p95", {"strokeWidth": 1.5}),
                ("rule", "q1", "q3", {"strokeWidth": 9, "opacity": 0.6}),
            )
        ]
        caption = "Thin line: nine tenths of the runs; thick line: the middle half of them"
    layers = [
        *layout.furniture(y),
        *marks,
        layer(
            {"type": "tick", "thickness": 2.5, "size": 18, "color": INK},
            boxes,
            x=measure("median", x),
            y=measure("y", y),
        ),
        right_texts([*boxes, *empty], y),
    ]
    return Figure(
        f"distribution-{metric}",
        f"{title_of(metric).capitalize()}: every run"
        if dots
        else f"{title_of(metric).capitalize()}",
        f"{caption}; tick and figure: the median.{cut}",
        layout.spec(layers),
    )


def scatter_figure(
    summary: pl.DataFrame,
    baseline: str,
    across: str = "wall_seconds",
    upwards: str = "peak_resident_bytes",
) -> Figure:
    """Two ratios to the baseline against one another: what one costs in the coin of the other.

    ``summary`` as for ``interval_figure``. A panel a program; for more programs than fit, one panel
    of geometric means.
    """
    wanted = ["program", "manager", "ratio", "ratio_low", "ratio_high", "verdict"]
    sides = []
    for metric in (across, upwards):
        side = summary.filter(pl.col("metric") == metric).select(wanted)
        is_baseline = pl.col("verdict") == "baseline"
        sides.append(
            side.with_columns(
                pl.when(is_baseline).then(1.0).otherwise(pl.col(name)).alias(name)
                for name in ("ratio", "ratio_low", "ratio_high")
            )
        )
    points = sides[0].join(sides[1], on=["program", "manager"], suffix="_up", maintain_order="left")
    points = points.filter((pl.col("ratio") > 0) & (pl.col("ratio_up") > 0))
    note = ""
    if points["program"].n_unique() > MOST_PANELS:
        count = points["program"].n_unique()
        note = f" Geometric means over {count} programs; the tables have each program."
        points = points.group_by("manager", maintain_order=True).agg(
            pl.lit("geometric mean").alias("program"),
            *(pl.col(name).log().mean().exp() for name in ("ratio", "ratio_up")),
            *(
                pl.lit(None, pl.Float64).alias(f"{bound}{side}")
                for bound in ("ratio_low", "ratio_high")
                for side in ("", "_up")
            ),
        )
    titles = [title_of(across), title_of(upwards)]
    against = f"relative to {shortened(visible(baseline), 40)}"
    axes = [
        ratio_axis(
            [1.0, *(points[f"{bound}{side}"].drop_nulls().to_list() for bound in _BOUNDS)],
            f"{title}, {against}",
            spare=0.12,
        )
        for side, title in zip(("", "_up"), titles, strict=True)
    ]
    panels = [
        _scatter_panel(points.filter(pl.col("program") == program), axes, titles)
        for program in points["program"].unique(maintain_order=True)
    ]
    for panel, program in zip(panels, points["program"].unique(maintain_order=True), strict=True):
        if len(panels) > 1:
            panel["title"] = {"text": shortened(visible(program), 50), "anchor": "start"}
    spec: Spec = {"params": params()}
    if len(panels) == 1:
        spec |= panels[0]
    else:
        spec |= {"concat": panels or [_scatter_panel(points, axes, titles)], "columns": 2}
    return Figure(
        f"scatter-{upwards}-{across}",
        f"{titles[1].capitalize()} against {titles[0]}",
        "The shaded corner is better than the baseline in both. Thin crosses: 95% intervals."
        + note,
        spec,
    )


def order_figure(measurements: pl.DataFrame, metric: str) -> Figure:
    """Each run, relative to its own manager's median, in the order of measurement.

    Managers are interleaved, so that what all of them share over time is the machine: a line that
    wanders shows heat, another tenant or a filling disk.
    """
    rows = (
        measurements.filter((pl.col("metric") == metric) & pl.col("value").is_finite())
        .with_columns(pl.col("value").median().over("program", "manager").alias("own"))
        .filter(pl.col("own") > 0)
        .select("program", "manager", "order", (pl.col("value") / pl.col("own")).alias("ratio"))
        .drop_nulls()
        .sort("order")
    )
    span = _integer(rows["order"].max()) - _integer(rows["order"].min()) + 1
    width = max(FEWEST_IN_BUCKET, math.ceil(span / ORDER_BUCKETS))
    line = (
        rows.group_by((pl.col("order") // width).alias("bucket"))
        .agg(
            pl.col("order").mean(),
            pl.col("ratio").median(),
            pl.col("ratio").quantile(0.05).alias("low"),
            pl.col("ratio").quantile(0.95).alias("high"),
            pl.len().alias("runs"),
        )
        .sort("bucket")
    )
    dots: list[Spec] = []
    if rows.height <= MOST_DOTS:
        dots = [
            {
                "order": row["order"],
                "ratio": row["ratio"],
                "tip": f"run {row['order']}, {shortened(visible(row['manager']))}"
                f" under {shortened(visible(row['program']), 40)}: "
                f"{row['ratio'] - 1:+.1%} from its manager's median",
            }
            for row in rows.iter_rows(named=True)
        ]
    buckets = [
        {key: row[key] for key in ("order", "ratio", "low", "high")}
        | {"tip": f"about run {row['order']:.0f}: median {row['ratio'] - 1:+.1%}"}
        for row in line.iter_rows(named=True)
    ]
    x: Spec = {
        "scale": {"zero": False, "nice": False, "padding": 6},
        "axis": {"title": "order of measurement", "tickMinStep": 1, "format": "d", "grid": False},
    }
    y: Spec = {
        "scale": {"zero": False},
        "axis": {
            "title": None,
            "labelExpr": "datum.value === 1 ? '0%' : format(datum.value - 1, '+.3~%')",
            "tickCount": 5,
        },
    }
    dotted = {"type": "circle", "size": 26, "opacity": 0.5, "color": SERIES[0]}
    spread = {"type": "area", "opacity": 0.25, "color": SERIES[0], "aria": False}
    place = {"x": measure("order", x), "y": measure("ratio", y)}
    layers = [
        layer(dotted, dots, **place)
        if dots
        else layer(
            spread,
            buckets,
            x=measure("order", x),
            y=measure("low", y),
            y2={"field": "high"},
        ),
        layer(
            {"type": "rule", "color": MUTED, "strokeDash": [2, 2], "aria": False},
            [{"one": 1.0}],
            y=measure("one", y),
        ),
        layer({"type": "line", "strokeWidth": 2, "color": INK, "aria": False}, buckets, **place),
    ]
    caption = "Dots: single runs" if dots else "Shaded: nine tenths of the runs"
    return Figure(
        f"order-{metric}",
        f"{title_of(metric).capitalize()} in the order of measurement",
        f"Every run against the median of its manager. {caption}; line: median of neighbouring "
        "runs. A flat line means that the speed of the machine stayed the same.",
        {"params": params(), "height": 220, "layer": layers},
    )


def _dots(rows: pl.DataFrame, layout: Layout, scale: Scale) -> list[Spec]:
    golden = 0.618034
    return [
        {
            "value": row["value"],
            "y": round(layout.places[row["program"], row["manager"]] + 12 * (turn % 1 - 0.5), 1),
            "tip": f"{shortened(visible(row['manager']))}, run {row['invocation']}: "
            f"{scale.text(row['value'])}",
        }
        for number, row in enumerate(rows.filter(pl.col("value").is_not_null()).to_dicts())
        if (turn := number * golden) >= 0
    ]


def _scatter_panel(points: pl.DataFrame, axes: Sequence[Spec], titles: Sequence[str]) -> Spec:
    x, y = axes
    drawn: list[Spec] = []
    for row in points.iter_rows(named=True):
        name = shortened(visible(row["manager"]))
        is_baseline = row.get("verdict") == "baseline"
        drawn.append(
            {
                "manager": row["manager"],
                "across": row["ratio"],
                "upwards": row["ratio_up"],
                "across_low": row["ratio_low"] or row["ratio"],
                "across_high": row["ratio_high"] or row["ratio"],
                "upwards_low": row["ratio_low_up"] or row["ratio_up"],
                "upwards_high": row["ratio_high_up"] or row["ratio_up"],
                "fill": PAGE if is_baseline else SERIES[0],
                "colour": INK if is_baseline else SERIES[0],
                "tip": f"{name}: {titles[0]} {ratio_text(row['ratio'])}, "
                f"{titles[1]} {ratio_text(row['ratio_up'])}",
            }
        )
    start_x, start_y = x["scale"]["domain"][0], y["scale"]["domain"][0]
    corner = [{"x": start_x, "y": start_y, "one": 1.0}]
    thin = {"type": "rule", "strokeWidth": 1, "opacity": 0.6, "aria": False}
    reference = {"type": "rule", "color": MUTED, "strokeDash": [2, 2], "aria": False}
    labels = [
        label | {"narrow": narrow}
        for narrow in (False, True)
        for label in place_labels(
            [(point["manager"], point["across"], point["upwards"]) for point in drawn],
            x["scale"],
            y["scale"],
            (ASSUMED_PANEL[narrow], PANEL_HEIGHT),
            NARROW_LABEL if narrow else WIDE_LABEL,
        )
    ]
    at = {"x": measure("across", x), "y": measure("upwards", y)}
    return {
        "height": PANEL_HEIGHT,
        "layer": [
            layer(
                {"type": "rect", "color": WASH, "aria": False},
                corner,
                x=measure("x", x),
                x2={"field": "one"},
                y=measure("y", y),
                y2={"field": "one"},
            ),
            layer(
                {
                    "type": "text",
                    "text": "better ↙",
                    "align": "left",
                    "dx": 7,
                    "dy": -9,
                    "color": MUTED,
                    "aria": False,
                },
                corner,
                x=measure("x", x),
                y=measure("y", y),
            ),
            layer(reference, corner, x=measure("one", x)),
            layer(reference, corner, y=measure("one", y)),
            layer(
                thin,
                drawn,
                x=measure("across_low", x),
                x2={"field": "across_high"},
                y=measure("upwards", y),
                color=as_is("colour"),
            ),
            layer(
                thin,
                drawn,
                x=measure("across", x),
                y=measure("upwards_low", y),
                y2={"field": "upwards_high"},
                color=as_is("colour"),
            ),
            layer(
                {
                    "type": "point",
                    "shape": {"expr": "datum.leader"},
                    "size": 4,
                    "strokeWidth": 1,
                    "color": MUTED,
                    "aria": False,
                },
                labels,
                **at,
            )
            | {"transform": ONLY_THIS_WIDTH},
            layer(
                {"type": "point", "size": 70, "strokeWidth": 2, "opacity": 1},
                drawn,
                **at,
                fill=as_is("fill"),
                stroke=as_is("colour"),
            ),
            layer(
                {
                    "type": "text",
                    "dx": {"expr": "datum.dx"},
                    "dy": {"expr": "datum.dy"},
                    "align": {"expr": "datum.align"},
                    "baseline": "middle",
                    "lineHeight": LINE_HEIGHT,
                    "color": INK,
                    "aria": False,
                },
                labels,
                **at,
                text={"field": "text"},
            )
            | {"transform": ONLY_THIS_WIDTH},
        ],
    }


def _integer(value: Any) -> int:
    return int(value) if isinstance(value, int) else 0
