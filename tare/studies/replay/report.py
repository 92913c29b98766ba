"""The study behind `tare replay`: the allocations of one program under each manager.

As in ``tare.studies.compare.report``, the managers take turns in a random order and the baseline
runs twice a round. Time is that of the replay alone, without the reading of the trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tare.base.libraries import pl
from tare.base.units import format_bytes, format_count, format_floor, format_percent
from tare.campaign import rounds
from tare.records import summary
from tare.records.metrics import METRICS, Obtained
from tare.records.results import Results
from tare.report.comparison import (
    INTERVAL,
    OF_ALL_RUNS,
    measured,
    medians,
    runs,
    summary_rows,
)
from tare.report.fields import SERVED, Field, Row, ratios, table, texts
from tare.report.figures import comparison as figures
from tare.report.figures.intervals import interval_figure
from tare.report.model import Figure, Section, Table
from tare.studykit.replays import ReplayRun

STUDY = "replay"
OBSERVER = "replay"
TITLE = "The same allocations under each manager, replayed"
TIME, MEMORY = "mutator_seconds", "peak_reserved_bytes"
DEATHS = {
    "free": "when the program freed it",
    "unreachable": "when it was found unreachable, or freed before",
    "last-use": "right after its last use",
}
_DETAILS = (
    "collector_seconds",
    "collections",
    "max_pause_seconds",
    "quarantined_bytes",
    "marked_bytes",
    "swept_bytes",
    "peak_active_bytes",
)


next_round = partial(rounds.next_round, study=STUDY, observer=OBSERVER)
summarise = summary.summarise


def section(results: Results) -> Section:
    """Findings, tables and figures of all replays in a results folder."""
    run = results.run_as(ReplayRun)
    summary = summarise(results.measurements, run.baseline, run.seed)
    rows = summary_rows(summary)
    tables: list[Table] = []
    (program,) = (program.name for program in run.programs)
    managers = _ranked(rows, program, list(run.managers), run.baseline)
    tables.append(_table(rows, program, managers, run.baseline))
    if (details := _details(rows, program, managers)) is not None:
        tables.append(details)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=_findings(run, rows, program, managers),
        tables=tables,
        figures=_figures(results, summary),
        obtained=Obtained.REPLAYED,
    )


Rows = Any


def _ranked(rows: Rows, program: str, managers: Sequence[str], baseline: str) -> list[str]:
    """The baseline, then the others from the fastest to the slowest, those without a time last."""

    def place(manager: str) -> tuple[bool, float]:
        row = rows.get((program, manager, TIME))
        known = row is not None and row["median"] is not None
        return manager != baseline, row["median"] if known else float("inf")

    return sorted(managers, key=place)


def _findings(run: ReplayRun, rows: Rows, program: str, managers: Sequence[str]) -> list[str]:
    """What was replayed, and what came of it, in sentences."""
    counted = run.schedule
    death = DEATHS.get(run.request.how.death, "")
    sentences = [
        f"Replayed: {format_count(counted.objects)} objects, "
        f"{format_bytes(counted.allocated_bytes)}, at most "
        f"{format_bytes(counted.peak_bytes)} at one moment; each object dies {death}."
    ]
    good = [m for m in managers if (rows.get((program, m, TIME)) or {}).get("median") is not None]
    for metric, least in (
        (TIME, "the least time, collections not counted"),
        (MEMORY, "the least memory"),
    ):
        of = {m: rows[program, m, metric] for m in good if (program, m, metric) in rows}
        lower = {m: row for m, row in of.items() if row["verdict"] == "lower"}
        if lower:
            best = min(lower, key=lambda manager: float(lower[manager]["median"]))
            sentences.append(
                f"{best} takes {least}: {format_percent(1 - lower[best]['ratio'])} less than "
                f"{run.baseline}."
            )
    sentences.append(
        "A replay does the program's allocations without its work: the times are those of the "
        "manager, and of touching its memory."
    )
    return sentences


def _table(rows: Rows, program: str, managers: Sequence[str], baseline: str) -> Table:
    """A line per manager: time and memory, with their ratios to the baseline."""

    of = functools.partial(_of, rows, program)

    def over_live(manager: str) -> float | None:
        memory, live = of(MEMORY)(manager), of("max_live_bytes")(manager)
        if not memory or not live or memory["median"] is None or not live["median"]:
            return None
        return float(memory["median"] / live["median"])

    replay = "Time of the replay, without collections."
    faster = f"Median time divided by that under {baseline}; below 1 is faster."
    less = f"Median memory divided by that under {baseline}."
    alive = "Median memory divided by the most bytes alive at one moment."
    memory_help = METRICS[MEMORY].explanation + OF_ALL_RUNS
    fields: list[Field[str]] = [
        texts("manager", SERVED, str),
        *measured("time", replay + OF_ALL_RUNS, faster, of(TIME), INTERVAL),
        *measured("memory", memory_help, less, of(MEMORY), INTERVAL),
        ratios("over live", alive, over_live),
        runs(of(TIME)),
    ]
    notes = ["coloured: a difference beyond noise; dim: no difference seen."]
    floor = (rows.get((program, baseline, TIME)) or {}).get("noise_floor")
    if floor is not None:
        notes.append(
            f"noise floor of the time: ratios from {format_floor(floor)} "
            f"({baseline} against itself, interleaved with the others)."
        )
    return table("table-replay", program, managers, fields, notes)


def _details(rows: Rows, program: str, managers: Sequence[str]) -> Table | None:
    """What layers and collectors counted; None where none did."""

    of = functools.partial(_of, rows, program)

    metrics = [
        metric
        for metric in _DETAILS
        if any((of(metric)(manager) or {}).get("median") for manager in managers)
    ]
    if not metrics:
        return None
    fields: list[Field[str]] = [
        texts("manager", SERVED, str),
        *(medians(METRICS[name].title, METRICS[name].explanation, of(name)) for name in metrics),
    ]
    return table("table-replay-details", "Where it goes (medians)", managers, fields)


def _of(rows: Rows, program: str, metric: str) -> Callable[[str], Row | None]:
    """What the rows have of a metric under a manager."""
    return lambda manager: rows.get((program, manager, metric))


def _figures(results: Results, summary: pl.DataFrame) -> list[Figure]:
    baseline = results.run.baseline
    measured = set(summary.filter(pl.col("median").is_not_null())["metric"])
    if not {TIME, MEMORY} <= measured:
        return []
    return [
        interval_figure(summary, TIME, baseline),
        interval_figure(summary, MEMORY, baseline),
        figures.scatter_figure(summary, baseline, TIME, MEMORY),
        figures.distribution_figure(results.measurements, TIME, baseline),
        figures.order_figure(results.measurements, TIME),
    ]
