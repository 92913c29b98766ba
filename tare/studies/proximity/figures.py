"""Figures of events by their distance in time to the collection before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tare.base.text import shortened, visible
from tare.report.figures.marks import INK, MUTED, SERIES, Spec, layer, measure, params, ratio_axis
from tare.report.model import Figure
from tare.studies.proximity.details import Grouped, Spread

MOST_PANELS = 6
MOST_DRAWN = 200
"""Groups are averaged down to this many points a panel: more hide one another."""
_HEIGHT = 220
_NAMES = {"all": MUTED, "best": SERIES[0], "worst": SERIES[1]}


def groups_figure(groups: Mapping[str, Grouped]) -> Figure | None:
    """By manager, groups of events in the order of their distances; None without any."""
    panels = []
    shown = {name: _drawn(each) for name, each in list(groups.items())[:MOST_PANELS]}
    if not shown:
        return None
    bounds = [value for rows in shown.values() for row in rows for value in (row["y"], row["own"])]
    y = ratio_axis([1.0, *bounds], "mean wall time")
    for name, rows in shown.items():
        x = {
            "scale": {"domain": [0, 100], "nice": False},
            "axis": {"title": "percentile of distance to the collection", "grid": False},
        }
        layers = [
            layer(
                {"type": "line", "strokeWidth": 1.2, "color": colour, "aria": False},
                rows,
                x=measure("x", x),
                y=measure(field, y),
            )
            for field, colour in (("y", SERIES[0]), ("own", INK))
        ]
        panels.append(_panel(name, layers))
    return Figure(
        "proximity-groups",
        "Events by their distance to the collection before",
        "Groups of the same size, the closest on the left. Coloured: mean wall time, relative to "
        "the best group of all periods of the collector; dark: mean of the events, relative to "
        "their own medians. Events that a collection interrupted are left out, so long ones are "
        "missing on the right. First invocation.",
        {"params": params(), "concat": panels, "columns": 2},
    )


def _drawn(groups: Grouped) -> list[dict[str, Any]]:
    count = len(groups.wall)
    step = -(-count // MOST_DRAWN)
    rows = []
    for first in range(0, count, step):
        part = slice(first, first + step)
        wall, own = groups.wall[part], groups.relative[part]
        middle = (first + len(wall) / 2) / count * 100
        rows.append({"x": middle, "y": sum(wall) / len(wall), "own": sum(own) / len(own)})
    return rows


def densities_figure(extremes: Mapping[str, Spread]) -> Figure | None:
    """By manager, where the fastest and the slowest events lie; None without any."""
    panels = []
    for name, each in list(extremes.items())[:MOST_PANELS]:
        edges = each.edges
        rows = [
            {"x": (low + high) / 2, "share": share, "of": label}
            for label in _NAMES
            for low, high, share in zip(edges[:-1], edges[1:], each.density[label], strict=True)
        ]
        x = {
            "scale": {"domain": [edges[0], edges[-1]], "nice": False},
            "axis": {"title": "distance, relative to the median of the key", "grid": False},
        }
        y: Spec = {"scale": {"zero": True}, "axis": {"title": "share of the events", "format": "%"}}
        colour = {
            "field": "of",
            "type": "nominal",
            "scale": {"domain": list(_NAMES), "range": list(_NAMES.values())},
            "legend": {"title": None, "symbolType": "circle", "columns": 3},
        }
        line = {"type": "line", "interpolate": "step", "strokeWidth": 1.6, "aria": False}
        layers = [layer(line, rows, x=measure("x", x), y=measure("share", y), color=colour)]
        panels.append(_panel(name, layers))
    if not panels:
        return None
    return Figure(
        "proximity-densities",
        "Where the fastest and the slowest 5% of events lie",
        "How far events are from the collection before them, relative to the median distance of "
        "the events that do the same. If the curves coincide, the distance does not matter. First "
        "invocation.",
        {"params": params(), "concat": panels, "columns": 2},
    )


def _panel(name: str, layers: Sequence[Spec]) -> Spec:
    title = {"text": shortened(visible(name), 50), "anchor": "start"}
    return {"title": title, "height": _HEIGHT, "layer": list(layers)}
