"""`tare weigh`: how fast a Java program allocates, and how its collectors stop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tare.base.units import format_bytes, format_count, format_percent, format_seconds
from tare.records import summary
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.comparison import TIME, collections_table, ranking, summary_rows
from tare.report.fields import Field, Kind, counts, percents, seconds, sizes, table, texts
from tare.report.model import Section, Table
from tare.studies.compare import report as compare
from tare.studykit.budget import Setting
from tare.studykit.sweep_tables import Pauses, Rows, merged, pause_figure
from tare.weighing import java_bill

RUNTIME = java_bill.RUNTIME
IDENTIFIER = "java-pauses"
TITLE = "Allocation and pauses"
ORDER = 15
NAMES = ("pauses",)

_ALLOCATED = "heap_allocated_bytes"
_STOPPED = "collector_seconds"
_LONGEST = "max_pause_seconds"


def least_seconds(_setting: Setting) -> float:
    return 0.0


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
    baseline = results.run.baseline
    rows = summary_rows(summary.summarise(mine, baseline, results.run.seed))
    program = results.run.programs[0].name
    measured = [
        manager
        for manager in results.run.managers
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
            f"It allocates {format_bytes(allocated)} in a run, {format_bytes(allocated / wall)} "
            f"per second under {knowing[0]}."
        )
    pauses = _median(rows, program, first, "pauses") or 0.0
    stopped = _median(rows, program, first, _STOPPED) or 0.0
    wall = _median(rows, program, first, TIME) or 1.0
    longest = _median(rows, program, first, _LONGEST)
    if longest is None:
        sentences.append(f"{first} never pauses the program.")
    else:
        sentences.append(
            f"{first} pauses it {format_count(pauses)} time{'' if pauses == 1 else 's'}, for "
            f"{format_seconds(stopped)} in total ({format_percent(stopped / wall)} of its time) "
            f"and at most {format_seconds(longest)} at once."
        )
    known = {m: at for m in managers if (at := _median(rows, program, m, _LONGEST)) is not None}
    if len(known) > 1:
        best = min(known, key=lambda manager: known[manager])
        sentences.append(f"Lowest maximum pause: {format_seconds(known[best])}, under {best}.")
    return sentences


def _table(rows: Rows, program: str, managers: Sequence[str]) -> Table:
    def value(metric: str) -> Callable[[str], float | None]:
        return lambda manager: _median(rows, program, manager, metric)

    def wall(manager: str) -> float:
        return value(TIME)(manager) or 1.0

    def rate(manager: str) -> float | None:
        allocated = value(_ALLOCATED)(manager)
        return None if allocated is None else allocated / wall(manager)

    def metric(kind: Kind, title: str, name: str, essential: bool = True) -> Field[str]:
        return kind(title, METRICS[name].explanation, value(name), essential=essential)

    a_second = f"{METRICS[_ALLOCATED].explanation} Divided by the time."
    fields: list[Field[str]] = [
        texts("manager", "The collector.", str),
        sizes("allocated a second", a_second, rate, essential=False),
        metric(counts, "collections", "collections", essential=False),
        metric(counts, "pauses", "pauses"),
        metric(seconds, "stopped", _STOPPED),
        percents(
            "share",
            "Share of its time in which it was stopped.",
            lambda manager: (value(_STOPPED)(manager) or 0.0) / wall(manager),
        ),
        metric(seconds, "median pause", "median_pause_seconds"),
        metric(seconds, "longest pause", _LONGEST),
        metric(seconds, "collector CPU", "collector_cpu_seconds"),
    ]
    notes = [
        "Collector CPU: processor time of the collector's threads, including concurrent ones.",
    ]
    return table("table-java-pauses", "Pauses (medians of the runs)", managers, fields, notes)


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
