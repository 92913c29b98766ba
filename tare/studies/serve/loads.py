"""What a load generator printed, read: requests per second and latencies, or what went wrong."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.studykit.printed import PERCENTILES, Pattern, found_in, joined, value_of

_NEAR = 0.9
"""A listed percentile stands for another one where it leaves out nine tenths as many requests, or
more, but not more requests than that one."""
_MOST_TROUBLE = 200


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
    values.update(found_in(output, own))
    return Read(values, name, trouble)


def _figures(reader: _Reader, output: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for pattern in reader.figures:
        for match in pattern.finditer(output):
            for metric, text in match.groupdict().items():
                found.setdefault(metric, []).append(value_of(metric, text, reader.unit))
    return {metric: joined(metric, values) for metric, values in found.items()}


def _percentiles(reader: _Reader, output: str) -> dict[str, float]:
    if reader.percentile is None:
        return {}
    listed = [
        (float(match["percent"]), value_of("", match["value"], reader.unit))
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
        nearest = min((percent for percent, _ in near), default=None)
        values = [value for percent, value in near if percent == nearest]
        values += [each[-1][1] for each in _lists(listed) if _is_greatest_at(wanted, each)]
        if values:
            found[metric] = max(values)
    return found


def _lists(listed: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Percentiles and values list by list: where a percentile is less than the one before it,
    another list begins."""
    lists: list[list[tuple[float, float]]] = []
    for percent, value in listed:
        if not lists or percent < lists[-1][-1][0]:
            lists.append([])
        lists[-1].append((percent, value))
    return lists


def _is_greatest_at(wanted: float, ascending: Sequence[tuple[float, float]]) -> bool:
    """Whether a percentile up to ``wanted`` has the value of 100%: then all in between have it, and
    a list may leave them out."""
    percent, greatest = ascending[-1]
    return percent == 100 and any(value == greatest for each, value in ascending if each <= wanted)


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
