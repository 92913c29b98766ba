"""Figures of stacked horizontal bars, one colour for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tare.base.units import format_percent
from tare.report.figures.marks import SERIES, params, rounded
from tare.report.model import Figure


def stacked_bars(
    identifier: str,
    title: str,
    caption: str,
    bars: Mapping[str, Mapping[str, float]],
    groups: Sequence[str],
    axis: str,
) -> Figure:
    """A bar for each label, of shares by group; ``axis`` says of what."""
    values: list[dict[str, Any]] = [
        {
            "label": label,
            "group": group,
            "share": rounded(shares[group]),
            "place": place,
            "tip": f"{label}: {group}, {format_percent(shares[group])}",
        }
        for label, shares in bars.items()
        for place, group in enumerate(groups)
        if shares.get(group)
    ]
    spec = {
        "params": params(),
        "data": {"values": values},
        "height": {"step": 24},
        "mark": {"type": "bar"},
        "encoding": {
            "y": {"field": "label", "type": "nominal", "sort": list(bars),
                  "scale": {"domain": list(bars), "paddingInner": 0.25},
                  "axis": {"title": None}},
            "x": {"field": "share", "type": "quantitative", "stack": "zero",
                  "axis": {"title": axis, "format": ".0%",
                           "tickCount": {"expr": "narrow ? 4 : 8"}}},
            "order": {"field": "place", "type": "quantitative"},
            "color": {"field": "group", "type": "nominal", "sort": list(groups),
                      "scale": {"domain": list(groups), "range": list(SERIES[: len(groups)])},
                      "legend": {"title": None, "orient": "bottom", "columns": 2}},
            "description": {"field": "tip"},
        },
    }  # fmt: skip
    return Figure(identifier, title, caption, spec)
