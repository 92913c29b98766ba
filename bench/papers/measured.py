"""What was measured, as small rows that are kept with the sources: the page is made of these.

A row is the median over the good runs of one program under one manager in one step, with its ratio
to the step's baseline. Only metrics that the page shows are kept.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import tare
from bench.papers.steps import Size, Step, code_of
from tare.breakdown.components import COMPONENTS, metric
from tare.errors import TareError
from tare.results import load

FILE = Path(__file__).with_name("measured.csv")

Values = Mapping[str, float]
COMPONENT_METRICS = frozenset(map(metric, COMPONENTS))

DERIVED: Mapping[str, Callable[[Values], float]] = {
    "average_bytes": lambda v: v["allocated_bytes"] / v["objects"],
    "instructions_per_malloc": lambda v: v["malloc_instructions"] / v["malloc_calls"],
    "instructions_per_free": lambda v: v["free_instructions"] / v["free_calls"],
    "instructions_per_object": lambda v: v["manager_instructions"] / v["objects"],
    "manager_share": lambda v: v["manager_instructions"] / v["instructions"],
    "manager_per_program": lambda v: (
        v["manager_instructions"] / (v["instructions"] - v["manager_instructions"])
    ),
    "processor_seconds": lambda v: v["user_seconds"] + v["system_seconds"],
    "heap_bytes": lambda v: v["resident_bytes"] - v["other_bytes"],
    **{
        f"{name}_share": lambda v, name=name: v[metric(name)] / v["instructions"]  # type: ignore[misc]
        for name in COMPONENTS
    },
}
"""Quantities of the papers that are made of several metrics."""
KEPT = frozenset(
    """instructions manager_instructions malloc_calls malloc_instructions free_calls
    free_instructions objects allocated_bytes max_live_objects max_live_bytes user_seconds
    system_seconds wall_seconds peak_resident_bytes resident_bytes other_bytes heap_expansion_ratio
    peak_free_bytes peak_last_use_bytes drag_ratio min_heap_high_bytes mutator_seconds
    after_1_ratio after_2_ratio after_10_ratio""".split()
)
WITH_RATIO = frozenset({"wall_seconds", "peak_resident_bytes", "mutator_seconds"})


@dataclass(frozen=True)
class Measured:
    """``size`` is that of the step. Ratios are to the step's baseline; None where there is none."""

    step: str
    size: str
    date: str
    version: str
    program: str
    manager: str
    metric: str
    runs: int
    median: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


def collect(
    planned: Sequence[Step], results: Path, size: Size, report: Callable[[str], None]
) -> list[Measured]:
    """The rows of all steps that are done; what cannot be read is told of."""
    found: list[Measured] = []
    for step in planned:
        if code_of(step, results) is None:
            continue
        try:
            found += _rows(step, step.folder(results), size)
        except (OSError, TareError) as error:
            report(f"{step.name}: {error}")
    return found


def _rows(step: Step, folder: Path, size: Size) -> list[Measured]:
    results = load(folder)
    run = results.run
    rows = []
    for row in tare.summary(results).iter_rows(named=True):
        if row["metric"] not in KEPT | COMPONENT_METRICS or row["median"] is None:
            continue
        ratios = (row[name] for name in _RATIOS)
        rows.append(
            Measured(
                step.name,
                size,
                run["finished"][:10],
                run["tare"],
                row["program"],
                row["manager"],
                row["metric"],
                row["runs"],
                row["median"],
                *(ratios if row["metric"] in WITH_RATIO else ()),
            )
        )
    return rows


def merged(old: Iterable[Measured], new: Iterable[Measured]) -> list[Measured]:
    """The new rows in place of the old ones of their steps; a reduced step replaces no full one."""
    old, new = list(old), list(new)
    full = {row.step for row in old if row.size == Size.FULL}
    new = [row for row in new if row.size == Size.FULL or row.step not in full]
    replaced = {row.step for row in new}
    kept = [row for row in old if row.step not in replaced]
    return sorted(kept + new, key=lambda row: (row.step, row.program, row.manager, row.metric))


def read(file: Path = FILE) -> list[Measured]:
    if not file.exists():
        return []
    with file.open(newline="") as text:
        return [_parsed(row) for row in csv.DictReader(text)]


def _parsed(row: Mapping[str, str]) -> Measured:
    return Measured(
        row["step"],
        row["size"],
        row["date"],
        row["version"],
        row["program"],
        row["manager"],
        row["metric"],
        int(row["runs"]),
        float(row["median"]),
        *(float(row[name]) if row[name] else None for name in _RATIOS),
    )


_COLUMNS = tuple(field.name for field in fields(Measured))
_RATIOS = ("ratio", "ratio_low", "ratio_high")


def write(rows: Iterable[Measured], file: Path = FILE) -> None:
    with file.open("w", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(_short(row) for row in rows)


def _short(row: Measured) -> list[str]:
    """Six digits are more than any of these is known to."""
    return [
        "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        for value in astuple(row)
    ]
