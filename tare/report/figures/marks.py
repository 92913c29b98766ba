"""The pieces that figures are put together from: colours, layers, axes and scales of values.

Colours are CSS variables of the page, so that a figure follows the page's theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tare.base.libraries import pl
from tare.base.text import visible
from tare.base.units import format_ratio, format_value
from tare.records.metrics import METRICS

INK = "var(--ink)"
MUTED = "var(--muted)"
LINE = "var(--line)"
PAGE = "var(--page)"
BAND = "var(--band)"
WASH = "var(--wash)"
LOWER = "var(--lower)"
HIGHER = "var(--higher)"
SAME = "var(--same)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 9))
"""For figures with categories. A scale that blends colours cannot blend variables: name steps."""
Spec = dict[str, Any]
TIMES = "\N{MULTIPLICATION SIGN}"
RATIO_LABEL = f"format(datum.value, '.4~') + '{TIMES}'"
COUNT_LABEL = "datum.value === 0 ? '0' : format(datum.value, '~s')"
WIDE_LABEL, NARROW_LABEL = 34, 24
"""Characters in a line of a row's label, on a wide and on a narrow page."""
LOGARITHMIC_FROM = 3.0
"""Ratios spanning more than this factor are drawn on a logarithmic axis."""
ONLY_THIS_WIDTH = [{"filter": "datum.narrow === narrow"}]
_STEPS = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB")),
}


def params() -> list[Spec]:
    return [{"name": "narrow", "value": False}]


def layer(mark: Spec, values: Sequence[Spec], **encoding: Spec) -> Spec:
    """A layer over its own rows; a field ``tip`` is what a reader sees on a mark."""
    if mark.get("aria", True):
        encoding["description"] = {"field": "tip"}
    used = {channel["field"] for channel in encoding.values() if "field" in channel}
    used |= {"narrow", "leader", "dx", "dy", "align"}
    slim = [{key: rounded(row[key]) for key in row if key in used} for row in values]
    return {"data": {"values": slim}, "mark": mark, "encoding": encoding}


def rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def measure(field: str, axis: Spec) -> Spec:
    return {"field": field, "type": "quantitative", **axis}


def as_is(field: str) -> Spec:
    return {"field": field, "type": "nominal", "scale": None}


def right_texts(rows: Sequence[Spec], y: Spec) -> Spec:
    return layer(
        {"type": "text", "align": "left", "dx": 10, "color": INK, "aria": False},
        rows,
        x={"value": "width"},
        y=measure("y", y),
        text={"field": "text"},
    )


def ratio_axis(bounds: Iterable[Any], title: str, spare: float = 0.04) -> Spec:
    """Scale and axis for ratios, which are equally far from 1 when they are reciprocal."""
    flat: list[float] = []
    for bound in bounds:
        flat += bound if isinstance(bound, list) else [bound]
    finite = [bound for bound in flat if math.isfinite(bound) and bound > 0]
    low, high = min(finite), max(finite)
    logarithmic = high / low > LOGARITHMIC_FROM
    axis: Spec = {"title": title, "tickCount": {"expr": "narrow ? 3 : 5"}, "labelExpr": RATIO_LABEL}
    if logarithmic:
        factor = (high / low) ** spare
        domain = [low / factor, high * factor]
        step = max(1, math.ceil(math.log2(domain[1] / domain[0]) / 7))
        first = math.ceil(math.log2(domain[0]) / step)
        last = math.floor(math.log2(domain[1]) / step)
        axis["values"] = [2.0 ** (step * power) for power in range(first, last + 1)]
    else:
        margin = max((high - low) * spare, 0.005)
        domain = [low - margin, high + margin]
    return {
        "scale": {
            "type": "log" if logarithmic else "linear",
            "domain": [rounded(bound) for bound in domain],
            "nice": False,
            "zero": False,
        },
        "axis": axis,
    }


def ratio_text(ratio: float) -> str:
    return format_ratio(ratio) + TIMES


@dataclass(frozen=True)
class Scale:
    """A unit fit to read on an axis: values are divided by ``divisor`` and carry ``suffix``."""

    divisor: float
    suffix: str
    unit: str

    @property
    def bracketed(self) -> str:
        return f" ({self.suffix})" if self.suffix else ""

    def text(self, value: float) -> str:
        if self.suffix == TIMES:
            return ratio_text(value)
        return format_value(value * self.divisor, self.unit)


def scale_for(unit: str, typical: Any) -> Scale:
    if isinstance(typical, float) and typical > 0:
        for divisor, suffix in _STEPS.get(unit, ()):
            if typical >= divisor:
                return Scale(divisor, suffix, unit)
    return Scale(1.0, unit, unit)


def unit_of(rows: pl.DataFrame, metric: str) -> str:
    if metric in METRICS:
        return METRICS[metric].unit
    units = rows["unit"].drop_nulls()
    return str(units[0]) if len(units) else ""


def title_of(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else visible(metric.replace("_", " "))
