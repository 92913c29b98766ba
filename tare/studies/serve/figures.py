"""Figures of services: latencies by percentile, memory by phase."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from tare.base.libraries import pl
from tare.base.text import shortened, visible
from tare.base.units import format_bytes, format_seconds
from tare.report.figures.marks import (
    LINE,
    SERIES,
    WASH,
    Spec,
    layer,
    measure,
    params,
    scale_for,
)
from tare.report.model import Figure
from tare.studies.serve.details import Phase, Served
from tare.studies.serve.loads import PERCENTILES

_HEIGHT = 300
_POINTS_A_PHASE = 60
_NAME = 40


def latency_figure(
    summary: pl.DataFrame, managers: Sequence[str], metrics: Sequence[str]
) -> Figure | None:
    """Median latency over the starts against the percentile, with its 95% interval. The axis gives
    each nine the same room, as HdrHistogram's do."""
    shown = [metric for metric in metrics if PERCENTILES[metric] < 100]
    if len(shown) < 2:
        return None
    rows = [
        {
            "name": _short(row["manager"]),
            "x": _nines(PERCENTILES[row["metric"]]),
            **{bound: row[bound] for bound in ("median", "low", "high")},
        }
        for row in summary.filter(pl.col("metric").is_in(shown)).iter_rows(named=True)
        if row["median"]
    ]
    if not rows:
        return None
    scale = scale_for("s", min(row["median"] for row in rows))
    for row in rows:
        row["tip"] = f"{row['name']}: {format_seconds(row['median'])}"
        for bound in ("median", "low", "high"):
            row[bound] /= scale.divisor
    ticks = [_nines(PERCENTILES[metric]) for metric in shown]
    names = {round(_nines(PERCENTILES[m]), 3): f"p{PERCENTILES[m]:g}" for m in shown}
    x: Spec = {
        "axis": {
            "title": None,
            "values": ticks,
            "labelExpr": _named(names),
            "grid": False,
        },
        "scale": {"domain": [min(ticks) - 0.1, max(ticks) + 0.1], "nice": False},
    }
    y: Spec = {
        "axis": {"title": f"latency{scale.bracketed}", "tickCount": 5},
        "scale": {"type": "log", "nice": False},
    }
    colour = _colours(managers)
    at = {"x": measure("x", x), "y": measure("median", y), "color": colour}
    spec = {
        "params": params(),
        "height": _HEIGHT,
        "layer": [
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
        ],
    }
    return Figure(
        "latency",
        "Latency by percentile",
        "Dots: medians over the starts; lines: their 95% intervals. Both axes are logarithmic: "
        "each further nine takes the same room.",
        spec,
    )


def memory_figure(typical: Mapping[str, Served]) -> Figure | None:
    """Resident memory through the phases of one start of each manager; a phase has the same width
    under all, however long it took."""
    points = [
        (_short(name), x, number) for name, served in typical.items() for x, number in _line(served)
    ]
    if not points:
        return None
    scale = scale_for("B", float(max(number for _, _, number in points)))
    lines = [
        {
            "name": name,
            "x": x,
            "bytes": number / scale.divisor,
            "tip": f"{name}: {format_bytes(number)}",
        }
        for name, x, number in points
    ]
    phases = max((served.phases for served in typical.values()), key=len)
    names = {number + 0.5: _phase_name(phases, number) for number in range(len(phases))}
    x: Spec = {
        "axis": {
            "title": None,
            "values": list(names),
            "labelExpr": _named(names),
            "grid": False,
            "ticks": False,
        },
        "scale": {"domain": [0, len(phases)], "nice": False},
    }
    y: Spec = {
        "axis": {"title": f"resident memory{scale.bracketed}", "tickCount": 5},
        "scale": {"nice": True, "zero": True},
    }
    idle = [
        {"from": number, "to": number + 1}
        for number, phase in enumerate(phases)
        if phase.name == "idle"
    ]
    borders = [{"x": number} for number in range(1, len(phases))]
    spec = {
        "params": params(),
        "height": _HEIGHT,
        "layer": [
            layer(
                {"type": "rect", "color": WASH, "opacity": 1, "aria": False},
                idle,
                x=measure("from", x),
                x2={"field": "to"},
            ),
            layer({"type": "rule", "color": LINE, "aria": False}, borders, x=measure("x", x)),
            layer(
                {"type": "line", "strokeWidth": 1.8},
                lines,
                x=measure("x", x),
                y=measure("bytes", y),
                color=_colours([*typical]),
            ),
        ],
    }
    return Figure(
        "memory-by-phase",
        "Memory by phase",
        "Resident memory of one start of each manager, the one in the middle by memory when idle. "
        "Phases have the same width, however long they took; shaded: no load.",
        spec,
        wide=True,
    )


def _line(served: Served) -> list[tuple[float, float]]:
    """The last look at the memory before each of equally many moments of each phase."""
    times = [when for when, _ in served.memory]
    if not times:
        return []
    points = []
    for number, phase in enumerate(served.phases):
        for step in range(_POINTS_A_PHASE):
            part = (step + 0.5) / _POINTS_A_PHASE
            when = phase.start + part * (phase.end - phase.start)
            place = max(0, bisect_right(times, when) - 1)
            points.append((number + part, served.memory[place][1]))
    return points


def _phase_name(phases: Sequence[Phase], number: int) -> str:
    name = phases[number].name
    same = [other for other in range(len(phases)) if phases[other].name == name]
    return name if len(same) == 1 else f"{name} {same.index(number) + 1}"


def _nines(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def _named(names: Mapping[float, str]) -> str:
    """An expression of Vega that gives ticks their names."""
    return (
        "".join(
            f"abs(datum.value - {place:g}) < 0.01 ? '{name}' : " for place, name in names.items()
        )
        + "''"
    )


def _short(name: str) -> str:
    return shortened(visible(name), _NAME)


def _colours(managers: Sequence[str]) -> Spec:
    names = [_short(name) for name in managers]
    return {
        "field": "name",
        "type": "nominal",
        "scale": {
            "domain": names,
            "range": [SERIES[number % len(SERIES)] for number in range(len(names))],
        },
        "legend": {"title": None, "columns": {"expr": "narrow ? 2 : 5"}, "symbolType": "circle"},
    }
