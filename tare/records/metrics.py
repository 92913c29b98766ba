"""The metrics that studies publish: one table, from which every page takes its words.

A metric's name ends in its unit and keeps its meaning once published.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tare.base.native import PACKAGE
from tare.records.components import COMPONENTS, cycles_metric, metric

_HERE = Path(__file__).resolve().parent
_TABLE = "metrics.csv"


class Status(StrEnum):
    """How one invocation ended. Only ``ok`` carries values."""

    OK = "ok"
    """Exit status 0, served by its manager, output as expected."""
    FAILED = "failed"
    """Another exit status, a signal, or too much output."""
    TIMEOUT = "timeout"
    """Still running at the time limit."""
    OUT_OF_MEMORY = "out-of-memory"
    """Over the memory limit, or ended by the kernel."""
    WRONG_OUTPUT = "wrong-output"
    """Unexpected standard output."""
    NOT_LOADED = "not-loaded"
    """The manager did not serve a process, or it had another part of the machine."""
    NOT_COVERED = "not-covered"
    """The manager served too little of the memory."""


class Obtained(StrEnum):
    """Where a value comes from; shown wherever the value is shown."""

    EXECUTED = "executed"
    SIMULATED = "simulated"
    REPLAYED = "replayed"


@dataclass(frozen=True)
class Metric:
    """A published quantity. ``explanation`` is one sentence for somebody who sees it first."""

    name: str
    title: str
    unit: str
    explanation: str
    obtained: Obtained = Obtained.EXECUTED


_PLACE_OF_COMPONENTS = 1050
_LAST = 1 << 30


def _tables() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The rows of ``metrics.csv`` of this folder and of each study, with the study that measures
    them, read as data: no study is imported. Columns: ``place`` orders tables, and what has none
    comes last; ``first_of`` are observers of which the metric is the first; ``limit`` is ``yes``
    where programs can have a limit on it. A row with a name and ``first_of`` alone is about another
    study's metric."""
    for path in (_HERE / _TABLE, *sorted((PACKAGE / "studies").glob(f"*/{_TABLE}"))):
        study = "compare" if path.parent == _HERE else path.parent.name
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                yield study, row


def _metrics() -> dict[str, Metric]:
    """All of them, in the order of tables."""
    placed = [
        (
            int(row["place"] or _LAST),
            Metric(
                row["name"],
                row["title"],
                row["unit"],
                row["explanation"],
                Obtained(row["obtained"] or Obtained.EXECUTED),
            ),
        )
        for _, row in _ROWS
        if row["title"]
    ]
    placed += [(_PLACE_OF_COMPONENTS, metric) for metric in _of_components()]
    return {metric.name: metric for _, metric in sorted(placed, key=lambda entry: entry[0])}


def _of_components() -> Iterator[Metric]:
    for component in COMPONENTS.values():
        yield Metric(metric(component.name), component.title, "", component.explanation)
    for component in COMPONENTS.values():
        sentence = component.explanation[0].lower() + component.explanation[1:]
        yield Metric(
            cycles_metric(component.name),
            f"{component.title}, cycles",
            "",
            f"Cycles in the first model of the memory system, stalls included: {sentence}",
            Obtained.SIMULATED,
        )


_ROWS = tuple(_tables())
METRICS: dict[str, Metric] = _metrics()

FIRST_METRICS = {observer: row["name"] for _, row in _ROWS for observer in row["first_of"].split()}
"""The metric under which a run that gave no figure is listed, by the observer of the run."""

WITH_LIMITS: Mapping[str, tuple[str, ...]] = {
    study: tuple(row["name"] for whose, row in _ROWS if whose == study and row["limit"])
    for study in dict.fromkeys(study for study, row in _ROWS if row["limit"])
}
"""By study, the metrics that programs can have limits on. Some exist on some machines, or under
some managers only."""

REPLAYING = frozenset({"replay", "minheap", "collectors", "soak"})
"""The observers that follow a trace instead of a program."""


def obtained(metric: str, observer: str) -> Obtained:
    """Where the value comes from: all that a replay tells is replayed, its seconds as well."""
    return Obtained.REPLAYED if observer in REPLAYING else METRICS[metric].obtained


HARDWARE_METRICS = ("cpu_instructions", "cpu_cycles", "cache_misses", "tlb_misses")
"""Measured only where the machine offers the counters; elsewhere there is no column for them."""
