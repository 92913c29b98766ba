"""What was measured, as small rows that are kept with the sources: the page is made of these.

A row is the median over the good runs of one program under one manager in one step, with its ratio
to the step's baseline. Only metrics that the page shows are kept.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

import tare
from bench.java_space import HEAPS_OF_A_PROGRAM
from bench.papers.steps import JAVA_SPACE, Size, Step, code_of
from tare.base.errors import TareError
from tare.campaign import drift
from tare.records.components import COMPONENTS, IN_COLLECTIONS
from tare.records.metrics import Status
from tare.records.results import counted, load, read_records
from tare.records.runs import Record
from tare.studies.breakdown import memory_tables
from tare.studies.breakdown import report as breakdown
from tare.studies.breakdown.details import Model

FILE = Path(__file__).with_name("measured.csv")

Values = Mapping[str, float]

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
}
"""Quantities of the papers that are made of several metrics."""
KEPT = frozenset(
    """instructions manager_instructions malloc_calls malloc_instructions free_calls
    free_instructions objects allocated_bytes max_live_objects max_live_bytes user_seconds
    system_seconds wall_seconds peak_resident_bytes resident_bytes other_bytes heap_expansion_ratio
    peak_free_bytes peak_last_use_bytes drag_ratio mutator_seconds
    after_1_ratio after_2_ratio after_10_ratio""".split()
)
LEAST_HEAP = frozenset({"min_heap_high_bytes"})
BREAKDOWN = frozenset({"instructions"})
COMPONENTS_OF_1994 = tuple(
    """roots copy promotion major moveback allocation gc_check integer_tag record_tag
    position_independent write_barrier""".split()
)
MEMORY = frozenset(
    """reads_share writes_share allocated_words misses_before misses_after spatial_locality_bound
    cache_size_bound instruction_cache_estimate collections_wait_share storage_share""".split()
) | {f"{name}_share" for name in COMPONENTS_OF_1994}
"""What the tables of 1994 have, of a simulated memory system."""
WITH_RATIO = frozenset({"wall_seconds", "peak_resident_bytes", "mutator_seconds"})


@dataclass(frozen=True)
class Measured:
    """``size`` is that of the step. Ratios are to the step's baseline; None where there is none.
    ``machine`` is as reports name it; empty where it was not recorded."""

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
    machine: str = field(default="", kw_only=True)


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
    if step.name == JAVA_SPACE:
        return [
            row
            for each in sorted(folder.glob(f"*{HEAPS_OF_A_PROGRAM}"))
            for row in _summary(
                step, each, size, LEAST_HEAP, each.name.removesuffix(HEAPS_OF_A_PROGRAM)
            )
        ]
    if step.name.startswith("least-heap-"):
        return _summary(step, folder, size, LEAST_HEAP)
    if step.name.endswith("-breakdown"):
        return _summary(step, folder, size, BREAKDOWN) + _components(step, folder, size)
    return _summary(step, folder, size, KEPT, step.program)


def _summary(
    step: Step, folder: Path, size: Size, kept: Collection[str], program: str = ""
) -> list[Measured]:
    """Of a results folder; ``program`` is a shorter name for the one that is there."""
    results = load(folder)
    run = results.run
    rows = []
    for row in tare.summary(results).iter_rows(named=True):
        if row["metric"] not in kept or row["median"] is None:
            continue
        ratios = (row[name] for name in _RATIOS)
        rows.append(
            Measured(
                step.name,
                size,
                run.finished[:10],
                run.tare,
                program or row["program"],
                row["manager"],
                row["metric"],
                row["runs"],
                row["median"],
                *(ratios if row["metric"] in WITH_RATIO else ()),
                machine=drift.hardware(run),
            )
        )
    return rows


def _components(step: Step, folder: Path, size: Size) -> list[Measured]:
    """Shares of the time of the first model that was simulated; without one, of instructions."""
    run = load(folder).run
    date, version, machine = run.finished[:10], run.tare, drift.hardware(run)
    return [
        Measured(
            step.name,
            size,
            date,
            version,
            done.program,
            done.manager,
            metric,
            1,
            value,
            machine=machine,
        )
        for record in counted(read_records(folder))
        if record.outcome.status is Status.OK and record.run.observer == breakdown.OBSERVER
        for done in (record.run,)
        for metric, value in _of_1994(record).items()
    ]


def _of_1994(record: Record) -> dict[str, float]:
    models = breakdown.details_of(record).memory
    shares = breakdown.shares_of(record)
    return of_memory(models[0]) if models else _named(shares)


def _named(shares: Mapping[str, float]) -> dict[str, float]:
    """Of the components that the page shows, and of all together."""
    shown = {f"{name}_share": shares[name] for name in COMPONENTS_OF_1994}
    return shown | {"storage_share": sum(shares.values())}


def of_memory(model: Model) -> dict[str, float]:
    """What the tables of 1994 have; without miss rates where there was no collection."""
    instructions = memory_tables.instructions(model, COMPONENTS)
    waits = memory_tables.stalls(model, IN_COLLECTIONS)
    return {
        "reads_share": model.reads / instructions,
        "writes_share": model.writes / instructions,
        "allocated_words": float(model.allocated_words),
        **{
            f"misses_{when}": read.misses / read.reads
            for when, read in (("before", model.before), ("after", model.after))
            if read.reads
        },
        "spatial_locality_bound": memory_tables.spatial_bound(model),
        "cache_size_bound": memory_tables.cache_size_bound(model),
        "instruction_cache_estimate": memory_tables.instruction_cache_estimate(model),
        "collections_wait_share": waits / memory_tables.cycles(model),
        **_named(memory_tables.shares_of_time(model)),
    }


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
        machine=row.get("machine") or "",
    )


_COLUMNS = tuple(column.name for column in fields(Measured))
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
