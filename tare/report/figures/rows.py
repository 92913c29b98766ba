"""Rows of managers under their programs, placed in pixels from the top.

Pixels rather than a scale of names let a label of three lines have a taller row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.libraries import pl
from tare.base.text import shortened, visible
from tare.report.figures.marks import (
    INK,
    LINE,
    NARROW_LABEL,
    ONLY_THIS_WIDTH,
    WIDE_LABEL,
    Spec,
    layer,
    measure,
    params,
)
from tare.report.labels import LINE_HEIGHT, wrapped

ROW_PADDING, HEADING_HEIGHT = 11, 30
MOST_ROWS = 120


@dataclass(frozen=True)
class Block:
    """The rows of one program, in pixels from the top."""

    program: str
    top: float
    bottom: float
    headed: bool


@dataclass(frozen=True)
class Layout:
    blocks: Sequence[Block]
    places: dict[tuple[str, str], float]
    height: float

    def axis(self) -> Spec:
        """The vertical scale, pixels from the top; ``furniture`` writes the labels."""
        return {"scale": {"domain": [0, self.height], "reverse": True, "nice": False}, "axis": None}

    def side(self) -> str:
        """Where the axis of values goes: beside the first row when the last may be out of sight."""
        return "top" if len(self.blocks) > 1 else "bottom"

    def furniture(self, y: Spec, *, always: bool = True) -> list[Spec]:
        """A hairline through each row, the managers' names and, over their rows, the programs'.
        Names that are not there ``always`` are on a narrow page alone."""
        rows = [{"y": place} for place in self.places.values()]
        style = {"type": "text", "align": "right", "dx": -10, "color": INK, "aria": False}
        names = [
            {
                "y": place,
                "text": lines,
                # Vega counts a text of several lines from its first one.
                "dy": -(len(lines) - 1) * LINE_HEIGHT / 2,
                "narrow": narrow,
            }
            for narrow, width in ((False, WIDE_LABEL), (True, NARROW_LABEL))
            if always or narrow
            for (_, manager), place in self.places.items()
            if (lines := wrapped(manager, width))
        ]
        headings = [
            {
                "y": block.top - HEADING_HEIGHT / 2 + 5,
                "text": shortened(visible(block.program), NARROW_LABEL if narrow else WIDE_LABEL),
                "narrow": narrow,
            }
            for block in self.blocks
            for narrow in (False, True)
            if block.headed
        ]
        at = {"x": {"value": 0}, "y": measure("y", y), "text": {"field": "text"}}
        small = {"dy": {"expr": "datum.dy"}, "baseline": "middle", "lineHeight": LINE_HEIGHT}
        return [
            layer({"type": "rule", "color": LINE, "aria": False}, rows, y=measure("y", y)),
            layer(style | small, names, **at) | {"transform": ONLY_THIS_WIDTH},
            layer(style | {"fontWeight": 600, "baseline": "middle"}, headings, **at)
            | {"transform": ONLY_THIS_WIDTH},
        ]

    def spec(self, layers: list[Spec]) -> Spec:
        return {"params": params(), "height": max(1.0, self.height), "layer": layers}


def lay_out(rows: pl.DataFrame, by: str, headings: bool) -> Layout:
    """Managers in one order for all programs: that of their geometric mean of ``by``."""
    order = (
        rows.with_columns(pl.when(pl.col(by) > 0).then(pl.col(by)).log().alias("_log"))
        .group_by("manager", maintain_order=True)
        .agg(pl.col("_log").mean())
        .sort("_log", nulls_last=True, maintain_order=True)["manager"]
        .to_list()
    )
    blocks: list[Block] = []
    places: dict[tuple[str, str], float] = {}
    y = 0.0
    for program in rows["program"].unique(maintain_order=True).sort().to_list():
        present = set(rows.filter(pl.col("program") == program)["manager"])
        y += HEADING_HEIGHT if headings else 0
        top = y
        for manager in order:
            if manager in present:
                height = ROW_PADDING + LINE_HEIGHT * len(wrapped(manager, NARROW_LABEL))
                places[program, manager] = round(y + height / 2, 1)
                y += height
        blocks.append(Block(program, top, y, headings))
    return Layout(blocks, places, y)


def programs_that_fit(rows: pl.DataFrame, by: str) -> tuple[pl.DataFrame, str]:
    """The programs with the largest spread of ``by``, up to ``MOST_ROWS`` rows, and a remark."""
    sizes = (
        rows.group_by("program")
        .agg(
            pl.col("manager").n_unique().alias("rows"),
            (pl.col(by).max() / pl.col(by).min()).alias("spread"),
        )
        .sort("spread", "program", descending=[True, False], nulls_last=True)
        .with_columns(pl.col("rows").cum_sum().alias("total"))
    )
    kept = sizes.filter((pl.col("total") <= MOST_ROWS) | (pl.int_range(pl.len()) == 0))
    if kept.height == sizes.height:
        return rows, ""
    return rows.filter(pl.col("program").is_in(kept["program"].to_list())), (
        f" Drawn: the {kept.height} of {sizes.height} programs whose managers differ most; "
        "the tables have all."
    )
