"""Times by percentile, under each manager."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tare.base.libraries import pl
from tare.base.text import shortened, visible
from tare.base.units import format_seconds
from tare.report.figures.marks import SERIES, Spec, layer, measure, params, scale_for
from tare.report.model import Figure

_HEIGHT = 300
_NAME = 40


@dataclass(frozen=True)
class Percentiles:
    """A figure of the metrics ``of``, each with its percentile; ``repeated`` are what the medians
    and intervals are over."""

    identifier: str
    title: str
    of: Mapping[str, float]
    repeated: str


def percentile_figure(
    summary: pl.DataFrame, managers: Sequence[str], percentiles: Percentiles
) -> Figure | None:
    """Median times against the percentile, with their 95% intervals. The axis gives each nine the
    same room, as HdrHistogram's do."""
    measured = {*summary.filter(pl.col("median").is_not_null())["metric"]}
    shown = {
        metric: percent
        for metric, percent in percentiles.of.items()
        if percent < 100 and metric in measured
    }
    if len(shown) < 2:
        return None
    rows = [
        {
            "name": short_name(row["manager"]),
            "x": _nines(shown[row["metric"]]),
            **{bound: row[bound] for bound in ("median", "low", "high")},
        }
        for row in summary.filter(pl.col("metric").is_in(list(shown))).iter_rows(named=True)
        if row["median"]
    ]
    if not rows:
        return None
    scale = scale_for("s", min(row["median"] for row in rows))
    for row in rows:
        row["tip"] = f"{row['name']}: {format_seconds(row['median'])}"
        for bound in ("median", "low", "high"):
            row[bound] /= scale.divisor
    ticks = [_nines(percent) for percent in shown.values()]
    names = {round(_nines(percent), 3): f"p{percent:g}" for percent in shown.values()}
    x: Spec = {
        "axis": {
            "title": None,
            "values": ticks,
            "labelExpr": labels_at(names),
            "grid": False,
        },
        "scale": {"domain": [min(ticks) - 0.1, max(ticks) + 0.1], "nice": False},
    }
    y: Spec = {
        "axis": {"title": f"latency{scale.bracketed}", "tickCount": 5},
        "scale": {"type": "log", "nice": False},
    }
    spec = {
        "params": params(),
        "height": _HEIGHT,
        "layer": intervals_joined(rows, x, y, colours(managers)),
    }
    return Figure(
        percentiles.identifier,
        percentiles.title,
        f"Dots: medians over the {percentiles.repeated}; lines: their 95% intervals. Both axes are "
        "logarithmic: each further nine takes the same room.",
        spec,
    )


def intervals_joined(rows: Sequence[Spec], x: Spec, y: Spec, colour: Spec) -> list[Spec]:
    """Layers: a dot for each row, the interval around it, and lines from dot to dot."""
    at = {"x": measure("x", x), "y": measure("median", y), "color": colour}
    return [
        layer({"type": "line", "strokeWidth": 1.6, "aria": False}, rows, **at),
        layer(
            {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6, "aria": False},
            rows,
            x=measure("x", x),
            y=measure("low", y),
            y2={"field": "high"},
            color=colour,
        ),
        layer({"type": "point", "filled": True, "size": 40, "opacity": 1}, rows, **at),
    ]


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def labels_at(names: Mapping[float, str]) -> str:
    """An expression of Vega that gives ticks their names."""
    return (
        "".join(
            f"abs(datum.value - {place:g}) < 0.01 ? '{name}' : " for place, name in names.items()
        )
        + "''"
    )


def short_name(name: str) -> str:
    """Of a manager, for a legend."""
    return shortened(visible(name), _NAME)


def colours(managers: Sequence[str]) -> Spec:
    """One for each manager, by the field ``name``."""
    names = [short_name(name) for name in managers]
    return {
        "field": "name",
        "type": "nominal",
        "scale": {
            "domain": names,
            "range": [SERIES[number % len(SERIES)] for number in range(len(names))],
        },
        "legend": {"title": None, "columns": {"expr": "narrow ? 2 : 5"}, "symbolType": "circle"},
    }
