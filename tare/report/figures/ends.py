"""Names of series at their ends, where a reader looks for them, in place of a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.report.figures.marks import INK, ONLY_THIS_WIDTH, Spec, layer, measure

LEAST_SHARE = 0.005
"""Of the highest: a series that never takes more cannot be seen."""
_LINE = 15.0
"""Pixels from one name to the next."""


@dataclass(frozen=True)
class End:
    """Where a series ends on the vertical scale; ``detail`` follows its name if there is room."""

    name: str
    colour: str
    at: float
    detail: str = ""


def end_labels(ends: Sequence[End], y: Spec, height: float) -> list[Spec]:
    """``y`` must have a domain from 0."""
    top = y["scale"]["domain"][1]
    places = _apart([height * (1 - end.at / top) for end in ends], height)
    rows = [
        {
            "y": top * (1 - place / height),
            "text": f"{end.name}  {end.detail}" if end.detail and not narrow else end.name,
            "colour": end.colour,
            "square": "■",
            "narrow": narrow,
        }
        for narrow in (False, True)
        for end, place in zip(ends, places, strict=True)
    ]
    style = {"type": "text", "align": "left", "baseline": "middle", "aria": False}
    at = {"x": {"value": "width"}, "y": measure("y", y)}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    return [
        layer({**style, "dx": 6}, rows, **at, text={"field": "square"}, color=colour)
        | {"transform": ONLY_THIS_WIDTH},
        layer({**style, "dx": 20, "color": INK}, rows, **at, text={"field": "text"})
        | {"transform": ONLY_THIS_WIDTH},
    ]


def _apart(places: Sequence[float], height: float) -> list[float]:
    """The places, moved as far as names need, within the height as long as they fit."""
    order = sorted(range(len(places)), key=lambda number: -places[number])
    found = list(places)
    below = height + _LINE
    for number in order:
        found[number] = below = min(places[number], below - _LINE)
    above = -_LINE
    for number in reversed(order):
        found[number] = above = max(found[number], above + _LINE)
    return found
