"""The study behind `tare frequency -m jvm.serial -- PROGRAM`: how often a JVM collects.

A collector with one young and one full period is one manager of the study. Each is held against the
one that differs from it in one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.libraries import pl
from tare.base.units import format_count, format_percent, format_seconds
from tare.campaign import rounds
from tare.campaign.rounds import Plan, planned_runs
from tare.records import summary
from tare.records.results import Results, telling_damage
from tare.records.runs import Record, Run
from tare.report.comparison import failure_table, measured_cells, ratio_cell
from tare.report.model import Cell, Column, Figure, Section, Table
from tare.studykit import contrasts
from tare.studykit.contrasts import Contrast
from tare.studykit.sweep_tables import Curve, Panel, effect, ratio_figure
from tare.studykit.sweeps import size_text

STUDY = "frequency-executed"
TITLE = "How often a JVM collects"
MUTATOR, COLLECTOR = "mutator_seconds", "collector_seconds"
NEVER = 0
"""A full period: no full collection is asked for."""

__all__ = ["STUDY", "Plan", "next_round", "planned_runs", "section", "summarise"]


@dataclass(frozen=True)
class Setting:
    """``manager`` is the name of ``collector`` with a young collection each ``period`` bytes and a
    full one each ``full`` bytes."""

    manager: str
    collector: str
    period: int
    full: int


def _find(settings: Sequence[Setting], period: int, full: int) -> Setting | None:
    return next((s for s in settings if (s.period, s.full) == (period, full)), None)


def _shortest(each: Setting, settings: Sequence[Setting]) -> Setting | None:
    found = _find(settings, min(setting.period for setting in settings), each.full)
    return found if found != each else None


def _without_full(each: Setting, settings: Sequence[Setting]) -> Setting | None:
    return _find(settings, each.period, NEVER) if each.full != NEVER else None


CONTRASTS = (
    Contrast(
        "period",
        "Mutator time against the young period",
        "relative to the shortest period",
        "shortest",
        _shortest,
    ),
    Contrast(
        "full",
        "Mutator time against full collections",
        "relative to no full collections",
        "no full ones",
        _without_full,
    ),
)
Answers = contrasts.Answers[Setting]


def next_round(plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next, given those that are done; empty when the study is complete."""
    return rounds.next_round(plan, records, STUDY)


def summarise(measurements: pl.DataFrame, baseline: str, seed: int) -> pl.DataFrame:
    """As ``tare.records.summary.summarise``."""
    return summary.summarise(measurements, baseline, seed)


def section(results: Results) -> Section:
    """Findings, tables and figures of a results folder. UsageError where it holds something
    else."""
    with telling_damage(results):
        settings = [Setting(**raw) for raw in results.run["settings"]]
        answers = contrasts.answers(results, settings, CONTRASTS, MUTATOR)
        tables = [_table(answers), _collections_table(answers)]
        findings = _findings(answers)
        figures = [_figure(answers, contrast) for contrast in CONTRASTS]
    if (failures := failure_table(results)) is not None:
        tables.insert(0, failures)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[figure for figure in figures if figure is not None],
        took_seconds=results.run.get("took_seconds"),
    )


def _full_text(full: int) -> str:
    return "never" if full == NEVER else size_text(full)


def _findings(answers: Answers) -> list[str]:
    sentences = []
    for collector, settings in answers.groups.items():
        for contrast in CONTRASTS:
            rows = [
                (f"{size_text(each.period)} (full: {_full_text(each.full)})", row)
                for each in settings
                if (row := answers.row(contrast, each)) is not None
            ]
            if rows:
                said = effect(rows, "mutator time")
                sentences.append(f"{collector}, {contrast.what}: {said}.")
    sentences.append(
        "Mutator time is wall time without the pauses. A period moves the young generation's size "
        "as well, so what it does to caches and page faults is in it."
    )
    return sentences


def _table(answers: Answers) -> Table:
    columns = [
        Column("collector", "What collected.", numeric=False),
        Column("young", "Bytes allocated between young collections."),
        Column("full", "Bytes allocated between full collections."),
        Column("mutator time", "Wall time without the pauses; the median of all runs."),
        *(
            Column(f"to {contrast.against}", f"Median mutator time, {contrast.what}.")
            for contrast in CONTRASTS
        ),
        Column("runs", "Good runs that the figures rest on.", essential=False),
    ]
    lines = []
    for settings in answers.groups.values():
        for each in settings:
            row = answers.rows.get((answers.program, each.manager, MUTATOR))
            known = row is not None and row["median"] is not None
            lines.append(
                [
                    Cell(each.collector, each.collector),
                    Cell(size_text(each.period), each.period),
                    Cell(_full_text(each.full), each.full),
                    measured_cells(row if known else None)[0],
                    *(ratio_cell(answers.row(contrast, each)) for contrast in CONTRASTS),
                    Cell(str(row["runs"]), row["runs"]) if row else Cell("0", 0),
                ]
            )
    notes = ["coloured: a difference beyond noise; dim: no difference seen."]
    return Table("table-frequency-executed", "Mutator time", columns, lines, notes)


def _collections_table(answers: Answers) -> Table:
    columns = [
        Column("collector", "What collected.", numeric=False),
        Column("young", "Bytes allocated between young collections, as asked."),
        Column("full", "Bytes allocated between full collections, as asked."),
        Column("measured", "Bytes allocated in the heap divided by the collections that were."),
        Column("collections", "All of them."),
        Column("full ones", "Of them, those of the whole heap."),
        Column("in pauses", "Time in which the program was stopped."),
        Column("share", "Of the wall time, that in pauses."),
        Column("longest", "The longest pause."),
    ]
    names = (
        "heap_allocated_bytes",
        "collections",
        "full_collections",
        COLLECTOR,
        "wall_seconds",
        "max_pause_seconds",
    )
    lines = []
    for settings in answers.groups.values():
        for each in settings:
            medians = answers.medians(each, *names)
            if medians is None:
                continue
            allocated, collections, full, stopped, wall, longest = medians
            measured = allocated / collections if collections else 0.0
            lines.append(
                [
                    Cell(each.collector, each.collector),
                    Cell(size_text(each.period), each.period),
                    Cell(_full_text(each.full), each.full),
                    Cell(f"{measured / (1 << 20):.2f} MiB", measured),
                    Cell(format_count(collections), collections),
                    Cell(format_count(full), full),
                    Cell(format_seconds(stopped), stopped),
                    Cell(format_percent(stopped / wall), stopped / wall),
                    Cell(format_seconds(longest), longest),
                ]
            )
    notes = [
        "medians of the runs. a full collection cuts the young period that it comes in short, so "
        "with full ones the measured period is less than what was asked."
    ]
    return Table("table-frequency-executed-collections", "Collections", columns, lines, notes)


def _figure(answers: Answers, contrast: Contrast[Setting]) -> Figure | None:
    settings = [each for group in answers.groups.values() for each in group]
    periods = sorted({each.period for each in settings})
    panels = []
    for collector, group in answers.groups.items():
        curves = []
        for full in sorted({each.full for each in group}):
            by_period = {
                each.period: answers.row(contrast, each) for each in group if each.full == full
            }
            if any(row is not None for row in by_period.values()):
                name = f"full: {_full_text(full)}"
                curves.append(Curve(name, [by_period.get(period) for period in periods]))
        panels.append(Panel(collector, curves))
    return ratio_figure(
        f"frequency-executed-{contrast.identifier}",
        contrast.title,
        "Dot: ratio of the medians, filled if it differs; line: its 95% interval. The steps are "
        "not to scale.",
        panels,
        [[size_text(period)] for period in periods],
        ("bytes allocated between young collections", f"mutator time, {contrast.what}"),
    )
