"""Names in figures and tables: made visible, shortened, wrapped, and placed beside their points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tare.base.text import shortened, visible

Spec = dict[str, Any]

LINE_HEIGHT = 13
CHARACTER_WIDTH = 7.0
"""Of the widest usual sans-serif at 12 pixels, on average."""


def wrapped(name: str, width: int) -> list[str]:
    """A name over several lines, broken after the punctuation of a composed manager's name."""
    pieces: list[str] = []
    piece = ""
    for character in shortened(visible(name)):
        piece += character
        if character in "(, /" or len(piece) == width:
            pieces.append(piece)
            piece = ""
    lines = [""]
    for part in [*pieces, piece]:
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.strip() for line in lines if line.strip()] or [""]


def place_labels(
    points: Sequence[tuple[str, float, float]],
    x_scale: Spec,
    y_scale: Spec,
    size: tuple[float, float],
    characters: int,
) -> list[Spec]:
    """Where the label of each (name, x, y) goes so that it covers no point and no other label.

    Tried nearest first, right before left; a label which had to go further gets a leader line.
    The most crowded case falls back to the least covered place.
    """
    width, height = size
    spots = [(_pixel(x, x_scale, width), height - _pixel(y, y_scale, height)) for _, x, y in points]
    texts = [_lines(name, characters) for name, _, _ in points]
    places: dict[int, _Place] = {}
    for _ in range(_ROUNDS):
        before = dict(places)
        for number, spot in enumerate(spots):
            places.pop(number, None)
            places[number] = _best_place(spot, texts[number], _taken(spots, places, spot), size)
        if places == before:
            break
    return [
        {
            "text": lines,
            "dx": place.dx,
            # Vega counts a text of several lines from its first one.
            "dy": round(place.dy - (len(lines) - 1) * LINE_HEIGHT / 2, 1),
            "align": ("center", "left", "right")[place.right],
            "leader": "M0,0" + "".join(f"L{x:.0f},{y:.0f}" for x, y in place.leader[-1:]),
            "across": across,
            "upwards": upwards,
        }
        for (_, across, upwards), lines, (_, place) in zip(
            points, texts, sorted(places.items()), strict=True
        )
    ]


def _lines(name: str, characters: int) -> list[str]:
    lines = wrapped(name, characters)
    if len(lines) > 2:
        lines = [lines[0], shortened(" ".join(lines[1:]), characters)]
    return lines


def _taken(
    spots: Sequence[tuple[float, float]], places: Mapping[int, _Place], own: tuple[float, float]
) -> list[Box]:
    """What a label of the point ``own`` must not cover: other points, and labels with leaders."""
    points = [(x - 6, y - 6, x + 6, y + 6) for x, y in spots]
    labels = [box for place in places.values() for box in (place.box, *place.leader_boxes)]
    return [box for box in points if not _holds(box, own)] + labels


def _best_place(
    spot: tuple[float, float], lines: list[str], taken: Sequence[Box], size: tuple[float, float]
) -> _Place:
    text = (max(map(len, lines)) * CHARACTER_WIDTH, float(len(lines) * LINE_HEIGHT))
    return min(
        (
            _Place(spot, text, distance, right, down)
            for distance in _DISTANCES
            for right, down in _DIRECTIONS
        ),
        key=lambda place: place.cost(taken, size),
    )


Box = tuple[float, float, float, float]

_ROUNDS = 4
"""Each label is placed again when the others have their places, so often at most."""
_DISTANCES = (9, 13, 18, 26, 36, 48, 64, 84)
_DIRECTIONS = (
    *((1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1), (0, -1), (0, 1)),
    *((1, -0.5), (1, 0.5), (-1, -0.5), (-1, 0.5)),
)
_CROSSING = 60.0
"""What touching something costs, in square pixels: a thin line hides little, and confuses much."""


@dataclass(frozen=True)
class _Place:
    """One place that a label of ``text`` (width, height) could take beside its point."""

    spot: tuple[float, float]
    text: tuple[float, float]
    distance: float
    right: int
    down: float

    @property
    def dx(self) -> float:
        return self.right * self.distance

    @property
    def dy(self) -> float:
        return self.down * (self.distance * 0.8 + self.text[1] / 2 - 4)

    @property
    def box(self) -> Box:
        wide, tall = self.text
        before = (wide / 2, 0.0, wide)[self.right]
        left, top = self.spot[0] + self.dx - before, self.spot[1] + self.dy - tall / 2
        return (left, top, left + wide, top + tall)

    @property
    def leader(self) -> list[tuple[float, float]]:
        """Points on the way to a label that is not beside its point, from the point."""
        if self.distance <= 18:
            return []
        edge = self.dy if self.right else self.dy - math.copysign(self.text[1] / 2, self.down)
        end = (self.dx - 2 * self.right, edge)
        return [(end[0] * step / 8, end[1] * step / 8) for step in range(1, 9)]

    @property
    def leader_boxes(self) -> list[Box]:
        x, y = self.spot
        return [(x + dx - 1, y + dy - 1, x + dx + 1, y + dy + 1) for dx, dy in self.leader]

    def cost(self, taken: Sequence[Box], size: tuple[float, float]) -> float:
        left, top, right, bottom = self.box
        outside = max(0.0, -left, right - size[0]) + max(0.0, -top, bottom - size[1])
        hits = [
            area
            for box in (self.box, *self.leader_boxes)
            for other in taken
            if (area := _overlap(box, other)) > 0
        ]
        return self.distance + 20 * outside + sum(hits) + _CROSSING * len(hits)


def _pixel(value: float, scale: Spec, length: float) -> float:
    low, high = scale["domain"]
    if scale["type"] == "log":
        value, low, high = math.log(value), math.log(low), math.log(high)
    return float((value - low) / (high - low) * length)


def _holds(box: Box, spot: tuple[float, float]) -> bool:
    return box[0] < spot[0] < box[2] and box[1] < spot[1] < box[3]


def _overlap(one: Box, other: Box) -> float:
    left, top, right, bottom = one
    if right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top:
        return 0.0  # as most do
    return (min(right, other[2]) - max(left, other[0])) * (
        min(bottom, other[3]) - max(top, other[1])
    )
