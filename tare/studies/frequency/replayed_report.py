"""The study behind `tare frequency T.tare`: how often a collector of a replay traces and reclaims.

A collector with one period and one rate of reclamation is one manager of the study. Its heap is so
large that it never fills by itself, so all full collections are those of the period. Each manager
is held against the one that differs from it in one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tare.base.units import format_bytes, format_count, format_percent
from tare.campaign import rounds
from tare.records import summary
from tare.records.metrics import METRICS, Obtained
from tare.records.results import Results
from tare.report.comparison import OF_ALL_RUNS, compared, medians, runs
from tare.report.fields import (
    Field,
    R,
    Row,
    counts,
    numbers,
    percents,
    seconds,
    sizes,
    table,
    texts,
)
from tare.report.model import Figure, Section, Table
from tare.studykit import contrasts
from tare.studykit.contrasts import Contrast
from tare.studykit.replays import ReplayRun
from tare.studykit.sweep_tables import Curve, Panel, effect, option_sizes, ratio_figure
from tare.studykit.sweeps import size_text

STUDY = "frequency-replayed"
OBSERVER = "replay"
TITLE = "How often to collect, replayed"
MUTATOR, COLLECTOR = "mutator_seconds", "collector_seconds"
EACH_TIME = 1
_PUBLISHED = (
    "Published for mimalloc behind a collector of Java's DaCapo programs (Sareen and Blackburn, "
    "MPLR 2022, section 5): periods of 8, 16 and 32 MB hardly change the mutator's time; three "
    "programs gain more than 1% from longer periods, through later reclamation and not through "
    "fewer traces."
)


@dataclass(frozen=True)
class Setting:
    """``manager`` is the name of ``collector`` with a collection each ``period`` bytes, of which
    each ``reclaim``-th reclaims."""

    manager: str
    collector: str
    period: int
    reclaim: int


class FrequencyRun(ReplayRun, frozen=True, kw_only=True):
    settings: tuple[Setting, ...]


def _find(settings: Sequence[Setting], period: int, reclaim: int) -> Setting | None:
    return next((s for s in settings if (s.period, s.reclaim) == (period, reclaim)), None)


def _shortest(each: Setting, settings: Sequence[Setting]) -> Setting | None:
    found = _find(settings, min(s.period for s in settings), each.reclaim)
    return found if found != each else None


def _each_reclaims(each: Setting, settings: Sequence[Setting]) -> Setting | None:
    return _find(settings, each.period, EACH_TIME) if each.reclaim != EACH_TIME else None


def _fewer_traces(each: Setting, settings: Sequence[Setting]) -> Setting | None:
    """What reclaims as often, and traces only then."""
    longer = _find(settings, each.period * each.reclaim, EACH_TIME)
    return longer if each.reclaim != EACH_TIME else None


CONTRASTS = (
    Contrast(
        "period",
        "Mutator time against the collection period",
        "Longer periods, compared with the shortest",
        "relative to the shortest",
        _shortest,
    ),
    Contrast(
        "reclaiming",
        "Mutator time against reclaiming later",
        "Reclaiming at every Nth collection only, compared with every one",
        "relative to reclaiming at each",
        _each_reclaims,
    ),
    Contrast(
        "tracing",
        "Mutator time against tracing more often",
        "Tracing more often, but reclaiming as often",
        "relative to fewer traces",
        _fewer_traces,
    ),
)
Answers = contrasts.Answers[Setting]


next_round = partial(rounds.next_round, study=STUDY, observer=OBSERVER)
summarise = summary.summarise_apart


def section(results: Results) -> Section:
    """Findings, tables and figures of a results folder."""
    run = results.run_as(FrequencyRun)
    answers = contrasts.answers(results, run.settings, CONTRASTS, MUTATOR)
    tables = [_table(answers), _collections_table(answers)]
    findings = _findings(run, answers)
    figures = [_figure(answers, contrast) for contrast in CONTRASTS]
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[figure for figure in figures if figure is not None],
        obtained=Obtained.REPLAYED,
    )


def _findings(run: FrequencyRun, answers: Answers) -> list[str]:
    counted = run.schedule
    sentences = [
        f"Replayed: {format_count(counted.objects)} objects, "
        f"{format_bytes(counted.allocated_bytes)}, at most "
        f"{format_bytes(counted.peak_bytes)} at one moment."
    ]
    for collector, settings in answers.groups.items():
        parts = [
            f"{contrast.what}: {effect(seen, METRICS[MUTATOR].title, 'every')}."
            for contrast in CONTRASTS
            if (
                seen := [
                    (_label(each), row)
                    for each in settings
                    if (row := answers.row(contrast, each)) is not None
                ]
            )
        ]
        shares = [
            f"{format_percent(share)} every {_label(each)}"
            for each in settings
            if each.reclaim == EACH_TIME and (share := _share(answers, each)) is not None
        ]
        if shares:
            parts.append(f"Share of the replay in collections: {', '.join(shares)}.")
        if parts:
            sentences.append(f"Under {collector}: {' '.join(parts)}")
    return [*sentences, _PUBLISHED]


def _label(each: Setting) -> str:
    period = size_text(each.period)
    return period if each.reclaim == EACH_TIME else f"{period} × {each.reclaim}"


def _share(answers: Answers, each: Setting) -> float | None:
    medians = answers.medians(each, MUTATOR, COLLECTOR)
    if medians is None or not (whole := sum(medians.values())):
        return None
    return medians[COLLECTOR] / whole


def _setting_fields(setting: Callable[[R], Setting]) -> list[Field[R]]:
    reclaim = "Every Nth collection reclaims; the others only trace."
    return [
        texts("collector", "What served the objects.", lambda row: setting(row).collector),
        option_sizes(
            "every", "Bytes allocated between two collections.", lambda row: setting(row).period
        ),
        numbers("reclaim", reclaim, lambda row: setting(row).reclaim),
    ]


def _table(answers: Answers) -> Table:
    mutator = answers.summarised(MUTATOR)
    helps = {
        "to shortest": "Divided by that of the shortest period with the same reclaim.",
        "to each": "Divided by that of the same period, reclaiming at each collection.",
        "to fewer": "Divided by that of the period that reclaims as often, without other traces: "
        "what these cost.",
    }
    fields: list[Field[Setting]] = [
        *_setting_fields(lambda each: each),
        medians("mutator", METRICS[MUTATOR].explanation + OF_ALL_RUNS, mutator),
        *(
            compared(title, help, answers.against(contrast))
            for (title, help), contrast in zip(helps.items(), CONTRASTS, strict=True)
        ),
        runs(mutator),
    ]
    notes = [
        "coloured: a difference beyond noise; dim: no difference seen. Where nothing differs, one "
        "95% interval in twenty misses 1 by chance."
    ]
    return table("table-frequency-replayed", "Mutator time", answers.settings, fields, notes)


def _collections_table(answers: Answers) -> Table:
    peak, longest = "peak_reserved_bytes", "max_pause_seconds"

    fields: list[Field[Row]] = [
        *_setting_fields(lambda row: row["setting"]),
        counts(
            "full",
            "Collections of the whole heap.",
            lambda row: row["collections"] - row["nursery_collections"],
        ),
        counts.metric("minor", "nursery_collections"),
        seconds.metric("in collections", COLLECTOR),
        percents(
            "share",
            "Of the whole replay.",
            lambda row: row[COLLECTOR] / (row[MUTATOR] + row[COLLECTOR]),
        ),
        seconds(
            "mean pause",
            "Time in collections, divided by the number of pauses.",
            lambda row: row[COLLECTOR] / row["pauses"] if row["pauses"] else 0.0,
        ),
        seconds("longest pause", f"{METRICS[longest].explanation} The median of runs.", longest),
        sizes.metric("peak", peak),
    ]
    names = ("collections", "nursery_collections", MUTATOR, COLLECTOR, "pauses", longest, peak)
    rows = [row for row in answers.with_medians(*names) if row[MUTATOR] + row[COLLECTOR]]
    notes = [
        "medians of the runs. Traces between two reclamations go over dead objects, too.",
        "runs with the same period have as many full collections, unless a heap filled up before.",
    ]
    identifier = "table-frequency-replayed-collections"
    return table(identifier, "Collections", rows, fields, notes)


def _figure(answers: Answers, contrast: Contrast[Setting]) -> Figure | None:
    periods = sorted({each.period for group in answers.groups.values() for each in group})
    rates = sorted({each.reclaim for group in answers.groups.values() for each in group})
    panels = []
    for collector, settings in answers.groups.items():
        curves = []
        for rate in rates:
            by_period = {
                each.period: answers.row(contrast, each)
                for each in settings
                if each.reclaim == rate
            }
            if any(row is not None for row in by_period.values()):
                name = "each reclaims" if rate == EACH_TIME else f"one in {rate} reclaims"
                curves.append(Curve(name, [by_period.get(period) for period in periods]))
        panels.append(Panel(collector, curves))
    return ratio_figure(
        f"frequency-replayed-{contrast.identifier}",
        contrast.title,
        f"{contrast.what}. Dot: ratio of the medians, filled if it differs; line: its 95% "
        "interval. The steps are not to scale.",
        panels,
        [[size_text(period)] for period in periods],
        ("bytes allocated between collections", f"mutator time, {contrast.against}"),
    )
