"""Figures of costs against the size of a heap: curves, points beside them, and a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.text import shortened, visible
from tare.records.summary import Row
from tare.report.figures.marks import (
    INK,
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

_PANEL_HEIGHT = 340
_ASSUMED_WIDTH = {False: 440.0, True: 288.0}
"""Of a panel, by ``narrow``, for which its labels are placed."""
_DIFFERENT = ("lower", "higher")


@dataclass(frozen=True)
class Mark:
    """A row of a summary at a heap ``across``: on the curve of ``name``, or a point by itself."""

    name: str
    across: float
    row: Row
    is_curve: bool


def curves_spec(
    panels: Sequence[tuple[str, Sequence[Mark]]],
    limit: float | None,
    titles: tuple[str, str],
    of: str = "the most bytes alive",
) -> Spec | None:
    """Ratios with their intervals against sizes, in a panel each; ``limit`` is a size that is drawn
    as a line. None where there is nothing to draw. ``titles`` are those of the axes, and ``of``
    is what sizes are multiples of."""
    marks = [mark for _, found in panels for mark in found]
    if not marks:
        return None
    names = list(dict.fromkeys(mark.name for mark in marks if mark.is_curve))
    x = ratio_axis(
        [*(mark.across for mark in marks), *([limit] if limit else [])], titles[0], spare=0.06
    )
    bounds = [mark.row[name] for mark in marks for name in ("ratio", "ratio_low", "ratio_high")]
    y = ratio_axis([1.0, *bounds], titles[1], spare=0.06)
    specs = [
        {"title": {"text": heading, "anchor": "start"}} | _panel(found, names, x, y, limit, of)
        for heading, found in panels
    ]
    return {"params": params(), "concat": specs, "columns": 2}


def _panel(
    marks: Sequence[Mark],
    names: Sequence[str],
    x: Spec,
    y: Spec,
    limit: float | None,
    of: str,
) -> Spec:
    drawn = [_drawn(mark, names, of) for mark in marks]
    curves = [one for one, mark in zip(drawn, marks, strict=True) if mark.is_curve]
    points = [one for one, mark in zip(drawn, marks, strict=True) if not mark.is_curve]
    labels = [
        label | {"narrow": narrow}
        for narrow in (False, True)
        for label in place_labels(
            [(mark.name, mark.across, mark.row["ratio"]) for mark in marks if not mark.is_curve],
            x["scale"],
            y["scale"],
            (_ASSUMED_WIDTH[narrow], _PANEL_HEIGHT),
            NARROW_LABEL if narrow else WIDE_LABEL,
        )
    ]
    at = {"x": measure("across", x), "y": measure("ratio", y)}
    dashed = {"type": "rule", "color": MUTED, "strokeDash": [2, 2], "aria": False}
    layers = [
        layer(dashed, [{"one": 1.0}], y=measure("one", y)),
        layer(
            {"type": "line", "strokeWidth": 1.6, "opacity": 0.8, "aria": False},
            curves,
            **at,
            color={
                "field": "name",
                "type": "nominal",
                "scale": {
                    "domain": [_short(name) for name in names],
                    "range": [_colour(name, names) for name in names],
                },
                "legend": {
                    "title": None,
                    "columns": {"expr": "narrow ? 2 : 5"},
                    "symbolType": "circle",
                },
            },
        ),
        layer(
            {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6, "aria": False},
            drawn,
            x=measure("across", x),
            y=measure("low", y),
            y2={"field": "high"},
            stroke=as_is("colour"),
        ),
        *(
            layer(
                {"type": "point", "size": size, "shape": shape, "strokeWidth": 2, "opacity": 1},
                rows,
                **at,
                stroke=as_is("colour"),
                fill=as_is("fill"),
            )
            for shape, size, rows in (("circle", 40, curves), ("square", 70, points))
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
            x=measure("across", x),
            y=measure("upwards", y),
            text={"field": "text"},
        )
        | {"transform": ONLY_THIS_WIDTH},
    ]
    if limit:
        line = {"limit": limit, "tip": f"the minimum heap of any manager: {ratio_text(limit)}"}
        broken = {"type": "rule", "color": INK, "strokeDash": [6, 4], "strokeWidth": 1.5}
        layers.insert(0, layer(broken, [line], x=measure("limit", x)))
    return {"height": _PANEL_HEIGHT, "layer": layers}


def _drawn(mark: Mark, names: Sequence[str], of: str) -> Spec:
    row = mark.row
    colour = _colour(mark.name, names) if mark.is_curve else INK
    filled = row["verdict"] in _DIFFERENT
    return {
        "name": _short(mark.name),
        "across": mark.across,
        "ratio": row["ratio"],
        "low": row["ratio_low"],
        "high": row["ratio_high"],
        "colour": colour,
        "fill": colour if filled else PAGE,
        "tip": f"{_short(mark.name)}, {mark.across:.3g} times {of}: "
        f"{ratio_text(row['ratio'])} (95% interval {ratio_text(row['ratio_low'])} to "
        f"{ratio_text(row['ratio_high'])}), {row['verdict']}",
    }


def _colour(name: str, names: Sequence[str]) -> str:
    return SERIES[list(names).index(name) % len(SERIES)]


def _short(name: str) -> str:
    return shortened(visible(name), 40)
