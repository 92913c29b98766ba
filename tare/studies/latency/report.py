"""The study behind `tare compare --latency`: how long each call of malloc and free takes.

Runs of their own, behind the timed ones: in rounds of random order, and then one under each manager
that looks for the causes of long calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from msgspec.structs import asdict

from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.base.units import format_bytes, format_percent, format_seconds
from tare.campaign import planning, rounds
from tare.heap_traces.frames import site_text
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, counted, read_records
from tare.records.runs import Record, Run
from tare.records.summary import Row, summarise
from tare.report.comparison import (
    change,
    measured_cells,
    medians,
    ratio_cell,
    runs,
    summary_rows,
)
from tare.report.fields import MANAGER, Field, Kind, counts, seconds, table, texts
from tare.report.fields import Row as FieldRow
from tare.report.figures.percentiles import Percentiles, percentile_figure
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.latency.details import Details, OfSite, OfSize, Timed
from tare.studies.latency.observe import CAUSES_OBSERVER, OBSERVER, PERCENTILES, WITH_METRICS

STUDY = "latency"
TITLE = "How long calls of malloc and free take"
MOST_RUNS = FEWEST_FOR_INTERVAL
_CAUSES = (
    *("long_calls", "long_faulted_calls", "long_waited_calls"),
    *("long_preempted_calls", "long_other_calls"),
)
_MOST_ORIGINS = 5
"""Call sites under each manager that a table has."""
_FEWEST_TO_COMPARE = 2
"""Timed runs, with those that are not; one says nothing."""
_SHARES = (50, 99, 99.9, 99.99)
_Rows = Mapping[tuple[str, str, str], Row]

__all__ = ["STUDY", "next_round", "planned_runs", "section", "summarise"]


def next_round(plan: rounds.Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next behind the timed ones, under the managers that had a good one of these;
    empty when all are done."""
    for program in plan.programs:
        managers = _served(plan, program, records)
        if plan.baseline not in managers:
            continue
        here = replace(
            plan,
            programs=(program,),
            managers=managers,
            runs=min(plan.runs, MOST_RUNS),
            warmup=0,
            precision=None,
        )
        others = [r for r in records if r.run.observer != CAUSES_OBSERVER]
        if timed := rounds.next_round(here, others, STUDY, OBSERVER):
            last = max((r.run.order for r in records), default=0)
            return [replace(run, order=last + place) for place, run in enumerate(timed, 1)]
        once = planning.Plan((program,), managers)
        if causes := planning.next_round(once, records, STUDY, CAUSES_OBSERVER):
            return causes
    return []


def _served(plan: rounds.Plan, program: str, records: Sequence[Record]) -> tuple[str, ...]:
    good = {
        r.run.manager
        for r in records
        if (r.run.program, r.outcome.status) == (program, Status.OK) and r.run.study != STUDY
    }
    return tuple(manager for manager in plan.managers if manager in good)


def planned_runs(plan: rounds.Plan) -> int:
    """How many runs the plan takes when nothing fails."""
    rounds_of_it = min(plan.runs, MOST_RUNS) * rounds.runs_a_round(plan)
    return len(plan.programs) * (rounds_of_it + len(plan.managers))


# ---- what it shows ----


def section(results: Results) -> Section:
    """Tables and figures of the latencies in a results folder; empty where there are none."""
    run = results.run
    mine = results.measurements.filter(pl.col("study") == STUDY)
    if not mine.height:
        return Section(identifier=STUDY, title=TITLE)
    summary = summarise(mine, run.baseline, run.seed)
    records = [
        r
        for r in counted(read_records(results.folder))
        if r.run.study == STUDY and r.outcome.status is Status.OK
    ]
    rows = summary_rows(summary)
    tables: list[Table] = []
    figures: list[Figure] = []
    programs = list(dict.fromkeys(program for program, _, _ in rows))
    for number, program in enumerate(programs, 1):
        of = _Of(program, number, len(programs) > 1, rows, list(run.managers))
        timed = _timed(records, program)
        tables += [_operation_table(of, operation, timed) for operation in WITH_METRICS]
        sites = _long_sites(records, program)
        tables += [_causes_table(of), _origins_table(of, sites), _sizes_table(of, timed)]
        here = summary.filter(pl.col("program") == program)
        figures += [
            figure
            for operation in WITH_METRICS
            if (figure := percentile_figure(here, of.managers, _drawn(of, operation))) is not None
        ]
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=[
            *_findings(rows, run.baseline, programs),
            *longest_calls(results, records),
            *_cost(results, records),
        ],
        tables=[each for each in tables if each.rows],
        figures=figures,
    )


def _findings(rows: _Rows, baseline: str, programs: Sequence[str]) -> list[str]:
    """Of one program, under which managers the slowest calls of malloc take another time."""
    known = {metric for _, _, metric in rows if metric in _metrics("malloc")[:-1]}
    slowest = next((metric for metric in reversed(_metrics("malloc")) if metric in known), "")
    if len(programs) != 1 or not slowest:
        return []
    parts = [
        f"{manager} {change(row, 'time')}"
        for (_, manager, metric), row in rows.items()
        if metric == slowest and row["verdict"] in ("lower", "higher")
    ]
    return [f"{METRICS[slowest].title} against {baseline}: {'; '.join(parts)}."] if parts else []


class _Of:
    """The rows of one of the programs."""

    def __init__(
        self, program: str, number: int, several: bool, rows: _Rows, managers: Sequence[str]
    ) -> None:
        self.program, self.number, self._rows = program, number, rows
        self.of = f": {program}" if several else ""
        self.managers = [name for name in managers if any((program, name) == k[:2] for k in rows)]

    def row(self, metric: str, manager: str) -> Row | None:
        return self._rows.get((self.program, manager, metric))


def _metrics(operation: str) -> list[str]:
    return [f"{operation}_{name}_seconds" for name in (*PERCENTILES, "max")]


def _drawn(of: _Of, operation: str) -> Percentiles:
    shares = dict(zip(_metrics(operation), _SHARES, strict=False))
    title = f"How long a call of {operation} takes, by percentile{of.of}"
    return Percentiles(f"latency-{operation}-{of.number}", title, shares, "runs")


def _timed(records: Sequence[Record], program: str) -> dict[str, list[Timed]]:
    """By manager, what the timed runs of a program saw."""
    found: dict[str, list[Timed]] = {}
    for record in records:
        seen = record.outcome.details_as(Details).latency
        if (record.run.program, record.run.observer) == (program, OBSERVER) and seen is not None:
            found.setdefault(record.run.manager, []).append(seen)
    return found


def _operation_table(of: _Of, operation: str, timed: Mapping[str, Sequence[Timed]]) -> Table:
    """A line for each manager, from the middle to the longest."""

    def calls(manager: str) -> float | None:
        seen = [one.operations[operation].calls for one in timed.get(manager, ()) if one.operations]
        return median(seen) if seen else None

    fields: list[Field[str]] = [texts("manager", MANAGER, str)]
    for metric in _metrics(operation):
        title = METRICS[metric].title.replace(operation, "").strip()
        fields.append(_judged(title, metric, of))
    fields.append(counts("calls", "How many calls a run had.", calls, essential=False))
    longest = partial(of.row, f"{operation}_max_seconds")
    fields.append(runs(longest))
    clock = [one.clock_seconds for each in timed.values() for one in each]
    notes = ["Medians over the runs; coloured: a difference beyond noise."]
    if clock and operation == WITH_METRICS[0]:
        notes.append(
            f"Reading the clock took {format_seconds(median(clock))}, which is taken off; a call "
            "that is as quick cannot be told from none."
        )
    title = f"How long a call of {operation} takes{of.of}"
    managers = [name for name in of.managers if longest(name) is not None]
    return table(f"table-latency-{operation}-{of.number}", title, managers, fields, notes)


def _judged(title: str, metric: str, of: _Of) -> Field[str]:
    """The medians, coloured by the verdict."""

    def value(manager: str) -> Cell:
        row = of.row(metric, manager)
        return replace(measured_cells(row)[0], tone=ratio_cell(row).tone)

    return Field(title, METRICS[metric].explanation, value)


def _causes_table(of: _Of) -> Table:
    managers = [name for name in of.managers if of.row(_CAUSES[0], name) is not None]
    fields: list[Field[str]] = [texts("manager", MANAGER, str)]
    fields += [
        medians(METRICS[name].title, METRICS[name].explanation, partial(of.row, name))
        for name in _CAUSES
    ]
    notes = [
        "Of one more run, which asks the kernel before each call. A call can have several causes."
    ]
    title = f"Calls longer than 20 µs, and what happened in them{of.of}"
    return table(f"table-latency-causes-{of.number}", title, managers, fields, notes)


def _long_sites(records: Sequence[Record], program: str) -> dict[str, Sequence[OfSite]]:
    """By manager, where the long calls of a program come from."""
    return {
        r.run.manager: seen.long_sites
        for r in records
        if (r.run.program, r.run.observer) == (program, CAUSES_OBSERVER)
        and (seen := r.outcome.details_as(Details).latency) is not None
    }


def longest_calls(results: Results, records: Sequence[Record]) -> list[str]:
    """Which call took longest under the baseline, of one program."""
    run = results.run
    if len(run.programs) != 1:
        return []
    sites = _long_sites(records, run.programs[0].name).get(run.baseline, ())
    if not sites:
        return []
    longest = max(sites, key=lambda site: site.max_seconds)
    size = f" of {format_bytes(longest.bytes)}" if longest.operation != "free" else ""
    return [
        f"The longest call under {run.baseline} took {format_seconds(longest.max_seconds)}: "
        f"{longest.operation}{size} by {site_text(longest.frames)}."
    ]


def _origins_table(of: _Of, sites: Mapping[str, Sequence[OfSite]]) -> Table:
    rows = [row for name in of.managers for row in _origins(of, name, sites.get(name, ()))]
    fields: list[Field[FieldRow]] = [
        texts("manager", MANAGER, "manager"),
        texts("call site", "What called, and what called that. ← reads: called by.", _of_site),
        texts("operation", "What it called.", "operation"),
        counts("long calls", METRICS["long_calls"].explanation, "calls"),
        seconds("longest", "The longest of them.", "max_seconds"),
        seconds("together", "All of them.", "seconds"),
        counts(*_title("long_faulted_calls"), "faulted"),
        counts(*_title("long_waited_calls"), "waited"),
        counts(*_title("long_preempted_calls"), "preempted"),
    ]
    title = f"Where calls longer than 20 µs come from{of.of}"
    return table(f"table-latency-origins-{of.number}", title, rows, fields)


def _title(metric: str) -> tuple[str, str]:
    return METRICS[metric].title, METRICS[metric].explanation


def _origins(of: _Of, manager: str, sites: Sequence[OfSite]) -> list[FieldRow]:
    """The call sites whose long calls took most time, and how many calls all others have, those of
    which no stack is known among them."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for site in sites:
        one = {**asdict(site), "manager": manager}
        key = site.operation, site_text(site.frames)
        if (first := found.setdefault(key, one)) is not one:
            for name in ("calls", "seconds", "faulted", "waited", "preempted"):
                first[name] += one[name]
            first["max_seconds"] = max(first["max_seconds"], one["max_seconds"])
    ordered = sorted(found.values(), key=lambda one: -one["seconds"])
    shown, row = ordered[:_MOST_ORIGINS], of.row("long_calls", manager)
    left = (int(row["median"]) if row else 0) - sum(one["calls"] for one in shown)
    if not shown or left <= 0:
        return [*shown]
    others = {"manager": manager, "operation": "", "calls": left}
    return [*shown, others]


def _of_site(row: FieldRow) -> str:
    return site_text(row["frames"]) if "frames" in row else "all others"


def _sizes_table(of: _Of, timed: Mapping[str, Sequence[Timed]]) -> Table:
    """p99 of malloc by what is asked for."""
    sizes = {
        manager: [
            {size.bytes: size for size in one.operations["malloc"].sizes}
            for one in seen
            if "malloc" in one.operations
        ]
        for manager, seen in timed.items()
    }
    known = {size for runs in sizes.values() for run in runs for size in run}
    ordered = [*sorted(known - {0}), *(known & {0})]

    def under(manager: str, size: int) -> float | None:
        found = [value for run in sizes.get(manager, ()) if (value := _p99(run.get(size)))]
        return median(found) if found else None

    fields: list[Field[int]] = [_BYTES("bytes", "Asked for, at most.", lambda size: size)]
    fields += [
        seconds(manager, "99% of the calls took this long or less.", partial(under, manager))
        for manager in of.managers
    ]
    made = table(f"table-latency-sizes-{of.number}", f"malloc p99 by size{of.of}", ordered, fields)
    return replace(made, essential=False)


_BYTES = Kind(lambda size: f"to {format_bytes(size)}" if size else "over 1 MiB")


def _p99(size: OfSize | None) -> float | None:
    return None if size is None else size.p99_seconds


def _cost(results: Results, records: Sequence[Record]) -> list[str]:
    """How much longer the program takes whose calls are timed, under the baseline."""
    run = results.run
    plain = results.measurements.filter(
        pl.col("manager") == run.baseline,
        pl.col("metric") == "wall_seconds",
        pl.col("status") == str(Status.OK),
    )["value"].to_list()
    seen = _timed(records, run.programs[0].name).get(run.baseline, [])
    if len(run.programs) != 1 or not plain or len(seen) < _FEWEST_TO_COMPARE:
        return []
    more = median(one.wall_seconds for one in seen) / median(plain) - 1
    took = f"took {format_percent(more)} {'more' if more >= 0 else 'less'} time"
    return [f"Runs in which each call of malloc was timed {took} under {run.baseline}."]
