"""Figures that a program, or a load generator, prints itself: ``--metric NAME=PATTERN`` says where.

A figure is the first group of a regular expression, a number or a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import harmonic_mean
from typing import Any, ClassVar

from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.protocol import Observer
from tare.programs.program import Program
from tare.records.metrics import METRICS, Status
from tare.records.runs import GREATEST_VALUE, Limits, Outcome
from tare.records.summary import Row
from tare.report.comparison import INTERVAL, measured, summary_rows
from tare.report.fields import MANAGER, Field, table, texts
from tare.report.model import Cell, Table

RATE = "requests_per_second"
NUMBER = "printed_number"
PERCENTILES: Mapping[str, float] = {
    "latency_p50_seconds": 50,
    "latency_p90_seconds": 90,
    "latency_p99_seconds": 99,
    "latency_p999_seconds": 99.9,
    "latency_p9999_seconds": 99.99,
    "latency_max_seconds": 100,
}
"""Of the latencies of a load, by metric."""
SHORT = {
    "rps": RATE,
    "p50": "latency_p50_seconds",
    "p90": "latency_p90_seconds",
    "p99": "latency_p99_seconds",
    "p99.9": "latency_p999_seconds",
    "p99.99": "latency_p9999_seconds",
    "max": "latency_max_seconds",
    "number": NUMBER,
}
"""The metrics that ``--metric`` takes, by the names that people type."""
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NO_TIMES = (RATE, NUMBER, "unsent_requests")
_MOST_OUTPUT = 16 << 20
_TIME = re.compile(r"(?P<number>[\d.]+)(?P<unit>[nuµm]?s|m|h)?")


@dataclass(frozen=True)
class Pattern:
    """A pattern that the user gave for a metric; its first group is the value."""

    metric: str
    text: str


def pattern_of(text: str) -> Pattern:
    """What ``NAME=PATTERN`` asks for."""
    name, equals, pattern = text.partition("=")
    metric = SHORT.get(name, name)
    if not equals or metric not in SHORT.values():
        raise UsageError(
            f"--metric {text}: give NAME=PATTERN, with a name of {', '.join(SHORT)}",
            "as in --metric 'rps=([0-9.]+) requests/s'",
        )
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise UsageError(f"--metric {text}: no regular expression: {error}") from None
    if compiled.groups < 1:
        raise UsageError(f"--metric {text}: put the number into a group, as in ([0-9.]+)")
    return Pattern(metric, pattern)


def found_in(output: str, own: Sequence[Pattern]) -> dict[str, float]:
    """The figures that the patterns find, by metric; a metric without one is missing."""
    values: dict[str, float] = {}
    for each in own:
        matched = (match[1] for match in re.finditer(each.text, output, re.MULTILINE))
        if found := [value_of(each.metric, text, "s") for text in matched if text]:
            values[each.metric] = joined(each.metric, found)
    return values


def missing_from(values: Mapping[str, float], own: Sequence[Pattern]) -> str:
    """The first metric whose pattern found nothing, or ""."""
    return next((each.metric for each in own if each.metric not in values), "")


def value_of(metric: str, text: str, unit: str) -> float:
    """The number, in seconds where it is a time; one without a unit is in ``unit``."""
    match = _TIME.fullmatch(text)
    try:
        number = float(match["number"] if match else text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= GREATEST_VALUE:
        raise UsageError(f"it printed {text[:40]!r} where a number was looked for")
    if metric in _NO_TIMES:
        return number
    return number * _SECONDS[(match["unit"] if match else None) or unit]


def joined(metric: str, values: Sequence[float]) -> float:
    return harmonic_mean(values) if metric == RATE else max(values)


# ---- tables ----

_TURNED = {"good": "bad", "bad": "good"}


def more_is_better(field: Field[Any]) -> Field[Any]:
    """A field of ratios whose colours are turned."""
    return _toned(field, _TURNED)


def turned(made: Table) -> Table:
    """A table of ratios of what is better the more there is of it."""
    return replace(made, rows=[[_in_tones(cell, _TURNED) for cell in row] for row in made.rows])


def printed_tables(summary: pl.DataFrame, baseline: str) -> list[Table]:
    """A table for each program that printed figures, with a line for each manager."""
    rows = summary_rows(summary)
    programs = list(dict.fromkeys(program for program, _, _ in rows))
    found: list[Table] = []
    for program in programs:
        mine = dict.fromkeys(manager for each, manager, _ in rows if each == program)
        managers = sorted(mine, key=lambda manager: manager != baseline)
        known = [metric for metric in SHORT.values() if (program, baseline, metric) in rows]
        if not known:
            continue
        fields: list[Field[str]] = [texts("manager", MANAGER, str)]
        for metric in known:
            fields += _fields(metric, baseline, partial(_row, rows, program, metric))
        several = len(programs) > 1
        title = f"{program}: what it printed" if several else "What the program printed"
        identifier = f"table-printed-{len(found) + 1}" if several else "table-printed"
        found.append(table(identifier, title, managers, fields))
    return found


def _row(
    rows: Mapping[tuple[str, str, str], Row], program: str, metric: str, manager: str
) -> Row | None:
    return rows.get((program, manager, metric))


def _fields(metric: str, baseline: str, row: Callable[[str], Row | None]) -> list[Field[str]]:
    shown = METRICS[metric]
    against = f"Divided by that under {baseline}."
    found = measured(shown.title, shown.explanation, against, row, INTERVAL)
    if metric == RATE:
        return [more_is_better(each) for each in found]
    # Of any number nobody knows what is better.
    return [_toned(each, {"good": "", "bad": ""}) for each in found] if metric == NUMBER else found


def _toned(field: Field[Any], tones: Mapping[str, str]) -> Field[Any]:
    return replace(field, value=lambda row: _in_tones(field.value(row), tones))


def _in_tones(cell: Cell, tones: Mapping[str, str]) -> Cell:
    return replace(cell, tone=tones.get(cell.tone, cell.tone))


# ---- runs ----


def observe(
    own: Sequence[Pattern],
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """As ``runner.run_once``, with the figures that the program prints."""
    return runner.run_once(program, manager, limits, workspace, keep_output, _Reading(own))


@dataclass(frozen=True)
class _Reading(Observer):
    sees_allocations: ClassVar[bool] = False

    own: Sequence[Pattern]

    def complete(self, folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        output = "".join(_text(folder / name) for name in ("stdout", "stderr"))
        values = found_in(output, self.own)
        if missing := missing_from(values, self.own):
            reason = f"it printed nothing that --metric finds for {missing}"
            return replace(outcome, status=Status.FAILED, reason=reason, values={})
        return replace(outcome, values={**outcome.values, **values})


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_OUTPUT).decode("utf-8", "replace")
