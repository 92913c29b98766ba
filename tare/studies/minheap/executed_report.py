"""The study behind `tare minheap -- PROGRAM`: the least heap of a program under each collector of
its runtime, executed.

A run is the whole search for one collector, by ``tare.studykit.least_heap.executed``; its record
holds every trial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tare.base.libraries import pl
from tare.base.units import format_bytes, format_count, format_value
from tare.records import summary
from tare.records.metrics import Obtained, Status
from tare.records.results import Results, read_records, telling_damage
from tare.records.runs import Record
from tare.report.comparison import failure_table
from tare.report.model import Cell, Column, Section, Table
from tare.studykit.least_heap.executed import HIGH, LOW, STUDY

TITLE = "The least heap under each collector"
STATUSES = ("ok", "out-of-memory", "timeout", "failed")
"""Of trials, in the order of the columns that count them."""


def summarise(measurements: pl.DataFrame, baseline: str, seed: int) -> pl.DataFrame:
    """As ``tare.records.summary.summarise_range``."""
    return summary.summarise_range(measurements, baseline, seed, HIGH)


def section(results: Results) -> Section:
    """Findings and tables of the searches in a results folder. UsageError where the folder holds
    something else."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    with telling_damage(results):
        tables = [_table(good), _trials_table(records)]
        findings = _findings(results.run["request"]["slow"], good)
    if (failures := failure_table(results, STUDY)) is not None:
        tables.insert(0, failures)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[],
        obtained=Obtained.EXECUTED,
        took_seconds=results.run.get("took_seconds"),
    )


def _findings(slow: float, good: Sequence[Record]) -> list[str]:
    sentences = []
    if good:
        best = min(good, key=_high)
        sentences.append(
            f"The collector that gets by with least is {best.run.manager}: "
            f"{format_bytes(_high(best))}."
        )
    sentences.append(
        "A heap counts as large enough when the program ends well in it and takes at most "
        f"{slow:g} times the processor time of a large heap."
    )
    return sentences


def _high(record: Record) -> float:
    return float(record.outcome.values[HIGH])


def _table(good: Sequence[Record]) -> Table:
    """A line per collector, the smallest heap first."""
    columns = [
        Column("collector", "What collected.", numeric=False),
        Column("least heap", "From this heap on the program always fitted."),
        Column(
            "interval",
            "The least heap lies between these: none that was tried up to the first fitted.",
            numeric=False,
        ),
        Column("over the least", "The least heap divided by the smallest of them."),
        Column("time", "Wall time in the least heap."),
        Column("collector time", "Of that, the share in which the program was stopped."),
        Column("collections", "In the least heap.", essential=False),
        Column("trials", "The runs that it was found with."),
    ]
    least = min(map(_high, good), default=1.0)
    lines = []
    for record in sorted(good, key=_high):
        values = record.outcome.values
        low, high, wall = values[LOW], values[HIGH], values["wall_seconds"]
        between = f"{format_bytes(low)} – {format_bytes(high)}"
        share = values["collector_seconds"] / wall
        lines.append(
            [
                Cell(record.run.manager, record.run.manager),
                Cell(format_bytes(high), high),
                Cell(between, between),
                Cell(f"{high / least:.2f}", high / least),
                Cell(format_value(wall, "s"), wall),
                Cell(f"{share:.0%}", share),
                Cell(format_count(values["collections"]), values["collections"]),
                Cell(format_count(values["trials"]), values["trials"]),
            ]
        )
    return Table("table-minheap-executed", "Least heaps", columns, lines)


def _trials_table(records: Sequence[Record]) -> Table:
    columns = [
        Column("collector", "What collected.", numeric=False),
        Column("fitted", "Runs that ended well."),
        Column("out of memory", "Runs whose heap was too small for what lives."),
        Column("too slow", "Runs that took too much time, most of it collecting."),
        Column("crashed", "Runs that ended by another failure."),
    ]
    lines = []
    for record in records:
        counts = Counter(status for _, status, _ in record.outcome.details.get("trials", ()))
        lines.append(
            [
                Cell(record.run.manager, record.run.manager),
                *(Cell(str(counts[status]), counts[status]) for status in STATUSES),
            ]
        )
    return Table("table-minheap-executed-trials", "The trials", columns, lines)
