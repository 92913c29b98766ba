"""The front of time and memory: everything that was tried, and what was confirmed of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.text import shortened, visible
from tare.report.figures.marks import (
    INK,
    LOWER,
    MUTED,
    NARROW_LABEL,
    ONLY_THIS_WIDTH,
    PAGE,
    SERIES,
    WIDE_LABEL,
    Spec,
    as_is,
    layer,
    measure,
    params,
    ratio_axis,
    ratio_text,
)
from tare.report.labels import LINE_HEIGHT, place_labels

_HEIGHT = 380
_ASSUMED_WIDTH = {False: 760.0, True: 288.0}
"""Of the panel, by ``narrow``, for which its labels are placed."""
_MOST_SHOWN = 3.0
"""What takes more times as much as the baseline is drawn at the edge."""


@dataclass(frozen=True)
class Tried:
    """Ratios to the baseline, of time and of memory."""

    name: str
    time: float
    memory: float


@dataclass(frozen=True)
class Confirmed(Tried):
    """With the bounds of their intervals; ``is_better``: it is an answer."""

    times: tuple[float, float]
    memories: tuple[float, float]
    is_better: bool


def front_spec(
    tried: Sequence[Tried], front: Sequence[Tried], confirmed: Sequence[Confirmed], baseline: str
) -> Spec:
    """Time across, memory upwards; dots for what was tried, a line through the best of it, and what
    was confirmed with its intervals and its name."""
    dots = [_dot(each) for each in tried]
    steps = [_dot(each) for each in front]
    points = [
        {
            **_dot(each),
            "low": _shown(each.times[0]),
            "high": _shown(each.times[1]),
            "bottom": _shown(each.memories[0]),
            "top": _shown(each.memories[1]),
            "colour": LOWER if each.is_better else INK,
            "fill": LOWER if each.is_better else PAGE,
        }
        for each in confirmed
    ]
    base = [{"across": 1.0, "upwards": 1.0, "tip": f"{visible(baseline)}: the baseline"}]
    seen = [*dots, *points, *base]
    bounds = [[each["low"], each["high"]] for each in points]
    heights = [[each["bottom"], each["top"]] for each in points]
    x = ratio_axis(
        [*(each["across"] for each in seen), *bounds], f"time, relative to {visible(baseline)}"
    )
    y = ratio_axis(
        [*(each["upwards"] for each in seen), *heights],
        f"peak memory, relative to {visible(baseline)}",
    )
    at = {"x": measure("across", x), "y": measure("upwards", y)}
    rule = {"type": "rule", "strokeWidth": 1.5, "aria": False}
    reference = {"type": "rule", "color": MUTED, "strokeDash": [2, 2], "aria": False}
    names = [(each.name, _shown(each.time), _shown(each.memory)) for each in confirmed]
    labels = [
        label | {"narrow": narrow}
        for narrow in (False, True)
        for label in place_labels(
            [*names, (visible(baseline), 1.0, 1.0)],
            x["scale"],
            y["scale"],
            (_ASSUMED_WIDTH[narrow], _HEIGHT),
            NARROW_LABEL if narrow else WIDE_LABEL,
        )
    ]
    return {
        "params": params(),
        "height": _HEIGHT,
        "layer": [
            layer(reference, base, x=measure("across", x)),
            layer(reference, base, y=measure("upwards", y)),
            layer(
                {"type": "line", "interpolate": "step-after", "color": SERIES[0], "aria": False},
                steps,
                **at,
            ),
            layer({"type": "circle", "size": 45, "opacity": 0.55, "color": SERIES[0]}, dots, **at),
            layer(
                rule,
                points,
                x=measure("low", x),
                x2={"field": "high"},
                y=at["y"],
                color=as_is("colour"),
            ),
            layer(
                rule,
                points,
                x=at["x"],
                y=measure("bottom", y),
                y2={"field": "top"},
                color=as_is("colour"),
            ),
            layer(
                {"type": "point", "shape": {"expr": "datum.leader"}, "size": 4, "strokeWidth": 1}
                | {"color": MUTED, "aria": False},
                labels,
                **at,
            )
            | {"transform": ONLY_THIS_WIDTH},
            layer(
                {"type": "point", "size": 90, "strokeWidth": 2, "opacity": 1},
                points,
                **at,
                fill=as_is("fill"),
                stroke=as_is("colour"),
            ),
            layer(
                {"type": "point", "shape": "diamond", "size": 90, "color": INK, "filled": True},
                base,
                **at,
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


def _dot(each: Tried) -> Spec:
    name = shortened(visible(each.name))
    return {
        "across": _shown(each.time),
        "upwards": _shown(each.memory),
        "tip": f"{name}: time {ratio_text(each.time)}, memory {ratio_text(each.memory)}",
    }


def _shown(ratio: float) -> float:
    return min(ratio, _MOST_SHOWN)
