"""A call tree as an icicle: each frame below the one that calls it, as wide as its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tare.base.units import format_bytes, format_percent
from tare.report.call_trees import CallTree
from tare.report.figures.marks import INK, LINE, PAGE, SERIES, Spec, layer, measure, params
from tare.report.model import Figure

LEAST_SHARE = 0.01
"""Of the whole: what is less has no place of its own."""
MOST_ROWS = 16
FOLDED = "others"
_ROW, _LABEL = 24, 7.0
"""Pixels of a row, and of a character with what a reader's font may add to it."""
_WIDTHS = ((False, 1060), (True, 346))
"""Of the plot, on a wide and on a narrow page: labels are cut to what fits."""
_LEAST_LABEL = 4
_CHAIN = 0.995
_PLACED = re.compile(r" \([^ ]+:\d+\)$")


@dataclass(frozen=True)
class _Box:
    text: str
    start: float
    size: float
    row: int
    kind: str


_LOOKS = {"caller": (SERIES[0], 0.16), "site": (SERIES[0], 0.42), FOLDED: (LINE, 0.6)}
"""By the kind of a box, its colour and how much of it is seen."""


def icicle(identifier: str, title: str, caption: str, tree: CallTree) -> Figure:
    """The first weight of ``tree``, in bytes, from the root down. A frame is left out where all
    that it holds is below a line of its own; and where the tree is too deep, below any one frame.
    """
    boxes = list(_boxes(tree, dense=False))
    if max(box.row for box in boxes) >= MOST_ROWS:
        boxes = [box for box in _boxes(tree, dense=True) if box.row < MOST_ROWS]
    whole = tree.values[0][0]
    rows = max(box.row for box in boxes) + 1
    x = {"axis": None, "scale": {"domain": [0, 1], "nice": False}}
    y = {"axis": None, "scale": {"domain": [0, rows], "reverse": True, "nice": False}}
    layers: list[Spec] = []
    for kind, (colour, opacity) in _LOOKS.items():
        look = {"color": colour, "fillOpacity": opacity, "stroke": PAGE, "strokeWidth": 1}
        drawn = [
            {
                "x": box.start / whole,
                "x2": (box.start + box.size) / whole,
                "y": box.row,
                "y2": box.row + 1,
                "tip": f"{box.text}: {_amount(box, whole)}",
            }
            for box in boxes
            if box.kind == kind
        ]
        if drawn:
            layers.append(
                layer(
                    {"type": "rect", **look},
                    drawn,
                    x=measure("x", x),
                    x2={"field": "x2"},
                    y=measure("y", y),
                    y2={"field": "y2"},
                )
            )
    labels = [
        {"x": box.start / whole, "y": box.row + 0.5, "text": text, "narrow": narrow}
        for narrow, width in _WIDTHS
        for box in boxes
        if (text := _label(box, int((width * box.size / whole - 10) / _LABEL), whole))
    ]
    style = {"type": "text", "align": "left", "baseline": "middle", "dx": 5, "color": INK}
    style["strokeOpacity"] = 0  # no halo of the page's colour on a coloured box
    layers.append(
        layer(
            {**style, "aria": False},
            labels,
            x=measure("x", x),
            y=measure("y", y),
            text={"field": "text"},
        )
        | {"transform": [{"filter": "datum.narrow === narrow"}]}
    )
    panel: Spec = {"height": _ROW * rows, "layer": layers}
    # As the only panel of several, it has the whole width of a page.
    return Figure(identifier, title, caption, {"params": params(), "columns": 1, "concat": [panel]})


def _boxes(tree: CallTree, *, dense: bool) -> Iterator[_Box]:
    values, whole = tree.values[0], tree.values[0][0]
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            children.setdefault(parent, []).append(node)

    def below(node: int) -> tuple[list[int], float]:
        """The children that are drawn, the largest first, and the bytes of the others."""
        found = sorted(children.get(node, ()), key=lambda child: -values[child])
        drawn = [child for child in found if values[child] >= LEAST_SHARE * whole]
        return drawn, sum(values[child] for child in found[len(drawn) :])

    def text_of(node: int) -> str:
        return tree.frames[tree.names[node]]

    waiting = [(0, 0.0, 0)]
    while waiting:
        node, start, row = waiting.pop()
        drawn, folded = below(node)
        while node and len(drawn) == 1 and values[drawn[0]] >= _CHAIN * values[node]:
            if not dense and _name(text_of(drawn[0])) != text_of(node):
                break
            node = drawn[0]
            drawn, folded = below(node)
        own = values[node] - sum(values[child] for child in drawn) - folded
        kind = "site" if node and own > 0 and own >= LEAST_SHARE * whole else "caller"
        yield _Box(text_of(node), start, values[node], row, kind)
        at = start
        for child in drawn:
            waiting.append((child, at, row + 1))
            at += values[child]
        if folded >= LEAST_SHARE * whole:
            yield _Box(FOLDED, at, folded, row + 1, FOLDED)


def _name(text: str) -> str:
    return text.rpartition(" (")[0] if _PLACED.search(text) else text


def _amount(box: _Box, whole: float) -> str:
    return f"{format_bytes(box.size)}, {format_percent(box.size / whole)}"


def _label(box: _Box, room: int, whole: float) -> str:
    """What fits: the frame with its bytes, the frame, its line, its name, or the start of that."""
    name, place = _name(box.text), box.text.rpartition(" (")[2][:-1]
    texts = [f"{box.text} · {_amount(box, whole)}", box.text]
    if name != box.text:
        texts += [place, name]
    fitting = (text for text in texts if len(text) <= room)
    return next(fitting, f"{name[: room - 1]}…" if room >= _LEAST_LABEL else "")
