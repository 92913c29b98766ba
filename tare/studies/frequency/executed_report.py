"""The study behind `tare frequency -m jvm.serial -- PROGRAM`: how often a JVM collects.

A collector with one young and one full period is one manager of the study. Each is held against the
one that differs from it in one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tare.campaign import rounds
from tare.records import summary
from tare.records.header import Header
from tare.records.results import Results
from tare.report.comparison import compared, medians, runs
from tare.report.fields import Field, Kind, R, Row, counts, percents, seconds, table, texts
from tare.report.model import Figure, Section, Table
from tare.studykit import contrasts
from tare.studykit.contrasts import Contrast
from tare.studykit.sweep_tables import Curve, Panel, effect, option_sizes, ratio_figure
from tare.studykit.sweeps import size_text

STUDY = "frequency-executed"
TITLE = "How often a JVM collects"
MUTATOR, COLLECTOR = "mutator_seconds", "collector_seconds"
_NOT_OF_MMTK = ("heap_allocated_bytes", "full_collections")
NEVER = 0
"""A full period: no full collection is asked for."""


@dataclass(frozen=True)
class Setting:
    """``manager`` is the name of ``collector`` with a young collection each ``period`` bytes and a
    full one each ``full`` bytes."""

    manager: str
    collector: str
    period: int
    full: int


class FrequencyRun(Header, frozen=True, kw_only=True):
    settings: tuple[Setting, ...]


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


next_round = partial(rounds.next_round, study=STUDY)
summarise = summary.summarise_apart


def section(results: Results) -> Section:
    """Findings, tables and figures of a results folder."""
    run = results.run_as(FrequencyRun)
    answers = contrasts.answers(results, run.settings, CONTRASTS, MUTATOR)
    tables = [_table(answers), _collections_table(answers)]
    findings = _findings(answers)
    figures = [_figure(answers, contrast) for contrast in CONTRASTS]
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[figure for figure in figures if figure is not None],
    )


def _full_text(full: int) -> str:
    return "not asked" if full == NEVER else size_text(full)


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
        "Mutator time is wall time without the pauses. A longer period also touches more memory, "
        "so effects on caches and page faults are part of the result."
    )
    return sentences


def _setting_fields(setting: Callable[[R], Setting], asked: str = "") -> list[Field[R]]:
    young = "Bytes allocated between young collections, under MMTk between all"
    return [
        texts("collector", "The collector.", lambda row: setting(row).collector),
        option_sizes("young", f"{young}{asked}.", lambda row: setting(row).period),
        Kind(lambda period: _full_text(int(period)))(
            "full",
            f"Bytes allocated between full collections{asked}.",
            lambda row: setting(row).full,
        ),
    ]


def _table(answers: Answers) -> Table:
    mutator = answers.summarised(MUTATOR)
    fields: list[Field[Setting]] = [
        *_setting_fields(lambda each: each),
        medians("mutator time", "Wall time without the pauses; the median of all runs.", mutator),
        *(
            compared(
                f"to {contrast.against}",
                f"Median mutator time, {contrast.what}.",
                answers.against(contrast),
            )
            for contrast in CONTRASTS
        ),
        runs(mutator),
    ]
    notes = ["coloured: a difference beyond noise; dim: no difference seen."]
    return table("table-frequency-executed", "Mutator time", answers.settings, fields, notes)


def _measured(row: Row) -> float | None:
    allocated, collections = row.get("heap_allocated_bytes"), row["collections"]
    return None if allocated is None else allocated / collections if collections else 0.0


def _collections_table(answers: Answers) -> Table:
    wall, longest = "wall_seconds", "max_pause_seconds"
    fields: list[Field[Row]] = [
        *_setting_fields(lambda row: row["setting"], ", as asked"),
        Kind(lambda period: f"{period / (1 << 20):.2f} MiB")(
            "measured",
            "Bytes allocated in the heap divided by the number of collections.",
            _measured,
        ),
        counts("collections", "All of them.", "collections"),
        counts("full ones", "Collections of the whole heap.", "full_collections"),
        seconds("in pauses", "Time in which the program was stopped.", COLLECTOR),
        percents(
            "share", "Share of the wall time in pauses.", lambda row: row[COLLECTOR] / row[wall]
        ),
        seconds("longest", "The longest pause.", longest),
    ]
    rows = [
        {**row, **(answers.medians(row["setting"], *_NOT_OF_MMTK) or {})}
        for row in answers.with_medians("collections", COLLECTOR, wall, longest)
    ]
    notes = [
        "medians of the runs. A full collection cuts the current young period short, so with full "
        "collections the measured period is shorter than asked."
    ]
    return table("table-frequency-executed-collections", "Collections", rows, fields, notes)


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
