"""Limits on what a program's memory management may cost, and whether results keep them.

A suite's program has its limits in a table `limits`, by the name of the metric; docs/commands/
check.md describes it for users.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

from msgspec import Meta, Struct

from tare.base import statistics
from tare.base.documents import DocumentError, converted
from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.base.units import format_value, parse_size
from tare.records.metrics import METRICS, WITH_LIMITS
from tare.records.results import Results

DERIVED: Mapping[str, tuple[str, str]] = {
    "manager_instructions_share": ("manager_instructions", "instructions")
}
"""A share is one metric over another, of the same run."""
_KNOWN = [*DERIVED, *(name for metrics in WITH_LIMITS.values() for name in metrics)]

KEPT, OVER, UNSETTLED, NO_FIGURE = "kept", "over", "unsettled", "no figure"
VERDICTS = {
    KEPT: "The whole interval is within the limit.",
    UNSETTLED: "The limit lies within the interval: more runs are needed.",
    OVER: "The whole interval is over the limit.",
    NO_FIGURE: "No run gave a figure.",
}

_NUMBER = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?P<unit>\D*)")
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0}
_COUNTS = {"": 1.0, "%": 0.01, "k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Judged:
    """One limit and what was measured, in the metric's unit; None where no run gave a figure."""

    program: str
    manager: str
    metric: str
    most: float
    runs: int
    median: float | None
    low: float | None
    high: float | None
    verdict: str


Most = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class _Request(Struct):
    limits: tuple[tuple[str, str, str, Most], ...]
    """Program, manager, metric, most."""

    def __post_init__(self) -> None:
        if not {metric for _, _, metric, _ in self.limits} <= set(_KNOWN):
            raise ValueError("limits: one is of a metric that cannot have one")


def study_of(metric: str) -> str:
    """The study that measures ``metric``, or UsageError when none does that can have limits."""
    of_study = DERIVED.get(metric, (metric,))[0]
    for study, metrics in WITH_LIMITS.items():
        if of_study in metrics:
            return study
    close = get_close_matches(metric, _KNOWN, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(_KNOWN)}"
    raise UsageError(f"'{metric}' is not a metric that can have a limit", hint)


def unit_of(metric: str) -> str:
    """The unit of a metric, or ``share``."""
    return "share" if metric in DERIVED or metric.endswith("_share") else METRICS[metric].unit


def title_of(metric: str) -> str:
    return "share of the manager" if metric in DERIVED else METRICS[metric].title


def most_of(metric: str, given: str | float) -> float:
    """What a limit says, in the metric's unit: a number, or 24MiB, 300ms, 15%, 5M."""
    study_of(metric)
    if not isinstance(given, str):
        return _sound(metric, float(given))
    if unit_of(metric) == "B":
        return _sound(metric, float(parse_size(given)))
    match = _NUMBER.fullmatch(given.strip())
    factors = _SECONDS if unit_of(metric) == "s" else _COUNTS
    if match is None or match["unit"] not in factors:
        written = "300ms or 2s" if unit_of(metric) == "s" else "15%, 1.3 or 5M"
        raise UsageError(f"'{given}' is not a limit of {metric}", f"write it like {written}")
    return _sound(metric, float(match["number"]) * factors[match["unit"]])


def _sound(metric: str, most: float) -> float:
    if not math.isfinite(most) or most < 0:
        raise UsageError(f"{most} is not a limit of {metric}", "give a number that is not negative")
    return most


def shown(metric: str, value: float | None) -> str:
    """A value of ``metric`` for a table."""
    if value is None:
        return "-"
    unit = unit_of(metric)
    return f"{value:.1%}" if unit == "share" else format_value(value, unit)


def limits_in(document: Mapping[str, Any]) -> list[tuple[str, str, str, float]]:
    """The limits that run.json holds: program, manager, metric, most. UsageError where it holds
    something else."""
    try:
        limits = converted(document.get("request"), _Request).limits
    except DocumentError:
        raise UsageError("run.json has no limits", "these are not results of tare check") from None
    return list(limits)


def judged(results: Results) -> list[Judged]:
    """Each limit of the results of `tare check`, held against what was measured."""
    found = []
    for program, manager, metric, most in limits_in(results.document):
        values = _values(results, program, manager, metric)
        middle = statistics.median_interval(values, results.run.seed)
        if middle is None:
            row = Judged(program, manager, metric, most, 0, None, None, None, NO_FIGURE)
        else:
            word = KEPT if middle.high <= most else OVER if middle.low > most else UNSETTLED
            figures = middle.median, middle.low, middle.high
            row = Judged(program, manager, metric, most, len(values), *figures, word)
        found.append(row)
    return found


def is_broken(rows: Sequence[Judged], *, strict: bool) -> bool:
    """Whether any limit is; ``strict`` wants all of them kept beyond doubt."""
    failing = {OVER, NO_FIGURE, *((UNSETTLED,) if strict else ())}
    return any(row.verdict in failing for row in rows)


def _values(results: Results, program: str, manager: str, metric: str) -> list[float]:
    good = results.measurements.filter(
        (pl.col("program") == program)
        & (pl.col("manager") == manager)
        & (pl.col("study") == study_of(metric))
        & (pl.col("status") == "ok")
        & pl.col("value").is_finite()
    ).sort("order")

    def of(name: str) -> dict[int, float]:
        rows = good.filter(pl.col("metric") == name).select("order", "value").rows()
        return {int(order): float(value) for order, value in rows}

    if metric not in DERIVED:
        return list(of(metric).values())
    part, whole = map(of, DERIVED[metric])
    return [value / whole[order] for order, value in part.items() if whole.get(order)]
