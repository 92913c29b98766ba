"""Figures of what is held over time: stacked areas and lines in equal steps of a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.report.figures.ends import LEAST_SHARE, End, end_labels
from tare.report.figures.marks import (
    COUNT_LABEL,
    INK,
    PAGE,
    Scale,
    Spec,
    layer,
    measure,
    params,
    rounded,
)

ROOM = 1.05
"""Of the highest value, what the vertical scale shows."""
_HEIGHT = 260


@dataclass(frozen=True)
class Series:
    """``values`` has one number for each step; ``tip`` is what a reader sees on its mark."""

    name: str
    colour: str
    values: Sequence[float]
    tip: str


def profile_spec(
    scales: tuple[Scale, Scale],
    titles: tuple[str, str],
    step: float,
    *,
    areas: Sequence[Series] = (),
    lines: Sequence[Series] = (),
    mark: tuple[float, float, str] | None = None,
) -> Spec:
    """``areas`` stacked from the first on, under ``lines``, and a dot at ``mark`` (across, upwards,
    tip). ``scales`` and ``titles`` are those of the two axes; ``step`` is the width of one value.
    """
    across, upwards = scales
    x: Spec = {
        "axis": {
            "title": f"{titles[0]}{across.bracketed}",
            "tickCount": {"expr": "narrow ? 3 : 5"},
            "grid": False,
        },
        "scale": {"nice": False},
    }
    floor = [0.0] * len((areas or lines)[0].values)
    highest = [max(each.values) for each in lines]
    highest.append(max(map(sum, zip(*(area.values for area in areas), strict=True)), default=0.0))
    highest.append(mark[1] if mark else 0.0)
    most = max(*highest, upwards.divisor * 1e-9)
    y: Spec = {
        "axis": {"title": f"{titles[1]}{upwards.bracketed}", "tickCount": 5},
        "scale": {"domain": [0, rounded(ROOM * most / upwards.divisor)], "nice": False},
    }
    if not across.suffix:
        x["axis"]["labelExpr"] = COUNT_LABEL
    ends: list[End] = []
    layers: list[Spec] = []
    for area in areas:
        if max(area.values) < LEAST_SHARE * most:
            continue
        top = [low + value for low, value in zip(floor, area.values, strict=True)]
        rows = [
            {"x": place, "low": low, "high": high, "tip": area.tip}
            for place, low, high in zip(
                _edges(step / across.divisor, len(top)),
                _stepped(floor, upwards.divisor),
                _stepped(top, upwards.divisor),
                strict=True,
            )
        ]
        layers.append(
            layer(
                {"type": "area", "interpolate": "step-after", "opacity": 1, "color": area.colour},
                rows,
                x=measure("x", x),
                y=measure("low", y),
                y2={"field": "high"},
            )
        )
        ends.append(End(area.name, area.colour, (floor[-1] + top[-1]) / 2 / upwards.divisor))
        floor = top
    for line in lines:
        rows = [
            {"x": place, "y": value, "tip": line.tip}
            for place, value in zip(
                _edges(step / across.divisor, len(line.values)),
                _stepped(line.values, upwards.divisor),
                strict=True,
            )
        ]
        layers.append(
            layer(
                {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5}
                | {"color": line.colour},
                rows,
                x=measure("x", x),
                y=measure("y", y),
            )
        )
        ends.append(End(line.name, line.colour, line.values[-1] / upwards.divisor))
    if mark is not None:
        place, value, tip = mark
        layers.append(
            layer(
                {"type": "point", "size": 60, "strokeWidth": 2, "opacity": 1}
                | {"stroke": INK, "fill": PAGE},
                [{"x": place / across.divisor, "y": value / upwards.divisor, "tip": tip}],
                x=measure("x", x),
                y=measure("y", y),
            )
        )
    layers += end_labels(ends, y, _HEIGHT)
    return {"params": params(), "height": _HEIGHT, "layer": layers}


def _edges(step: float, count: int) -> list[float]:
    return [number * step for number in range(count + 1)]


def _stepped(values: Sequence[float], divisor: float) -> list[float]:
    """One value more, so that the last step is as wide as the others."""
    return [value / divisor for value in (*values, values[-1])]
