"""`tare weigh`: what another collector would change in a Java program's time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tare.base.units import format_bytes
from tare.campaign import rounds
from tare.observers import runner
from tare.observers.protocol import Observe
from tare.records import summary
from tare.records.actions import Action, Kind
from tare.records.header import Header
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.report.comparison import (
    COLLECTIONS_TABLE,
    comparison_section,
    failure_tables,
    summary_rows,
)
from tare.report.model import Section
from tare.studies.compare import report as compare
from tare.studies.compare import weigh as time_and_memory
from tare.studykit.budget import Setting
from tare.weighing import java_bill

RUNTIME = java_bill.RUNTIME
IDENTIFIER = "java-time"
TITLE = "Time and memory under other collectors"
ORDER = 10
WORTH = 4.0
NAMES = ("compare", "time", "memory")

_QUICK_MANAGERS = ("jvm.serial", "jvm.parallel")


def observers(_setting: Setting) -> Mapping[str, Observe]:
    return {"runner": java_bill.without(runner.run_once, java_bill.COLLECTOR)}


def least_seconds(setting: Setting) -> float:
    return time_and_memory.least_seconds(setting, _QUICK_MANAGERS)


def expected_runs(setting: Setting) -> int:
    """How many runs that makes when nothing fails."""
    return rounds.planned_runs(time_and_memory.plan(setting, _QUICK_MANAGERS))


def expected_seconds(setting: Setting) -> float:
    """What measuring will take, judged by the pilot run."""
    return expected_runs(setting) * time_and_memory.run_seconds(setting)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The runs to do next; empty when the section has all it needs."""
    mine = [record for record in records if record.run.study == compare.STUDY]
    return compare.next_round(time_and_memory.plan(setting, _QUICK_MANAGERS), mine)


def section(results: Results) -> Section:
    """The verdict in words, over the tables and figures of the comparison."""
    mine = results.measurements.filter(results.measurements["study"] == compare.STUDY)
    summarised = summary.summarise(mine, results.run.baseline, results.run.seed)
    whole = comparison_section(Results(results.folder, results.document, mine), summarised)
    # The next section has the collections.
    tables = [each for each in whole.tables if each.identifier != COLLECTIONS_TABLE]
    compared = time_and_memory.compared(results, "collector")
    findings, commands = time_and_memory.verdict(results.run, compared, summary_rows(summarised))
    return replace(
        whole,
        identifier=IDENTIFIER,
        title=TITLE,
        findings=[*findings, *time_and_memory.left_out(results), *_as_it_is(results.run)],
        tables=[*failure_tables(results, compare.STUDY), *tables],
        commands=commands,
    )


def actions(results: Results) -> list[Action]:
    """Another collector for speed, and one for memory, as far as a gain was seen."""
    compared = time_and_memory.compared(results, "collector")
    return time_and_memory.actions_of(results, compared, Kind.COLLECTOR)


def _as_it_is(run: Header) -> list[str]:
    """What the program runs under when nothing is changed."""
    java = run.java
    if java is None or not java.collector:
        return []
    size = f", in a heap of up to {format_bytes(java.heap_bytes)}" if java.heap_bytes else ""
    return [f"By default it runs under jvm.{java.collector} of Java {java.version}{size}."]
