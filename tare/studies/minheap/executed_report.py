"""The study behind `tare minheap -- PROGRAM`: the minimum heap of a program under each collector of
its runtime, executed.

A run is the whole search for one collector, by ``tare.studykit.least_heap.executed``; its record
holds every trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tare.base.units import format_bytes
from tare.records import summary
from tare.records.header import Amount, Asked, Header
from tare.records.metrics import Obtained, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import (
    Field,
    Kind,
    Row,
    counts,
    numbers,
    ratios,
    seconds,
    sizes,
    table,
    texts,
)
from tare.report.model import Section, Table
from tare.studies.minheap.replayed_report import trials_row
from tare.studykit.least_heap.executed import HIGH, LOW, STUDY

TITLE = "The minimum heap under each collector"


class AskedOfExecuted(Asked, frozen=True, kw_only=True):
    slow: Amount


class ExecutedRun(Header, frozen=True, kw_only=True):
    request: AskedOfExecuted


summarise = partial(summary.summarise_range, first_metric=HIGH)


def section(results: Results) -> Section:
    """Findings and tables of the searches in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    tables = [_table(good), _trials_table(records)]
    findings = _findings(results.run_as(ExecutedRun).request.slow, good)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[],
        obtained=Obtained.EXECUTED,
    )


def _findings(slow: float, good: Sequence[Record]) -> list[str]:
    sentences = []
    if good:
        best = min(good, key=_high)
        sentences.append(
            f"The smallest minimum heap is that of {best.run.manager}: {format_bytes(_high(best))}."
        )
    sentences.append(
        "A heap is large enough if the program succeeds in it and takes at most "
        f"{slow:g} times its processor time in a large heap."
    )
    return sentences


def _high(record: Record) -> float:
    return float(record.outcome.values[HIGH])


def _table(good: Sequence[Record]) -> Table:
    least = min(map(_high, good), default=1.0)
    between = "The minimum heap lies between these: the program never fitted up to the first."
    fields: list[Field[Row]] = [
        texts("collector", "The collector.", "manager"),
        sizes("minimum heap", "From this heap on the program always fitted.", HIGH),
        texts(
            "interval", between, lambda row: f"{format_bytes(row[LOW])} – {format_bytes(row[HIGH])}"
        ),
        ratios(
            "over the least",
            "The minimum heap divided by the smallest minimum heap.",
            lambda row: row[HIGH] / least,
        ),
        seconds("time", "Wall time in the minimum heap.", "wall_seconds"),
        Kind("{:.0%}".format)(
            "collector time",
            "Share of that time in which the program was stopped.",
            lambda row: row["collector_seconds"] / row["wall_seconds"],
        ),
        counts("collections", "In the minimum heap.", "collections", essential=False),
        counts("trials", "The runs of the search.", "trials"),
    ]
    rows = [
        {**record.outcome.values, "manager": record.run.manager}
        for record in sorted(good, key=_high)
    ]
    return table("table-minheap-executed", "Minimum heaps", rows, fields)


def _trials_table(records: Sequence[Record]) -> Table:
    slow = "Runs that took too much time, most of it collecting."
    fields: list[Field[Row]] = [
        texts("collector", "The collector.", "manager"),
        numbers("fitted", "Runs that succeeded.", "ok"),
        numbers("out of memory", "Runs in which live objects did not fit.", "out-of-memory"),
        numbers("too slow", slow, "timeout"),
        numbers("crashed", "Runs that failed in another way.", "failed"),
    ]
    rows = map(trials_row, records)
    return table("table-minheap-executed-trials", "The trials", rows, fields)
