"""The study behind `tare regions`: what a program's regions are worth to it.

The program runs as it is, and with the objects of its regions served in other ways by the layer
`regions(M, as=…)`: as single objects of each allocator M, from plain regions, and from reaps. Each
is held against the program as it is under the same allocator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tare.base.units import (
    format_bytes,
    format_count,
    format_floor,
    format_percent,
)
from tare.campaign import rounds
from tare.memory_managers.layers import regions as layer
from tare.records import summary
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.comparison import (
    INTERVAL,
    MEMORY,
    OF_ALL_RUNS,
    TIME,
    change,
    details_table,
    measured,
)
from tare.report.fields import Field, Kind, Row, counts, percents, quotient, sizes, table, texts
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.count import report as count
from tare.studies.drag import report as drag
from tare.studies.drag.weigh import run_seconds as recording_seconds
from tare.studies.regions.observe import Share, share_of
from tare.studykit import sweeps
from tare.studykit.instrumented import run_seconds as counting_seconds
from tare.studykit.instrumented import too_long
from tare.studykit.published import published
from tare.studykit.sweep_tables import Sweep, ratio_figure, sweeps_of
from tare.studykit.sweeps import Variant, variant

STUDY = "regions"
SHARE_OBSERVER = "regions-share"
TITLE = "The program's regions, served in other ways"
FIRST_METRIC = "wall_seconds"
SECONDS_ALLOWED = 60.0
"""A run under the instrument may take so long, or as long as all the timed runs together."""
_OWN = "original"
_ROUTES = ("emulation", "region", "reap")
_MEANINGS = {
    "original": "the program's own regions",
    "emulation": "each object of a region comes from malloc, and is freed with the region",
    "region": "plain regions that bump a pointer",
    "reap": "reaps, regions whose objects can also be freed singly",
}
_PAPER = (
    "published: Berger, Zorn and McKinley, Reconsidering Custom Memory Allocation, OOPSLA 2002, "
)


# ---- what runs ----


@dataclass(frozen=True)
class Plan:
    """``counted`` is the manager of the one run of each program that counts objects. ``dragged`` is
    that of the run whose last uses are recorded, and ``shared`` that of the run whose instructions
    are counted, or "" for none."""

    timed: rounds.Plan
    counted: str
    dragged: str = ""
    shared: str = ""


def variants(allocators: Sequence[str]) -> list[Variant]:
    """Each allocator bare and with region emulation; the first also with regions and reaps."""
    found = []
    for place, allocator in enumerate(allocators):
        found.append(Variant(allocator))
        routes = _ROUTES if place == 0 else _ROUTES[:1]
        found += [sweeps.layered(allocator, layer.NAME, {"as": route}) for route in routes]
    return found


def counted(allocator: str) -> Variant:
    """Objects and bytes are counted. Those of obstacks are seen by emulation alone."""
    return sweeps.layered(allocator, layer.NAME, {"as": "emulation", "statistics": "yes"})


def dragged(allocator: str) -> Variant:
    """Each object of a region is one of malloc, so that its last use can be seen."""
    return sweeps.layered(allocator, layer.NAME, {"as": "emulation"})


def reference_of(manager: str) -> str:
    """What a manager of the study is held against: the program as it is, under the allocator."""
    return variant(manager).allocator


def references(managers: Sequence[str]) -> tuple[str, ...]:
    """What others are held against: they run as often as a baseline."""
    return tuple(dict.fromkeys(map(reference_of, managers)))


def next_round(plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next, given those that are done; empty when the study is complete. After the
    timed runs come those that count objects, then those that count instructions and those that
    record last uses."""
    if timed := rounds.next_round(plan.timed, records, STUDY):
        return timed
    order = 1 + max((r.run.order for r in records), default=0)
    done = {(r.run.study, r.run.program, r.run.manager) for r in records}
    for program in plan.timed.programs:
        if (STUDY, program, plan.counted) not in done:
            return [Run(STUDY, program, plan.counted, 0, order)]
    for program in plan.timed.programs:
        if not plan.shared or (count.STUDY, program, plan.shared) in done:
            continue
        if not share_left_out(records, program, plan.timed.baseline):
            return [Run(count.STUDY, program, plan.shared, 0, order, observer=SHARE_OBSERVER)]
    for program in plan.timed.programs:
        if not plan.dragged or (drag.STUDY, program, plan.dragged) in done:
            continue
        if not drag_left_out(records, program, plan.timed.baseline):
            return [Run(drag.STUDY, program, plan.dragged, 0, order, observer=drag.OBSERVER)]
    return []


def planned_runs(plan: Plan) -> int:
    """How many runs the plan takes when nothing fails."""
    others = 1 + bool(plan.dragged) + bool(plan.shared)
    return rounds.planned_runs(plan.timed) + others * len(plan.timed.programs)


def drag_left_out(records: Sequence[Record], program: str, baseline: str) -> str:
    """Why a program is not recorded with last uses, judged by its other runs, or ""."""
    a_run = "a run that records last uses"
    return _left_out(records, program, baseline, recording_seconds, a_run)


def share_left_out(records: Sequence[Record], program: str, baseline: str) -> str:
    """Why a program's instructions are not counted, judged by its other runs, or ""."""
    a_run = "a run that counts instructions"
    return _left_out(records, program, baseline, counting_seconds, a_run)


def _left_out(
    records: Sequence[Record],
    program: str,
    baseline: str,
    run_seconds: Callable[[float], float],
    run: str,
) -> str:
    timed = [
        r
        for r in records
        if (r.run.study, r.run.program) == (STUDY, program) and r.outcome.status is Status.OK
    ]
    if any(r.run.manager == baseline for r in timed) and not any(map(kinds_of, timed)):
        return "no region was seen"
    return too_long(timed, baseline, run_seconds, SECONDS_ALLOWED, run)


def kinds_of(record: Record) -> Mapping[str, Mapping[str, int]]:
    """The kinds of regions that a run under the layer had, with what was counted of each."""
    found: Mapping[str, Mapping[str, int]] = record.outcome.details.get(layer.NAME, {}).get(
        "kinds", {}
    )
    return found


# ---- what it shows ----


summarise = summary.by_reference(reference_of)


def section(results: Results, identifier: str = STUDY, title: str = TITLE) -> Section:
    """Findings, tables and figures of the regions in a results folder."""
    records = read_records(results.folder)
    mine = results.measurements.filter(results.measurements["study"] == STUDY)
    timed = [name for name in results.run.managers if not variant(name).option("statistics")]
    swept = sweeps_of(summarise(mine, "", results.run.seed), sweeps.by_allocator(timed))
    programs = [sweep.program for sweep in swept]
    tables: list[Table] = []
    sentences: list[str] = []
    for number, sweep in enumerate(swept, 1):
        sentences += [sweep.named + each for each in findings(results, records, sweep)]
        tables.append(routes_table(sweep, f"table-routes-{number}"))
    tables += [statistics_table(records, programs), published_table(), *_drag_tables(records)]
    if len(swept) == 1:
        shown = [each.name for each in swept[0].variants]
        tables.append(details_table(swept[0].rows, programs[0], shown))
    return Section(
        identifier=identifier,
        title=title,
        findings=sentences,
        tables=[table for table in tables if table.rows],
        figures=_figures(records, swept),
    )


def _route(each: Variant) -> str:
    return each.option("as") if each.layer else _OWN


def findings(results: Results, records: Sequence[Record], sweep: Sweep) -> list[str]:
    """What the program's regions are, what each way of serving them costs, and what they hold."""
    program = sweep.program
    kinds = _counted_kinds(records, program)
    if not kinds:
        tried = [r for r in records if r.run.program == program and variant(r.run.manager).layer]
        if any(r.outcome.status is Status.OK for r in tried):
            return [
                "No region was seen. The shims see APR's pools, talloc and glibc's obstacks, where "
                "the program calls them in a shared library; the figures say nothing of others."
            ]
        return ["No run with the shims succeeded."]
    sentences = [f"It has {_kind_text(name, counts)}." for name, counts in kinds.items()]
    for each in sweep.with_layer:
        if text := _route_text(sweep, each):
            under = f", under {each.allocator}" if len(sweep.groups) > 1 else ""
            sentences.append(f"{_route_name(each)}{under}: {text}.")
    share = _share(records, program)
    return [*sentences, *_share_sentences(share), *_drag_sentences(results, records, program)]


def _kind_text(name: str, counts: Mapping[str, int]) -> str:
    regions = f"{format_count(counts['regions'])} {layer.KINDS[name]}"
    if not counts["objects"]:
        return regions
    return (
        f"{regions} with {format_count(counts['objects'])} objects, "
        f"{format_bytes(counts['bytes'])} in all and at most {format_bytes(counts['most_bytes'])} "
        "at a time"
    )


def _route_name(each: Variant) -> str:
    return {
        "emulation": f"As single objects of {each.allocator}",
        "region": "With plain regions",
        "reap": "With reaps",
    }[_route(each)]


def _route_text(sweep: Sweep, each: Variant) -> str:
    time, memory = sweep.row(each, TIME), sweep.row(each, MEMORY)
    if time is None or memory is None or time["ratio"] is None:
        return ""
    return f"{change(time, 'time')}; {change(memory, 'memory')}"


def _share(records: Sequence[Record], program: str) -> Share | None:
    """What memory operations take of a program, where a run has shown it."""
    for record in records:
        if (record.run.study, record.run.program) == (count.STUDY, program):
            return share_of(record.outcome)
    return None


def _share_sentences(share: Share | None) -> list[str]:
    if share is None:
        return []
    library, malloc = (
        format_percent(part / share.program) for part in (share.library, share.malloc)
    )
    return [
        f"Memory operations take {format_percent(share.of_program)} of its instructions: {library} "
        f"in the functions of regions, {malloc} in those of malloc elsewhere."
    ]


def _drag_sentences(results: Results, records: Sequence[Record], program: str) -> list[str]:
    found = [r for r in records if (r.run.study, r.run.program) == (drag.STUDY, program)]
    if not found:
        told = results.run.drag_left_out
        reason = told or drag_left_out(records, program, results.run.baseline)
        return [f"How much of the regions is unused is not known: {reason}."] if reason else []
    if found[0].outcome.status is not Status.OK:
        status = found[0].outcome.status
        reason = f"the run did not complete: {status}"
        return [f"How much of the regions is unused is not known: {reason}."]
    values = found[0].outcome.values
    peak, needed = values["peak_free_bytes"], values["peak_last_use_bytes"]
    more = f"{format_percent(peak / needed - 1)} more" if needed else "more"
    ratio = values.get("drag_ratio")
    drags = f"; its total drag is {ratio:.2f}" if ratio is not None else ""
    return [
        f"At its peak the program holds {format_bytes(peak)}, {more} than the "
        f"{format_bytes(needed)} that it would hold if each object were freed after its last use"
        f"{drags}."
    ]


def _counted_kinds(records: Sequence[Record], program: str) -> Mapping[str, Mapping[str, int]]:
    """From the run that counted objects, or from any other under the layer."""
    seen = [
        r
        for r in records
        if r.run.program == program and r.outcome.status is Status.OK and kinds_of(r)
    ]
    seen.sort(key=lambda r: not variant(r.run.manager).option("statistics"))
    return kinds_of(seen[0]) if seen else {}


# ---- tables ----


def routes_table(sweep: Sweep, identifier: str) -> Table:
    """A line for each allocator and way of serving: time and memory against the original."""
    time, memory = sweep.of(TIME), sweep.of(MEMORY)
    longer, more = (
        f"Median {what} divided by that of the original." for what in ("time", "peak memory")
    )
    fields: list[Field[Variant]] = [
        texts("manager", "The allocator that serves malloc.", lambda each: each.allocator),
        texts("regions", "What serves the objects of regions.", _route),
        *measured("time", METRICS[TIME].explanation + OF_ALL_RUNS, longer, time, INTERVAL),
        *measured("memory", METRICS[MEMORY].explanation + OF_ALL_RUNS, more, memory, INTERVAL),
    ]
    shown = [each for each in sweep.variants if time(each)]
    floors = [
        f"{each.allocator} {format_floor(row['noise_floor'])}"
        for each in shown
        if not each.layer and (row := time(each)) and row["noise_floor"] is not None
    ]
    notes = [f"{route}: {_MEANINGS[route]}." for route in dict.fromkeys(map(_route, shown))]
    notes.append("coloured: a difference beyond noise; dim: no difference seen.")
    if floors:
        notes.append(f"noise floor of the time, the original against itself: {', '.join(floors)}.")
    return table(identifier, f"Against the original: {sweep.program}", shown, fields, notes)


def _statistics(operations: str) -> list[Field[Row]]:
    """Of rows without objects, but the number of regions, all are without a figure."""
    mean, often = (
        "Mean bytes of an object, as asked for.",
        "All bytes divided by the most at once.",
    )

    def statistic(kind: Kind, title: str, help: str, name: str) -> Field[Row]:
        return kind(title, help, lambda row: row[name] if row["objects"] else None)

    return [
        texts("program", "", "program"),
        Field(
            "kind",
            "The kind of the regions.",
            lambda row: Cell(layer.KINDS.get(row["kind"]) or row["kind"], row["kind"]),
            False,
        ),
        counts.metric("regions", "regions"),
        statistic(counts, "objects", METRICS["region_objects"].explanation, "objects"),
        statistic(
            counts, "most at once", METRICS["max_region_objects"].explanation, "most_objects"
        ),
        statistic(sizes, "mean size", mean, "mean_bytes"),
        statistic(sizes, "bytes", METRICS["region_bytes"].explanation, "bytes"),
        statistic(sizes, "most at once", METRICS["max_region_bytes"].explanation, "most_bytes"),
        Kind("{:.1f}".format)(
            "bytes / most",
            often,
            lambda row: quotient(row["bytes"], row["most_bytes"]) if row["objects"] else None,
        ),
        percents("operations", operations, "share"),
    ]


def statistics_table(records: Sequence[Record], programs: Sequence[str]) -> Table:
    """A line for each program and kind of regions."""
    fields = _statistics(
        "Memory operations: the share of the program's instructions that are executed in functions "
        "of regions and in malloc's, of all kinds together."
    )
    shares = {program: _share(records, program) for program in programs}
    rows = [
        {
            **counted,
            "program": program,
            "kind": name,
            "mean_bytes": counted["bytes"] / max(counted["objects"], 1),
            "share": share.of_program if share else None,
        }
        for program, share in shares.items()
        for name, counted in _counted_kinds(records, program).items()
    ]
    notes = [
        "the objects of regions alone, counted in one run with region emulation; those of talloc "
        "with the bytes of malloc that they take."
    ]
    if any(shares.values()):
        notes.append(
            "operations: a share of instructions, of the program as it is, with the cleanups and "
            "destructors that they run, but without macros that the program expands."
        )
    return table("table-statistics", "Regions and their objects", rows, fields, notes)


def published_table() -> Table:
    """The same of the programs with regions that were published."""
    fields = _statistics("Memory operations, as published: their share of the run time.")
    shown = [field for field in fields if field.title != "regions"]
    title = "Published: programs with regions and their objects"
    note = f"{_PAPER}table 3, all objects of a program; operations: their share of the run time."
    rows = published(STUDY)
    return table("table-statistics-published", title, rows, shown, [note], essential=False)


def _drag_tables(records: Sequence[Record]) -> list[Table]:
    good = [r for r in records if r.run.study == drag.STUDY and r.outcome.status is Status.OK]
    return [drag.published_table(good)] if good else []


# ---- figures ----


def _figures(records: Sequence[Record], swept: Sequence[Sweep]) -> list[Figure]:
    found: list[Figure | None] = []
    steps = [_OWN, *_ROUTES]
    for metric in (TIME, MEMORY):
        panels = [sweep.panel(metric, _route, steps) for sweep in swept]
        found.append(
            ratio_figure(
                f"regions-{metric}",
                f"{METRICS[metric].title.capitalize()}, against the program as it is",
                "Dot: ratio of the medians, filled if it differs; line: its 95% interval. Above 1 "
                "is more." + (" Shaded: the noise floor." if any(p.floor for p in panels) else ""),
                panels,
                [[step] for step in steps],
                ("what serves the regions", f"{METRICS[metric].title}, relative to the original"),
            )
        )
    if len(swept) == 1:
        found += _drag_curves(records)
    return [figure for figure in found if figure is not None]


def _drag_curves(records: Sequence[Record]) -> list[Figure]:
    """What the program holds with regions, and with each object freed after its last use."""
    for record in records:
        if record.run.study == drag.STUDY and record.outcome.status is Status.OK:
            drawn = drag.drag_figures(drag.details_of(record))
            return [figure for figure in drawn if figure.identifier == "figure-drag-curves"]
    return []
