"""Runs that another tool did: what it measured, as tables; nothing here is planned or run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tare.base.libraries import pl
from tare.base.text import shortened, visible
from tare.records import summary
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.records.summary import Row
from tare.report.comparison import measured, summary_rows
from tare.report.fields import Field, counts, numbers, sizes, table, texts
from tare.report.model import Figure, Section, Table
from tare.studies.imported import dumps

STUDY = "import"
TITLE = "What was imported"
_ESSENTIAL_METRICS = 4
_SHOWN_MISSING = 5


def summarise(measurements: pl.DataFrame, baseline: str, seed: int) -> pl.DataFrame:
    """As ``tare.records.summary.summarise``. The runs were not interleaved by Tare: how far they
    were, the tool that did them knows."""
    return summary.summarise(measurements, baseline, seed, in_turns=False)


def section(results: Results) -> Section:
    """Findings and tables of a results folder."""
    run = results.run
    rows = summary_rows(summarise(results.measurements, run.baseline, run.seed))
    told = run.imported
    assert told is not None
    findings = [f"Done and measured by {told.tool}, not by Tare.", *told.notes]
    findings += [f"Missing: {text}." for text in told.missing[:_SHOWN_MISSING]]
    if (more := len(told.missing) - _SHOWN_MISSING) > 0:
        findings.append(f"And {more} more are missing.")
    programs = list(dict.fromkeys(program for program, _, _ in rows))
    tables = [
        _table(rows, program, run.baseline, f"table-imported-{number}")
        for number, program in enumerate(programs, 1)
    ]
    figures: list[Figure] = []
    for number, record in enumerate(read_records(results.folder), 1):
        tables += _places_tables(record, f"table-places-{number}")
        if record.outcome.status is Status.OK and (dump := dumps.dump_of(record)) is not None:
            program = record.run.program
            tables += dumps.tables(program, dump, number)
            figures += dumps.figures(program, dump, f"figure-dump-{number}")
            findings += dumps.sentences(dump)
    return Section(identifier=STUDY, title=TITLE, findings=findings, tables=tables, figures=figures)


def _table(
    rows: Mapping[tuple[str, str, str], Row], program: str, baseline: str, identifier: str
) -> Table:
    """A line per manager; of each metric the median, and its ratio to the baseline."""
    managers = list(dict.fromkeys(manager for p, manager, _ in rows if p == program))
    metrics = [
        name
        for name in METRICS
        if any((rows.get((program, m, name)) or {}).get("median") is not None for m in managers)
    ]
    several = len(managers) > 1
    against = f"The median divided by that under {baseline}."
    of_few = "Of the ratio; the extreme ratios when runs are few."

    def row_of(metric: str) -> Callable[[str], Row | None]:
        return lambda manager: rows.get((program, manager, metric))

    def runs(manager: str) -> int:
        found = (rows.get((program, manager, name)) for name in metrics)
        return max((row["runs"] for row in found if row is not None), default=0)

    fields: list[Field[str]] = [texts("manager", "The name of its configuration.", str)]
    for place, name in enumerate(metrics):
        metric, essential = METRICS[name], place < _ESSENTIAL_METRICS
        median, ratio, interval = measured(
            metric.title, metric.explanation, against, row_of(name), of_few
        )
        fields += [
            replace(median, essential=essential),
            replace(ratio, essential=essential, shown=several),
            replace(interval, essential=False, shown=several),
        ]
    runs_help = "Runs counted."
    fields.append(numbers("runs", runs_help, runs, essential=False))
    return table(identifier, program, managers, fields)


def _places_tables(record: Record, identifier: str) -> list[Table]:
    """Where a program allocated, of a profile by place."""
    places: Sequence[Mapping[str, Any]] = record.outcome.details.get("places", ())
    if not places or record.outcome.status is not Status.OK:
        return []
    unit = record.outcome.details["unit"]
    written = "Bytes written, each as often as it was."
    fields: list[Field[Row]] = [
        texts("place", "The innermost frames, the innermost first.", _place),
        sizes("bytes", "All that was allocated there.", "tb"),
        counts("blocks", "Number of these objects.", "tbk"),
        sizes("at the peak", "Of these bytes, those held at the peak.", "gb"),
        sizes("at the end", "Of these bytes, those held at the end.", "eb"),
        counts(
            "lifetime",
            f"Mean lifetime of an object, in {unit}.",
            lambda place: place["tl"] / max(place["tbk"], 1) if "tl" in place else None,
            essential=False,
        ),
        sizes("read", "Bytes read, each as often as it was.", "rb", essential=False),
        sizes("written", written, "wb", essential=False),
    ]
    left = record.outcome.details["all_places"] - len(places)
    more = f"{left:,} more place{'s' if left > 1 else ''}"
    notes = [f"and {more} with fewer bytes."] if left > 0 else []
    return [table(identifier, "Where it allocates", places, fields, notes)]


def _place(place: Row) -> str:
    return shortened(visible(" < ".join(place["frames"][:3])), 100)
