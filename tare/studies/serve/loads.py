"""What a load generator printed, read: requests per second and latencies, or what went wrong."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import harmonic_mean

from tare.base.errors import UsageError

RATE = "requests_per_second"
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
}
"""The metrics that ``--metric`` takes, by the names that people type."""
_NEAR = 0.9
"""A listed percentile stands for another one where it leaves out nine tenths as many requests, or
more, but not more requests than that one."""
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_COUNTS = (RATE, "unsent_requests")
_TIME = re.compile(r"(?P<number>[\d.]+)(?P<unit>us|ms|s|m|h)?")
_MOST_TROUBLE = 200


@dataclass(frozen=True)
class Pattern:
    """A pattern that the user gave for a metric; its first group is the value."""

    metric: str
    text: str


@dataclass(frozen=True)
class Read:
    """``values`` by metric; ``reader`` is the generator whose output it is, or "". ``trouble`` is
    what the output says of failed requests."""

    values: Mapping[str, float]
    reader: str
    trouble: str = ""


@dataclass(frozen=True)
class _Reader:
    shows: re.Pattern[str]
    figures: Sequence[re.Pattern[str]]
    percentile: re.Pattern[str] | None
    unit: str
    trouble: Sequence[re.Pattern[str]]


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


def read_load(output: str, own: Sequence[Pattern] = ()) -> Read:
    """The figures of one load. Where it prints several results of a kind, the rate is their
    harmonic mean, as of one after the other with as many requests each, and a latency is the
    longest. The user's ``own`` patterns go first."""
    output = output.replace("\r", "\n")
    name, reader = next(
        ((name, reader) for name, reader in _readers().items() if reader.shows.search(output)),
        ("", None),
    )
    values: dict[str, float] = {}
    trouble = ""
    if reader is not None:
        values.update(_percentiles(reader, output))
        values.update(_figures(reader, output))
        troubles = [found[0] for each in reader.trouble for found in each.finditer(output)]
        trouble = "; ".join(" ".join(each.split()) for each in troubles)[:_MOST_TROUBLE]
    for each in own:
        matched = (match[1] for match in re.finditer(each.text, output, re.MULTILINE))
        if found := [_number(each.metric, text, "s") for text in matched if text]:
            values[each.metric] = _joined(each.metric, found)
    return Read(values, name, trouble)


def _figures(reader: _Reader, output: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for pattern in reader.figures:
        for match in pattern.finditer(output):
            for metric, text in match.groupdict().items():
                found.setdefault(metric, []).append(_number(metric, text, reader.unit))
    return {metric: _joined(metric, values) for metric, values in found.items()}


def _percentiles(reader: _Reader, output: str) -> dict[str, float]:
    if reader.percentile is None:
        return {}
    listed = [
        (float(match["percent"]), _number("", match["value"], reader.unit))
        for match in reader.percentile.finditer(output)
    ]
    found = {}
    for metric, wanted in PERCENTILES.items():
        rest = 100 - wanted
        near = [
            (percent, value)
            for percent, value in listed
            if _NEAR * rest <= round(100 - percent, 6) <= round(rest, 6)
        ]
        if near:
            nearest = min(percent for percent, _ in near)
            found[metric] = max(value for percent, value in near if percent == nearest)
    return found


def _number(metric: str, text: str, unit: str) -> float:
    match = _TIME.fullmatch(text)
    try:
        number = float(match["number"]) if match else float(text)
    except ValueError:
        raise UsageError(f"the load printed {text[:40]!r} where a number was looked for") from None
    if metric in _COUNTS:
        return number
    return number * _SECONDS[(match["unit"] if match else None) or unit]


def _joined(metric: str, values: Sequence[float]) -> float:
    return harmonic_mean(values) if metric == RATE else max(values)


@functools.cache
def _readers() -> Mapping[str, _Reader]:
    document = tomllib.loads((Path(__file__).parent / "loads.toml").read_text("utf-8"))
    return {
        name: _Reader(
            _compiled(table["shows"]),
            [*_all(table["figures"])],
            _compiled(table["percentile"]) if "percentile" in table else None,
            table["unit"],
            [*_all(table["trouble"])],
        )
        for name, table in document.items()
    }


def _all(patterns: Iterable[str]) -> Iterable[re.Pattern[str]]:
    return map(_compiled, patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def known_loads() -> Sequence[str]:
    """The generators whose output is understood."""
    return tuple(_readers())
