"""Actions as people read them, alike on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tare.base.units import format_percent, format_value
from tare.records.actions import Action, Gain, Kind
from tare.records.metrics import METRICS
from tare.report.model import Cell, Column, Section, Table

RANKS = "①②③④⑤⑥⑦⑧⑨"
_IN_SHORT: Mapping[Kind, str] = {
    Kind.FREE_EARLIER: "free earlier",
    Kind.LEAK: "free",
    Kind.PINNED: "allocate apart",
    Kind.RESERVE: "reserve",
    Kind.SHORT_LIVED: "use again",
    Kind.NEVER_USED: "do not make",
    Kind.UNTOUCHED: "ask for less",
    Kind.CROSS_THREAD: "use again",
}
"""Of kinds that have a place: what to do there."""
_COLUMN = Column(
    "what to do",
    "What would help there; the number is that of the table above.",
    numeric=False,
    essential=False,
)


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
    """Between what the gain lies; empty where the evidence leaves no room that would show."""
    bounds = [
        format_percent(bound) if gain.unit == "ratio" else format_value(bound, gain.unit)
        for bound in (gain.low, gain.high)
    ]
    return " to ".join(bounds) if len(set(bounds)) == 2 else ""


def place_text(action: Action) -> str:
    """The place, where the text does not name it."""
    name = action.place.name if action.place else ""
    return "" if name in action.text else name


def anchor(number: int) -> str:
    """Where on a page the action of this number, from 1, stands."""
    return f"action-{number}"


def with_actions(section: Section, actions: Sequence[Action]) -> Section:
    """The section whose tables say, of each place that one of ``actions`` is about, what to do."""
    known: dict[str, list[tuple[str, str]]] = {}
    for number, action in enumerate(actions, 1):
        places = (action.place, *action.others) if action.place else ()
        for name in dict.fromkeys(place.name for place in places):
            words = f"{rank(number)} {_IN_SHORT.get(action.kind, action.kind)}"
            known.setdefault(name, []).append((words, anchor(number)))
    return replace(section, tables=[_with_actions(table, known) for table in section.tables])


def _with_actions(table: Table, known: Mapping[str, Sequence[tuple[str, str]]]) -> Table:
    links = [known.get(name, ()) for name in table.places]
    if not any(links):
        return table
    at = 1 + next(number for number, column in enumerate(table.columns) if column.is_site)
    cells = [
        Cell(text := ", ".join(words for words, _ in each), text or None, links=each)
        for each in links
    ]
    return replace(
        table,
        columns=[*table.columns[:at], _COLUMN, *table.columns[at:]],
        rows=[[*row[:at], cell, *row[at:]] for row, cell in zip(table.rows, cells, strict=True)],
    )


def _signed(value: float, text: str) -> str:
    return f"\N{MINUS SIGN}{text}" if value >= 0 else f"+{text}"
