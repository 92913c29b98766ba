"""`tare weigh`: what storage management takes of a program with a runtime that a descriptor tells
of, by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tare.campaign.planning import Plan
from tare.observers.protocol import Observe
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.comparison import failure_tables
from tare.report.model import Section
from tare.studies.breakdown import memory
from tare.studies.breakdown import report as breakdown
from tare.studykit.budget import Effort, Setting
from tare.studykit.instrumented import is_built, left_out

IDENTIFIER = "storage"
TITLE = breakdown.TITLE
ORDER = 25
WORTH = 2.0
NAMES = ("breakdown",)

START_SECONDS = 3.0
"""What Valgrind's core takes to start, and disassembly of the code that a typical program runs."""
SLOWDOWN = 60.0
"""Of typical programs, the memory system of a DECstation simulated."""


def applies(results: Results) -> bool:
    """Whether the program has a runtime that there is a descriptor of."""
    return bool(results.run.storage_runtime)


def observers(setting: Setting) -> Mapping[str, Observe]:
    from tare.studies.breakdown import observe as run  # loads a disassembler

    models = memory.load((memory.DEFAULT_MODEL,))
    return {
        breakdown.OBSERVER: run.observer(setting.storage_runtime, models),
        breakdown.PAGES: run.count_pages,
    }


def run_seconds(pilot_seconds: float) -> float:
    """What one run will take, judged by the pilot run."""
    return START_SECONDS + SLOWDOWN * pilot_seconds


def least_seconds(setting: Setting) -> float:
    known = setting.storage_runtime and is_built()
    return run_seconds(setting.pilot_seconds) if known else 0.0


def expected_runs(setting: Setting) -> int:
    """One run, under the baseline, if it fits into the section's share of the time."""
    if not setting.storage_runtime or not is_built():
        return 0
    fits = run_seconds(setting.pilot_seconds) <= setting.budget_seconds
    return int(fits or setting.effort is Effort.THOROUGH)


def expected_seconds(setting: Setting) -> float:
    return expected_runs(setting) * run_seconds(setting.pilot_seconds)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The run to do, unless it is done or does not fit."""
    if not expected_runs(setting):
        return []
    return breakdown.next_round(Plan((setting.program,), (setting.baseline,)), records)


def section(results: Results) -> Section:
    """The components, or why they were not counted."""
    if any(record.run.study == breakdown.STUDY for record in read_records(results.folder)):
        whole = breakdown.section(results, IDENTIFIER, TITLE)
        return replace(whole, tables=[*failure_tables(results), *whole.tables])
    seconds = run_seconds(results.run.pilot_seconds)
    reason = left_out(results, "analysing", "analyses", "breakdown", seconds, SLOWDOWN)
    return Section(IDENTIFIER, TITLE, findings=[reason])
