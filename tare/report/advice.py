"""Actions as people read them, alike on the terminal and on the page."""

from __future__ import annotations

from tare.base.units import format_percent, format_value
from tare.records.actions import Action, Gain
from tare.records.metrics import METRICS

RANKS = "①②③④⑤⑥⑦⑧⑨"


def rank(number: int) -> str:
    """The mark of the action of this number, from 1."""
    return RANKS[number - 1] if number <= len(RANKS) else f"{number}."


def gain_text(gain: Gain) -> str:
    """What is saved, and its share."""
    share = format_percent(1 - gain.ratio)
    if gain.unit == "ratio":
        return _signed(gain.value, share)
    return f"{_signed(gain.value, format_value(abs(gain.value), gain.unit))} ({share})"


def metric_text(gain: Gain) -> str:
    metric = METRICS.get(gain.metric)
    return metric.title if metric else gain.metric.replace("_", " ")


def bounds_text(gain: Gain) -> str:
    """Between what the gain lies; empty where the evidence leaves no room."""
    if gain.low == gain.high:
        return ""
    if gain.unit == "ratio":
        return f"{format_percent(gain.low)} to {format_percent(gain.high)}"
    return f"{format_value(gain.low, gain.unit)} to {format_value(gain.high, gain.unit)}"


def place_text(action: Action) -> str:
    """``hold.cpp:32 in load_orders``, as far as it is known."""
    place = action.place
    if place is None:
        return ""
    file = place.file.rpartition("/")[2]
    where = f"{file}:{place.line}" if file and place.line else file or place.module
    return " in ".join(filter(None, (where, place.function)))


def _signed(value: float, text: str) -> str:
    return f"\N{MINUS SIGN}{text}" if value >= 0 else f"+{text}"
