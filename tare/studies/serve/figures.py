"""The figure of services: memory by phase."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from tare.base.units import format_bytes, format_seconds
from tare.records.summary import Row
from tare.report.figures.marks import (
    LINE,
    WASH,
    Spec,
    layer,
    measure,
    params,
    scale_for,
)
from tare.report.figures.percentiles import colours, intervals_joined, labels_at, short_name
from tare.report.model import Figure
from tare.studies.serve.details import Phase, Served

_HEIGHT = 300
_POINTS_A_PHASE = 60


def memory_figure(typical: Mapping[str, Served]) -> Figure | None:
    """Resident memory through the phases of one start of each manager; a phase has the same width
    under all, however long it took."""
    points = [
        (short_name(name), x, number)
        for name, served in typical.items()
        for x, number in _line(served)
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
            "labelExpr": labels_at(names),
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
                color=colours([*typical]),
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


def rates_figure(found: Mapping[str, Sequence[tuple[float, Row]]], title: str) -> Figure | None:
    """The latency ``title`` against the rate, with its intervals."""
    rows = [
        {
            "name": short_name(name),
            "x": rate,
            **{bound: row[bound] for bound in ("median", "low", "high")},
            "tip": f"{short_name(name)}, {rate:g}/s: {format_seconds(row['median'])}",
        }
        for name, points in found.items()
        for rate, row in points
    ]
    if not rows:
        return None
    scale = scale_for("s", min(float(row["median"]) for row in rows))
    for row in rows:
        for bound in ("median", "low", "high"):
            row[bound] /= scale.divisor
    x: Spec = {
        "axis": {
            "title": "requests due in a second",
            "values": sorted({row["x"] for row in rows}),
            "format": "~s",
            "grid": False,
        },
        "scale": {"type": "log", "nice": False, "padding": 20},
    }
    y: Spec = {
        "axis": {"title": f"{title}{scale.bracketed}", "tickCount": 5},
        "scale": {"type": "log", "nice": False},
    }
    spec = {
        "params": params(),
        "height": _HEIGHT,
        "layer": intervals_joined(rows, x, y, colours([*found])),
    }
    return Figure(
        "latency-by-rate",
        "Latency by rate",
        "Dots: medians over the starts; lines: their 95% intervals. Both axes are logarithmic.",
        spec,
    )
