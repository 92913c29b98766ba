"""`tare weigh`: how fast a Java program allocates, and how its collectors stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tare.base.units import format_bytes, format_count, format_percent, format_seconds
from tare.records import summary
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.comparison import TIME, collections_table, ranking, summary_rows
from tare.report.model import Cell, Column, Section, Table
from tare.studies.compare import report as compare
from tare.studykit.budget import Setting
from tare.studykit.sweep_tables import Pauses, Rows, merged, pause_figure
from tare.weighing import java_bill

RUNTIME = java_bill.RUNTIME
IDENTIFIER = "java-pauses"
TITLE = "Allocation and pauses"
ORDER = 15

_ALLOCATED = "heap_allocated_bytes"
_STOPPED = "collector_seconds"
_LONGEST = "max_pause_seconds"


def expected_runs(_setting: Setting) -> int:
    """None: the runs of the section on time show it."""
    return 0


def expected_seconds(_setting: Setting) -> float:
    return 0.0


def next_runs(_setting: Setting, _records: Sequence[Record]) -> list[Run]:
    return []


def section(results: Results) -> Section:
    """The allocation rate, and pauses under each collector."""
    mine = results.measurements.filter(results.measurements["study"] == compare.STUDY)
    baseline = results.run["baseline"]
    rows = summary_rows(summary.summarise(mine, baseline, results.run["seed"]))
    program = results.run["programs"][0]["name"]
    measured = [
        manager
        for manager in results.run["managers"]
        if _median(rows, program, manager, _STOPPED) is not None
    ]
    if not measured:
        return Section(IDENTIFIER, TITLE, findings=["No run showed its collections."])
    managers = ranking(rows, program, measured, baseline)
    pauses = _pauses(results, managers)
    figure = pause_figure(
        "java-pauses",
        "How long the pauses were",
        "The area of a bar is the share of the collector's pauses of that length, in all runs; a "
        "tick is the longest.",
        [("pauses under", pauses)],
    )
    return Section(
        identifier=IDENTIFIER,
        title=TITLE,
        findings=_findings(rows, program, managers),
        tables=[
            _table(rows, program, managers),
            replace(collections_table(rows, program, managers), essential=False),
        ],
        figures=[figure] if figure is not None else [],
    )


def _median(rows: Rows, program: str, manager: str, metric: str) -> float | None:
    row = rows.get((program, manager, metric))
    return None if row is None else row["median"]


def _findings(rows: Rows, program: str, managers: Sequence[str]) -> list[str]:
    """Of the baseline, which is first; and of the collector with the shortest pauses."""
    first = managers[0]
    sentences = []
    knowing = [m for m in managers if _median(rows, program, m, _ALLOCATED) is not None]
    if knowing:
        allocated = _median(rows, program, knowing[0], _ALLOCATED) or 0.0
        wall = _median(rows, program, knowing[0], TIME) or 1.0
        sentences.append(
            f"It allocates {format_bytes(allocated)} in a run, {format_bytes(allocated / wall)} a "
            f"second under {knowing[0]}."
        )
    pauses = _median(rows, program, first, "pauses") or 0.0
    stopped = _median(rows, program, first, _STOPPED) or 0.0
    wall = _median(rows, program, first, TIME) or 1.0
    longest = _median(rows, program, first, _LONGEST)
    if longest is None:
        sentences.append(f"{first} never stops it.")
    else:
        sentences.append(
            f"{first} stops it {format_count(pauses)} times, for {format_seconds(stopped)} in all, "
            f"{format_percent(stopped / wall)} of its time; for {format_seconds(longest)} at most."
        )
    known = {m: at for m in managers if (at := _median(rows, program, m, _LONGEST)) is not None}
    if len(known) > 1:
        best = min(known, key=lambda manager: known[manager])
        sentences.append(
            f"The shortest longest pause is that of {best}, {format_seconds(known[best])}."
        )
    return sentences


def _table(rows: Rows, program: str, managers: Sequence[str]) -> Table:
    columns = [
        Column("manager", "What collected.", numeric=False),
        Column(
            "allocated a second",
            f"{METRICS[_ALLOCATED].explanation} Divided by the time.",
            essential=False,
        ),
        Column("collections", METRICS["collections"].explanation, essential=False),
        Column("pauses", METRICS["pauses"].explanation),
        Column("stopped", METRICS[_STOPPED].explanation),
        Column("share", "Time in which it was stopped, divided by the time."),
        Column("median pause", METRICS["median_pause_seconds"].explanation),
        Column("longest pause", METRICS[_LONGEST].explanation),
        Column("collector CPU", METRICS["collector_cpu_seconds"].explanation),
    ]
    lines = []
    for manager in managers:
        found = {
            metric: _median(rows, program, manager, metric)
            for metric in (
                "collections",
                "pauses",
                _STOPPED,
                "median_pause_seconds",
                _LONGEST,
                "collector_cpu_seconds",
            )
        }
        wall = _median(rows, program, manager, TIME) or 1.0
        allocated = _median(rows, program, manager, _ALLOCATED)
        rate = None if allocated is None else allocated / wall
        share = (found[_STOPPED] or 0.0) / wall
        lines.append(
            [
                Cell(manager, manager),
                Cell("–" if rate is None else format_bytes(rate), rate),
                _count(found["collections"]),
                _count(found["pauses"]),
                _seconds(found[_STOPPED]),
                Cell(format_percent(share), share),
                _seconds(found["median_pause_seconds"]),
                _seconds(found[_LONGEST]),
                _seconds(found["collector_cpu_seconds"]),
            ]
        )
    notes = [
        "collector CPU: processor time of the collector's threads, those beside the program "
        "included.",
    ]
    return Table("table-java-pauses", "Pauses (medians of the runs)", columns, lines, notes)


def _count(value: float | None) -> Cell:
    return Cell("–" if value is None else format_count(value), value)


def _seconds(value: float | None) -> Cell:
    return Cell("–" if value is None else format_seconds(value), value)


def _pauses(results: Results, managers: Sequence[str]) -> list[Pauses]:
    """The pauses of all good runs under each."""
    good = [
        record
        for record in read_records(results.folder)
        if record.run.study == compare.STUDY
        and not record.run.warmup
        and record.outcome.status is Status.OK
    ]
    found = []
    for manager in managers:
        outcomes = [record.outcome for record in good if record.run.manager == manager]
        histograms = [each.details[RUNTIME]["pause_histogram"] for each in outcomes]
        longest = max((each.values.get(_LONGEST, 0.0) for each in outcomes), default=0.0)
        found.append(Pauses(manager, merged(histograms), longest))
    return found
