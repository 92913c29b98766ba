"""Figures of where resident memory goes: its parts, by manager and over time, and its pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tare.base.text import shortened, visible
from tare.base.units import format_bytes, format_count, format_percent
from tare.report.fields import Row
from tare.report.figures.ends import LEAST_SHARE, End, end_labels
from tare.report.figures.marks import (
    COUNT_LABEL,
    INK,
    LINE,
    MUTED,
    SERIES,
    Spec,
    layer,
    measure,
    params,
    rounded,
    scale_for,
)
from tare.report.figures.profiles import ROOM, Series, profile_spec
from tare.report.model import Figure
from tare.studies.space.details import Details, Moment

COLOURS = {
    "requested": SERIES[0],
    "internal": SERIES[5],
    "metadata": SERIES[3],
    "external": SERIES[1],
    "retained": SERIES[2],
    "delayed": SERIES[6],
    "other": "var(--line)",
    "unexplained": SERIES[7],
}
_HEIGHT = 260
_CELLS_IN_ROW = 50
_CELL = 9.0
_FILL_STEPS = 5


def shown_parts(peaks: Sequence[Moment]) -> list[str]:
    """The parts that are not 0 in any of ``peaks``, in the order in which they are stacked."""
    return [name for name in COLOURS if any(peak.part(name) > 0 for peak in peaks)]


def _legend(parts: Sequence[str]) -> Spec:
    return {
        "type": "nominal",
        "legend": {"title": None, "columns": {"expr": "narrow ? 2 : 4"}, "symbolType": "square"},
        "scale": {"domain": list(parts), "range": [COLOURS[name] for name in parts]},
    }


def split_figure(found: Mapping[str, Details], identifier: str, about: str) -> Figure:
    """A bar for each manager: its resident bytes at the peak, by what they are for."""
    peaks = {manager: details.peak for manager, details in found.items()}
    parts = shown_parts(list(peaks.values()))
    scale = scale_for("B", float(max(peak.resident for peak in peaks.values())))
    names = {manager: shortened(visible(manager), 34) for manager in peaks}
    rows = []
    for manager, peak in peaks.items():
        at = 0.0
        for place, name in enumerate(parts):
            size = max(peak.part(name), 0)
            share = format_percent(size / max(peak.resident, 1))
            rows.append(
                {
                    "manager": names[manager],
                    "from": at / scale.divisor,
                    "to": (at + size) / scale.divisor,
                    "part": name,
                    "place": place,
                    "tip": f"{names[manager]}: {name} {format_bytes(size)}, {share}",
                }
            )
            at += size
    spec: Spec = {
        "params": params(),
        "data": {"values": rows},
        "height": {"step": 26},
        "mark": {"type": "bar"},
        "encoding": {
            "y": {
                "field": "manager",
                "type": "nominal",
                "sort": list(names.values()),
                "scale": {"paddingInner": 0.3},
                "axis": {"title": None},
            },
            "x": {
                "field": "from",
                "type": "quantitative",
                "axis": {
                    "title": f"resident at the peak{scale.bracketed}",
                    "tickCount": {"expr": "narrow ? 3 : 8"},
                },
            },
            "x2": {"field": "to"},
            "order": {"field": "place"},
            "color": {"field": "part", **_legend(parts)},
            "description": {"field": "tip"},
        },
    }
    return Figure(
        identifier,
        f"Where peak memory goes: {about}",
        "Resident memory at each manager's own peak, measured from outside: the pages that the "
        "kernel had in memory, and the objects alive then.",
        spec,
    )


def timeline_figure(manager: str, details: Details, identifier: str) -> Figure:
    """The parts over allocation time, at each snapshot, and what was asked for in between."""
    moments, peak = details.timeline, details.peak
    most = max(moment.resident for moment in (*moments, peak))
    parts = [
        name
        for name in shown_parts(moments)
        if max(moment.part(name) for moment in moments) >= LEAST_SHARE * most
    ]
    across = scale_for("B", float(max(details.allocated_bytes, 1)))
    upwards = scale_for("B", float(most))
    x: Spec = {
        "axis": {
            "title": f"allocated so far{across.bracketed}",
            "tickCount": {"expr": "narrow ? 3 : 5"},
            "grid": False,
        },
        "scale": {"nice": False},
    }
    y: Spec = {
        "axis": {"title": f"resident{upwards.bracketed}", "tickCount": 5},
        "scale": {"domain": [0, rounded(ROOM * max(most, 1) / upwards.divisor)], "nice": False},
    }
    ends: list[End] = []
    layers: list[Spec] = []
    floor = [0.0] * len(moments)
    for name in parts:
        top = [low + max(moment.part(name), 0) for low, moment in zip(floor, moments, strict=True)]
        at_peak = peak.part(name)
        rows = [
            {
                "x": moment.allocated / across.divisor,
                "low": low / upwards.divisor,
                "high": high / upwards.divisor,
                "tip": f"{name}: {format_bytes(at_peak)} at the peak",
            }
            for moment, low, high in zip(moments, floor, top, strict=True)
        ]
        layers.append(
            layer(
                {"type": "area", "opacity": 1, "color": COLOURS[name]},
                rows,
                x=measure("x", x),
                y=measure("low", y),
                y2={"field": "high"},
            )
        )
        middle = (floor[-1] + top[-1]) / 2 / upwards.divisor
        ends.append(End(name, COLOURS[name], middle, format_bytes(at_peak)))
        floor = top
    dot = {
        "x": peak.allocated / across.divisor,
        "y": peak.resident / upwards.divisor,
        "tip": f"the peak: {format_bytes(peak.resident)}",
    }
    layers.append(
        layer(
            {"type": "point", "size": 60, "strokeWidth": 2, "opacity": 1}
            | {"stroke": INK, "fill": "var(--page)"},
            [dot],
            x=measure("x", x),
            y=measure("y", y),
        )
    )
    layers += end_labels(ends, y, _HEIGHT)
    return Figure(
        identifier,
        f"Resident memory over time: {shortened(visible(manager))}",
        f"{len(moments)} snapshots, about evenly spaced by bytes allocated. The dot is the peak; "
        "its parts are named on the right. The recorder's own memory is left out.",
        {"params": params(), "height": _HEIGHT, "layer": layers},
        wide=True,
    )


def page_map_figure(manager: str, details: Details, identifier: str) -> Figure:
    """The resident pages of the heap as a grid, the darker the fuller."""
    cells = details.page_map
    pages = cells.pages_in_cell
    words = ["no object", *(f"up to {100 * n // _FILL_STEPS}%" for n in range(1, _FILL_STEPS + 1))]
    steps = [min(math.ceil(live * _FILL_STEPS), _FILL_STEPS) for live in cells.live]
    lines = -(-len(steps) // _CELLS_IN_ROW)
    axes: dict[str, Spec] = {
        "x": {"axis": None, "scale": {"domain": [0, _CELLS_IN_ROW]}},
        "y": {"axis": None, "scale": {"domain": [0, lines], "reverse": True, "nice": False}},
    }
    layers = [
        layer(
            {
                "type": "rect",
                "stroke": "var(--page)",
                "strokeWidth": 0.5,
                "color": SERIES[0] if step else SERIES[2],
                "opacity": 0.15 + 0.85 * step / _FILL_STEPS if step else 1,
            },
            [{**row, "tip": words[step]} for row in _cells(steps, step)],
            x=measure("x", axes["x"]),
            x2={"field": "x2"},
            y=measure("y", axes["y"]),
            y2={"field": "y2"},
        )
        for step in sorted(set(steps))
    ]
    seen = ", ".join(words[step] for step in sorted(set(steps)))
    return Figure(
        identifier,
        f"The heap's pages at the peak: {shortened(visible(manager))}",
        f"Each cell is {'one page' if pages == 1 else f'{format_count(pages)} pages'} of the "
        "resident ones, in the order of addresses from the upper left. The darker, the more of it "
        f"live objects take ({seen}); pages that hold no object are in a colour of their own.",
        {"params": params(), "height": _CELL * lines, "layer": layers},
    )


def _cells(steps: Sequence[int], wanted: int) -> list[dict[str, int]]:
    """The cells of a step as few rectangles: those that are side by side are one."""
    found: list[dict[str, int]] = []
    for number, step in enumerate(steps):
        if step != wanted:
            continue
        line, column = divmod(number, _CELLS_IN_ROW)
        if found and (found[-1]["x2"], found[-1]["y"]) == (column, line):
            found[-1]["x2"] += 1
        else:
            found.append({"x": column, "x2": column + 1, "y": line, "y2": line + 1})
    return found


def occupancy_figure(manager: str, details: Details, identifier: str) -> Figure:
    """How many of the heap's resident pages are how full of live objects."""
    found = details.occupancy
    counts = found.steps
    width = 100 / len(counts)
    rows = [
        {
            "from": number * width,
            "to": (number + 1) * width,
            "zero": 0,
            "pages": count,
            "tip": f"{number * width:.0f}% to {(number + 1) * width:.0f}% full: {count:,} pages",
        }
        for number, count in enumerate(counts)
    ]
    without = found.empty + found.never
    rows.append(
        {
            "from": -width,
            "to": -width / 4,
            "zero": 0,
            "pages": without,
            "tip": f"without an object: {without:,} pages",
        }
    )
    spec: Spec = {
        "params": params(),
        "height": 160,
        "layer": [
            layer(
                {"type": "rect", "color": SERIES[0], "stroke": LINE, "strokeWidth": 0.5},
                rows,
                x=measure(
                    "from",
                    {
                        "axis": {
                            "title": "of the page taken by live objects (%)",
                            "values": [0, 20, 40, 60, 80, 100],
                            "grid": False,
                        },
                        "scale": {"domain": [-width, 100], "nice": False},
                    },
                ),
                x2={"field": "to"},
                y=measure(
                    "pages", {"axis": {"title": "pages", "labelExpr": COUNT_LABEL, "tickCount": 4}}
                ),
                y2={"field": "zero"},
            ),
            layer(
                {"type": "text", "align": "center", "dy": -6, "color": MUTED, "aria": False},
                [{"from": -width * 5 / 8, "pages": without, "text": "none"}] if without else [],
                x=measure("from", {}),
                y=measure("pages", {}),
                text={"field": "text"},
            ),
        ],
    }
    return Figure(
        identifier,
        f"How full the heap's pages are: {shortened(visible(manager))}",
        "The resident pages of the heap at the peak, by the share that live objects take; on the "
        "left, pages without an object.",
        spec,
    )


def growth_figure(sites: Sequence[Row], allocated: int, identifier: str) -> Figure:
    """The live bytes of the call sites that grow, over allocation time."""
    across = scale_for("B", float(max(allocated, 1)))
    lines = [
        Series(f"no. {number}", SERIES[number - 1], list(site["levels"]), f"call site no. {number}")
        for number, site in enumerate(sites[: len(SERIES)], 1)
    ]
    upwards = scale_for("B", float(max(max(line.values) for line in lines)))
    titles = ("allocated so far", "bytes alive")
    step = allocated / len(lines[0].values)
    return Figure(
        identifier,
        "Call sites whose objects grow",
        "Bytes alive, as asked for, of the sites in the table of growth.",
        profile_spec((across, upwards), titles, step, lines=lines),
    )
