"""The study behind `tare count`: instructions inside and outside the manager, by operation.

A count needs no statistics where the program is deterministic: the second run under each manager
shows whether it is, to the instruction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import structs

from tare.base.text import shortened, visible
from tare.base.units import format_bytes, format_count, format_percent
from tare.campaign import planning
from tare.observers.instrument import FAMILIES
from tare.records import summary
from tare.records.evidence import LITTLE
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import (
    MANAGER,
    Field,
    Kind,
    Row,
    counts,
    means,
    percents,
    quotient,
    sizes,
    table,
    texts,
)
from tare.report.figures.marks import COUNT_LABEL, SERIES, params
from tare.report.model import Figure, Section, Table
from tare.studies.count.details import Details, Operation, Phase
from tare.studies.count.sites import has_sites, sites_sentence, sites_tables
from tare.studykit.findings import first_records, sentences_by_program

STUDY = "count"
OBSERVER = "instrument"
TITLE = "Instructions inside and outside the manager"
RUNS_TO_SEE_REPETITION = 2
_MANAGERS_ON_A_TERMINAL = 2
_NAMES_IN_A_SENTENCE = 5
_COLLECTION = "(collection)"
_HISTOGRAM_STEPS = 4
"""Bins of the figure for each doubling of the number of instructions."""
_STARTED = (
    "the collector's instructions outside operations of the manager, at its start or when the "
    "program calls it by name, are counted as the program's."
)
_OPERATIONS = tuple(name for names in FAMILIES.values() for name in names)


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
summarise = partial(summary.summarise_range, first_metric="instructions")


# ---- the section of a report ----


def section(results: Results, identifier: str = STUDY, title: str = TITLE) -> Section:
    """Findings, tables and figures of all counts in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    programs = list(dict.fromkeys(r.run.program for r in records))
    tables: list[Table] = []
    figures: list[Figure] = []
    for number, program in enumerate(programs, 1):
        firsts = first_records(good, program)
        if not firsts:
            continue
        tables += [
            totals_table(program, firsts, f"table-count-{number}"),
            operations_table(program, firsts, f"table-operations-{number}"),
        ]
        first = firsts.get(results.run.baseline) or next(iter(firsts.values()))
        tables.append(behaviour_table(program, first, f"table-behaviour-{number}"))
        tables += sites_tables(program, firsts, number)
        tables += event_tables(program, firsts, number)
        if len(programs) == 1:
            figures += [*share_figures(firsts), *histogram_figures(firsts)]
    return Section(
        identifier=identifier,
        title=title,
        findings=findings(records, results.run.baseline),
        tables=tables,
        figures=figures,
    )


def details_of(record: Record) -> Details:
    return record.outcome.details_as(Details)


def findings(records: Sequence[Record], baseline: str) -> list[str]:
    """What the counts say, in sentences."""
    good = [r for r in records if r.outcome.status is Status.OK]
    if not good:
        return ["No run succeeded."]
    sentences = sentences_by_program(good, lambda firsts: _shares(firsts, baseline))
    sentences += _unreached(good)
    sentences.append(_repetition(good))
    if uncounted := max(details_of(r).uncounted_processes for r in good):
        sentences.append(
            f"{uncounted} of the processes ended without a count (killed, or started in a way that "
            "leaves Valgrind): their instructions are missing."
        )
    sentences.append(
        "Instructions are counted under Valgrind's core. It has no AVX-512, so a program that "
        "would use AVX-512 runs its other code here."
    )
    return sentences


def _shares(firsts: Mapping[str, Record], baseline: str) -> list[str]:
    shares = {manager: _share(record) for manager, record in firsts.items()}
    sentences = []
    if baseline in shares:
        share = shares[baseline]
        bound = ": another allocator can save no more of them" if share < LITTLE else ""
        sentences.append(
            f"Memory management is {format_percent(share)} of the instructions under "
            f"{baseline}{bound}."
        )
    for manager, record in firsts.items():
        values = record.outcome.values
        if "collections" not in values:
            continue
        share = values["collector_instructions"] / max(values["manager_instructions"], 1)
        sentences.append(
            f"Under {manager}, {format_percent(share)} of the manager's instructions are "
            f"collection, in {format_count(values['collections'])} collections."
        )
    totals = {m: r.outcome.values["instructions"] for m, r in firsts.items()}
    if baseline in totals and len(totals) > 1:
        least = min(totals, key=lambda manager: totals[manager])
        if least == baseline:
            sentences.append(f"No other manager executes fewer instructions than {baseline}.")
        else:
            less = 1 - totals[least] / totals[baseline]
            sentences.append(
                f"The fewest instructions: {least}, {format_percent(less)} fewer than {baseline}."
            )
    if baseline in firsts and has_sites(firsts[baseline]):
        sentences.append(sites_sentence(firsts[baseline], baseline))
    return sentences


def _unreached(good: Sequence[Record]) -> list[str]:
    reached: dict[str, int] = {}
    for record in good:
        details = details_of(record)
        phases = {name: phase.times for name, phase in details.phases.items()}
        for name, times in (*details.events.items(), *phases.items()):
            reached[name] = max(reached.get(name, 0), times)
    if not (missed := [name for name, times in reached.items() if times == 0]):
        return []
    some = missed[:_NAMES_IN_A_SENTENCE]
    more = "" if len(some) == len(missed) else f" and {len(missed) - len(some)} more"
    return [
        f"Never reached: {', '.join(some)}{more}. Either the program does not go there, or no "
        "object file of it has that symbol: functions that are inlined or stripped have none."
    ]


def _repetition(good: Sequence[Record]) -> str:
    by_pair: dict[tuple[str, str], list[float]] = {}
    for record in good:
        pair = (record.run.program, record.run.manager)
        by_pair.setdefault(pair, []).append(record.outcome.values["instructions"])
    repeated = {pair: values for pair, values in by_pair.items() if len(values) > 1}
    if not repeated:
        return "Each count is from one run: whether it repeats was not checked."
    spread = {
        pair: (max(values) - min(values)) / max(values)
        for pair, values in repeated.items()
        if len(set(values)) > 1
    }
    if not spread:
        return "Every count was the same to the instruction when it was repeated."
    pair = max(spread, key=lambda pair: spread[pair])
    how = (
        f"Counts repeated to the instruction, but for {len(spread)} of {len(repeated)}"
        if len(spread) < len(repeated)
        else "No count repeated to the instruction"
    )
    return (
        f"{how}: under {pair[1]} two runs differed by {_share_text(spread[pair])}"
        f"{', the most of all' if len(spread) > 1 else ''}."
    )


def _share_text(fraction: float) -> str:
    return format_percent(fraction) if fraction >= 0.001 else f"{fraction * 1e6:.3g} in a million"


def _share(record: Record) -> float:
    values = record.outcome.values
    return values["manager_instructions"] / max(values["instructions"], 1)


def _collected_outside(record: Record) -> int:
    """Instructions of the collector outside the operations of its manager."""
    collector = details_of(record).collector
    return collector.instructions - collector.in_manager if collector is not None else 0


def totals_table(program: str, firsts: Mapping[str, Record], identifier: str) -> Table:
    """A line per manager: the whole, the manager's part, and what an operation costs."""
    collects = any("collections" in record.outcome.values for record in firsts.values())

    def per_call(operation: str, calls: str, essential: bool = True) -> Field[Row]:
        help = f"Instructions in {calls}, divided by their number."
        value = _per(f"{operation}_instructions", f"{operation}_calls")
        return means(f"a {operation}", help, value, essential=essential)

    inside, divided = "manager_instructions", "The manager's instructions divided by"
    per_byte = _per(inside, "allocated_bytes")
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        counts.metric("instructions", "instructions"),
        counts.metric("in manager", inside),
        percents("share", f"{divided} all.", "share"),
        counts.metric("collecting", "collector_instructions", shown=collects),
        counts.metric("collections", "collections", shown=collects),
        per_call("malloc", "malloc, calloc, aligned allocation and new"),
        per_call("free", "free and delete"),
        per_call("realloc", "realloc", essential=False),
        means("an object", f"{divided} the number of objects.", _per(inside, "objects")),
        means("a byte", f"{divided} the bytes asked for.", per_byte, essential=False),
    ]
    rows = [
        {"manager": manager, "share": _share(record), **record.outcome.values}
        for manager, record in firsts.items()
    ]
    notes = [_STARTED] if any(_collected_outside(r) for r in firsts.values()) else []
    return table(identifier, f"Instructions: {program}", rows, fields, notes)


_TAILS = {
    "99%": ("99 of 100 calls", 0.99),
    "99.9%": ("999 of 1,000 calls", 0.999),
    "99.99%": ("9,999 of 10,000 calls", 0.9999),
}
"""Of so many calls that one is left beyond."""


def operations_table(program: str, firsts: Mapping[str, Record], identifier: str) -> Table:
    """A line per manager and operation: how a usual call differs from the costliest."""
    collects = any(details_of(record).collector is not None for record in firsts.values())
    outermost = "The outermost call; calls of the same family inside it are part of it."
    alone = "Instructions of a call without collection, on average."
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        texts("operation", outermost, "name"),
        counts("calls", "How often the program called it.", "calls"),
        means("mean", "Instructions of a call, on average.", _per("instructions", "calls")),
        counts("median", "Half of the calls took no more instructions.", "median"),
        counts("95%", "95 of 100 calls took no more instructions.", "most of 95%"),
        *(
            counts(title, f"{words} took no more instructions.", title, essential=False)
            for title, (words, _) in _TAILS.items()
        ),
        counts("most", "Instructions of the costliest call.", "most"),
        means("mean alone", alone, _per("alone", "calls"), shown=collects),
        counts("instructions", "Of all calls together.", "instructions", essential=False),
    ]
    notes = ["median and percentages are exact below 1,024 instructions, and within 3% above."]
    if collects:
        notes.append(
            "a call during which a collection ran includes it in mean, median, 95% and most, but "
            "not in mean alone."
        )
    title = f"Calls by operation: {program}"
    few = len(firsts) <= _MANAGERS_ON_A_TERMINAL
    rows = [row for record in firsts.values() for row in _operations(record)]
    return table(identifier, title, rows, fields, notes, essential=few)


def _operations(record: Record) -> Iterator[Row]:
    details = details_of(record)
    collecting = details.collector.by_operation if details.collector is not None else {}
    for name in _OPERATIONS:
        if (counted := details.operations.get(name)) is not None:
            yield {
                **structs.asdict(counted),
                "manager": record.run.manager,
                "name": name,
                "alone": counted.instructions - collecting.get(name, 0),
                "median": counted.quantile(0.5),
                "most of 95%": counted.quantile(0.95),
                **{
                    title: counted.quantile(part)
                    if round(counted.calls * (1 - part), 6) >= 1
                    else None
                    for title, (_, part) in _TAILS.items()
                },
            }


def _per(total: str, number: str) -> Callable[[Row], float | None]:
    return lambda row: quotient(row[total], row[number])


def event_tables(program: str, firsts: Mapping[str, Record], number: int) -> list[Table]:
    """What a file of events asked for: how often places were reached, and what phases cost."""
    details = [details_of(record) for record in firsts.values()]
    tables = []
    if any(counted.events for counted in details):
        tables.append(_events_table(program, firsts, f"table-events-{number}"))
    if any(counted.phases for counted in details):
        tables.append(_phases_table(program, firsts, f"table-phases-{number}"))
    return tables


def _events_table(program: str, firsts: Mapping[str, Record], identifier: str) -> Table:
    rates = Kind(lambda rate: f"{rate:.3g}" if rate < 1000 else format_count(rate))
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        texts("event", "As the file of events names it.", "name"),
        counts("times", "How often the program reached one of its places.", "times"),
        rates("per million", "Times per million of all instructions.", "rate"),
    ]
    rows = [
        {"manager": manager, "name": name, "times": times, "rate": times / _whole(record) * 1e6}
        for manager, record in firsts.items()
        for name, times in details_of(record).events.items()
    ]
    return table(identifier, f"Events: {program}", rows, fields)


def _whole(record: Record) -> float:
    return max(record.outcome.values["instructions"], 1)


@dataclass(frozen=True)
class _Row:
    manager: str
    name: str
    phase: Phase
    share: float


def _phases_table(program: str, firsts: Mapping[str, Record], identifier: str) -> Table:
    rows = [row for record in firsts.values() for row in _phases(record)]
    seen = {name for row in rows for name in row.phase.by_operation}

    def within(operation: str) -> Field[_Row]:
        return counts(
            f"in {operation}",
            f"Its instructions in {operation}.",
            lambda row: row.phase.by_operation.get(operation, 0),
            essential=False,
        )

    innermost = "Executed while it was the innermost phase of its thread."
    inside = "Those of its instructions that were part of an operation."
    fields: list[Field[_Row]] = [
        texts("manager", MANAGER, lambda row: row.manager),
        texts("phase", "As the file of events names it.", lambda row: row.name),
        counts("times", "How often a thread entered it.", lambda row: row.phase.times),
        counts("instructions", innermost, lambda row: row.phase.instructions),
        percents("share", "Of all instructions of the program.", lambda row: row.share),
        counts("in manager", inside, lambda row: row.phase.in_manager),
        means(
            "a time",
            "Its instructions divided by the times.",
            lambda row: quotient(row.phase.instructions, row.phase.times),
        ),
        *(within(name) for name in _OPERATIONS if name in seen),
    ]
    notes = ["instructions count for the phase that began last, and not for phases around it."]
    if any(row.name == _COLLECTION for row in rows):
        notes.append(
            f"{_COLLECTION} is a phase of the manager: collections inside a phase of the program "
            "do not count for that phase."
        )
    return table(identifier, f"Phases: {program}", rows, fields, notes)


def _phases(record: Record) -> Iterator[_Row]:
    details = details_of(record)
    phases = dict(details.phases)
    if details.collector is not None:
        phases[_COLLECTION] = details.collector
    for name, phase in phases.items():
        yield _Row(record.run.manager, name, phase, phase.instructions / _whole(record))


def behaviour_table(program: str, record: Record, identifier: str) -> Table:
    """What the program asks of any manager, after table II of Detlefs, Dosser and Zorn."""
    values = record.outcome.values
    outside = max(values["instructions"] - values["manager_instructions"], 1)
    objects, size = values["objects"], values["allocated_bytes"]
    row = {
        "average": quotient(size, objects),
        "objects_rate": objects / outside * 1e6,
        "bytes_rate": size / outside * 1e6,
        **values,
    }
    million = "per million instructions of the program."
    means = Kind(lambda size: f"{size:.1f} B" if size < 1024 else format_bytes(size))
    fields: list[Field[Row]] = [
        counts.metric("objects", "objects"),
        sizes.metric("bytes", "allocated_bytes"),
        means("average size", "Bytes divided by objects.", "average"),
        counts.metric("most objects", "max_live_objects"),
        sizes.metric("most bytes", "max_live_bytes"),
        counts("objects per million", f"Objects {million}", "objects_rate"),
        sizes("bytes per million", f"Bytes {million}", "bytes_rate"),
    ]
    notes = ["rates are per instruction outside the manager, the same under all managers."]
    processes = details_of(record).processes
    if processes > 1:
        notes.append(
            f"{processes} processes, summed; the most objects and bytes are sums of the "
            "processes' peaks, which can be at different times."
        )
    return table(identifier, f"What it asks for: {program}", [row], fields, notes)


def share_figures(firsts: Mapping[str, Record]) -> list[Figure]:
    """The instructions under each manager: of the program, of allocation and of collection; only
    where there is a collector, since the table says the rest."""
    if not any("collections" in record.outcome.values for record in firsts.values()):
        return []
    parts = ("program", "manager, not collecting", "collecting")
    rows = []
    for manager, record in firsts.items():
        values = record.outcome.values
        collecting = values.get("collector_instructions", 0)
        inside = values["manager_instructions"]
        numbers = (values["instructions"] - inside, inside - collecting, collecting)
        label = shortened(visible(manager))
        for place, (part, number) in enumerate(zip(parts, numbers, strict=True)):
            if number:
                rows.append(
                    {
                        "manager": label,
                        "part": part,
                        "place": place,
                        "instructions": number,
                        "tip": f"{label}, {part}: {format_count(number)} instructions",
                    }
                )
    labels = list(dict.fromkeys(row["manager"] for row in rows))
    spec = {
        "params": params(),
        "data": {"values": rows},
        "height": {"step": 26},
        "mark": {"type": "bar"},
        "encoding": {
            "y": {
                "field": "manager",
                "type": "nominal",
                "sort": labels,
                "scale": {"paddingInner": 0.3},
                "axis": {"title": None},
            },
            "x": {
                "field": "instructions",
                "type": "quantitative",
                "axis": {
                    "title": "instructions",
                    "labelExpr": COUNT_LABEL,
                    "tickCount": {"expr": "narrow ? 3 : 8"},
                },
            },
            "order": {"field": "place"},
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"domain": list(parts), "range": list(SERIES[:3])},
                "legend": {"title": None, "orient": "top"},
            },
            "description": {"field": "tip"},
        },
    }
    return [
        Figure(
            identifier="figure-instructions",
            title="Instructions: program, allocation, collection",
            caption="All instructions under each manager. What collects is a part of the manager.",
            spec=spec,
        )
    ]


def histogram_figures(firsts: Mapping[str, Record]) -> list[Figure]:
    """For each operation, how many calls took how many instructions, a row per manager: where a
    manager has a fast and a slow path, the calls form heaps."""
    figures = []
    for name in _OPERATIONS:
        by_manager = {
            manager: operation
            for manager, record in firsts.items()
            if (operation := details_of(record).operations.get(name)) is not None
        }
        if by_manager and name != "other":
            figures.append(_histogram_figure(name, by_manager))
    return figures


def _histogram_figure(name: str, by_manager: Mapping[str, Operation]) -> Figure:
    rows: list[dict[str, Any]] = []
    for manager, operation in by_manager.items():
        bins: dict[int, int] = {}
        for low, calls in operation.histogram:
            place = math.floor(_HISTOGRAM_STEPS * math.log2(max(low, 1)))
            bins[place] = bins.get(place, 0) + calls
        label = shortened(visible(manager))
        for place, calls in sorted(bins.items()):
            start, end = (2 ** (step / _HISTOGRAM_STEPS) for step in (place, place + 1))
            share = calls / operation.calls
            rows.append(
                {
                    "manager": label,
                    "from": round(start, 2),
                    "to": round(end, 2),
                    "share": float(f"{share:.4g}"),
                    "tip": f"{label}: {calls:,} calls ({share:.2%}) took {math.ceil(start):,} to "
                    f"{max(math.ceil(start), math.ceil(end) - 1):,} instructions",
                }
            )
    labels = list(dict.fromkeys(row["manager"] for row in rows))
    spec = {
        "params": params(),
        "data": {"values": rows},
        "facet": {
            "row": {
                "field": "manager",
                "type": "nominal",
                "sort": labels,
                "title": None,
                "header": {
                    "labelAngle": 0,
                    "labelAlign": "left",
                    "labelOrient": "top",
                    "labelAnchor": "start",
                },
            }
        },
        "spec": {
            "height": 72,
            "mark": {"type": "rect", "color": SERIES[0]},
            "encoding": {
                "x": {
                    "field": "from",
                    "type": "quantitative",
                    "scale": {"type": "log", "base": 2, "nice": False},
                    "axis": {
                        "title": "instructions of a call",
                        "format": ",d",
                        "values": [4**power for power in range(16)],
                    },
                },
                "x2": {"field": "to"},
                "y": {
                    "field": "share",
                    "type": "quantitative",
                    "scale": {"type": "sqrt"},
                    "axis": {"title": None, "format": "~%", "values": [0, 0.01, 0.1, 0.5, 1]},
                },
                "y2": {"datum": 0},
                "description": {"field": "tip"},
            },
        },
    }
    return Figure(
        identifier=f"figure-calls-{name}",
        title=f"{name}: calls by their instructions",
        caption="The share of calls by the instructions that they took, four bars to a doubling. "
        "Heights are square roots, so that the rare calls on a slow path show.",
        spec=spec,
        essential=False,
    )
