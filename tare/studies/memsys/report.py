"""The study behind `tare memsys`: misses and stall cycles in simulated memory systems.

A run is simulated by ``tare.observers.memory_system``; its record holds all that is shown here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs

from tare.base.text import shortened, visible
from tare.base.units import format_bytes, format_count, format_percent
from tare.campaign import planning
from tare.heap_traces.frames import frame_text
from tare.observers.memory_details import KINDS, PROGRAM, Details, Seen, Simulated, Site
from tare.records import summary
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import (
    MANAGER,
    Field,
    Kind,
    Row,
    counts,
    numbers,
    percents,
    quotient,
    ratios,
    table,
    texts,
)
from tare.report.figures.marks import SERIES, params, rounded
from tare.report.model import Figure, Section, Table
from tare.studykit.findings import first_records, sentences_by_program

STUDY = "memsys"
OBSERVER = "memsys"
TITLE = "The memory system, simulated"
FIRST_METRIC = "simulated_cycles"
SITES_ON_A_TERMINAL = 8
_MANAGERS_ON_A_TERMINAL = 2
_ROW_HEIGHT = 30


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
summarise = partial(summary.summarise_range, first_metric=FIRST_METRIC)


# ---- the section of a report ----


def section(results: Results, identifier: str = STUDY, title: str = TITLE) -> Section:
    """Findings, tables and figures of all simulations in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    baseline = results.run.baseline
    tables: list[Table] = []
    figures: list[Figure] = []
    programs = list(dict.fromkeys(r.run.program for r in records))
    for number, program in enumerate(programs, 1):
        firsts = first_records(good, program)
        if not firsts:
            continue
        first = firsts.get(baseline) or next(iter(firsts.values()))
        for place, model in enumerate(details_of(first).models):
            tag = f"{number}-{place + 1}"
            found = {m: details_of(r).models[place] for m, r in firsts.items()}
            about = f"{program} in {model.name}"
            tables += [
                totals_table(about, found, f"table-memsys-{tag}"),
                misses_table(about, found, f"table-misses-{tag}"),
                operations_table(about, found, f"table-operations-{tag}"),
                sites_table(about, model, first.run.manager, f"table-sites-{tag}"),
            ]
            tables += phase_tables(about, model, f"table-phases-{tag}")
            if len(programs) == 1:
                figures.append(stall_figure(about, found, f"figure-stalls-{tag}"))
        if len(programs) == 1:
            figures += curve_figures(firsts, first)
    return Section(
        identifier=identifier,
        title=title,
        findings=findings(good, baseline),
        tables=tables,
        figures=figures,
        obtained=Obtained.SIMULATED,
    )


def details_of(record: Record) -> Details:
    return record.outcome.details_as(Details)


def findings(good: Sequence[Record], baseline: str) -> list[str]:
    """What the simulations say, in sentences."""
    if not good:
        return ["No run succeeded."]
    sentences = sentences_by_program(good, lambda firsts: _shares(firsts, baseline))
    if uncounted := max(details_of(r).uncounted_processes for r in good):
        sentences.append(
            f"{uncounted} of the processes ended without a file (killed, or started in a way that "
            "leaves Valgrind): their accesses are missing."
        )
    sentences.append(
        "Misses and cycles are those of models, not of this machine: no prefetching, no overlap of "
        "misses, virtual addresses, threads one after the other."
    )
    return sentences


def _shares(firsts: Mapping[str, Record], baseline: str) -> list[str]:
    sentences = []
    chosen = firsts.get(baseline) or next(iter(firsts.values()))
    for place, model in enumerate(details_of(chosen).models):
        everything, of_manager = model.whole(), model.whole(manager=True)
        cycles = max(everything.cycles, 1)
        sentences.append(
            f"In {model.name}, stalls are "
            f"{format_percent(everything.stall_cycles / cycles)} of the cycles under "
            f"{chosen.run.manager}; memory management is "
            f"{format_percent(of_manager.cycles / cycles)} of the cycles, including its stalls, "
            f"{format_percent(of_manager.stall_cycles / cycles)}."
        )
        totals = {m: details_of(r).models[place].whole().cycles for m, r in firsts.items()}
        least = min(totals, key=lambda manager: totals[manager])
        if len(totals) > 1 and least != chosen.run.manager:
            less = 1 - totals[least] / max(totals[chosen.run.manager], 1)
            sentences.append(
                f"In {model.name}, the fewest cycles: {least}, {format_percent(less)} fewer "
                f"than {chosen.run.manager}."
            )
    return sentences


def _part(title: str, help: str, part: str, of: str = "cycles") -> Field[Row]:
    return percents(title, help, lambda row: row[part] / row[of] if row[of] else 0.0)


def _per_call(title: str, help: str, total: str, digits: int = 1) -> Field[Row]:
    kind = Kind(f"{{:.{digits}f}}".format)
    return kind(title, help, lambda row: quotient(row[total], row["calls"]))


def _per_instruction(title: str, help: str, total: str) -> Field[Row]:
    return ratios(title, help, lambda row: quotient(row[total], row["instructions"]))


def totals_table(about: str, found: Mapping[str, Simulated], identifier: str) -> Table:
    """A line per manager: cycles, and which part is waiting, in the program and in the manager."""
    mine = "Cycles in the manager, its stalls included, divided by cycles."
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        counts("cycles", METRICS["simulated_cycles"].explanation, "cycles"),
        _per_instruction("an instruction", "Cycles divided by instructions.", "cycles"),
        _part("waiting", "Stall cycles divided by cycles.", "stall_cycles"),
        _part("in manager", mine, "managing"),
        _part("its waiting", "Stall cycles in the manager divided by cycles.", "its_stalls"),
        counts(
            "stalls of program",
            "Stall cycles outside the manager.",
            lambda row: row["stall_cycles"] - row["its_stalls"],
            essential=False,
        ),
        counts(
            "stalls of manager",
            METRICS["manager_stall_cycles"].explanation,
            "its_stalls",
            essential=False,
        ),
    ]
    rows = []
    for manager, model in found.items():
        part = model.whole(manager=True)
        of_manager = {"managing": part.cycles, "its_stalls": part.stall_cycles}
        rows.append({"manager": manager, **structs.asdict(model.whole()), **of_manager})
    return table(identifier, f"Cycles: {about}", rows, fields)


def misses_table(about: str, found: Mapping[str, Simulated], identifier: str) -> Table:
    """A line per manager, side and level: misses, and stall cycles by what is waited for."""
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        texts("of", "The program itself, or the operations of its manager.", "side"),
        numbers("level", "The level of cache, from 1; memory is behind the last.", "level"),
        *(
            counts(
                f"{kind} misses",
                f"{kind.capitalize()}{'es' if kind == 'fetch' else 's'} that missed this level.",
                kind,
            )
            for kind in KINDS
        ),
        ratios("per 1,000", "Misses of this level per 1,000 instructions of this side.", "rate"),
        counts("stall cycles", "Of fetches, reads and writes that missed this level.", "waits"),
    ]
    rows = [
        {"manager": manager, "side": side, "level": level, **_at_level(events, level)}
        for manager, model in found.items()
        for side in ("program", "manager")
        for events in [model.whole(manager=side == "manager")]
        for level in range(1, model.levels + 1)
    ]
    notes = []
    for name, words in (("write buffer", "a full write buffer"), ("TLB", "the TLB")):
        waits = {m: model.whole().stalls.get(name) for m, model in found.items()}
        shown = [f"{m} {format_count(w)}" for m, w in waits.items() if w is not None]
        if shown:
            notes.append(f"stall cycles of {words}: {', '.join(shown)}.")
    few = len(found) <= _MANAGERS_ON_A_TERMINAL
    return table(identifier, f"Misses: {about}", rows, fields, notes, essential=few)


def _at_level(events: Seen, level: int) -> dict[str, Any]:
    missed = {kind: events.misses[kind][level - 1] for kind in KINDS}
    waits = [cycles for name, cycles in events.stalls.items() if name.endswith(f"level {level}")]
    rate = quotient(1000 * sum(missed.values()), events.instructions)
    return {**missed, "waits": sum(waits), "rate": rate}


def operations_table(about: str, found: Mapping[str, Simulated], identifier: str) -> Table:
    """A line per manager and operation."""
    outermost = "The outermost call; calls of the same family inside it are part of it."
    data = "Reads and writes of a call that missed the first level."
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        texts("operation", outermost, "operation"),
        counts("calls", "How often the program called it.", "calls"),
        _per_call("instructions", "Instructions of a call, on average.", "instructions"),
        _per_call("stalls", "Stall cycles of a call, on average.", "stall_cycles"),
        _per_call("data misses", data, "data", 3),
        replace(
            _per_call("to memory", "Accesses of a call that missed all levels.", "to_memory", 4),
            essential=False,
        ),
        _part("cycles", "Share of all cycles that these calls take.", "cycles", "all"),
    ]
    rows = [
        {
            **structs.asdict(events),
            "manager": manager,
            "operation": name,
            "data": events.data_misses,
            "to_memory": events.memory_misses,
            "all": model.whole().cycles,
        }
        for manager, model in found.items()
        for name, events in model.operations.items()
        if name != PROGRAM
    ]
    few = len(found) <= _MANAGERS_ON_A_TERMINAL
    return table(identifier, f"Operations: {about}", rows, fields, essential=few)


def sites_table(about: str, model: Simulated, manager: str, identifier: str) -> Table:
    """The places from which the manager was called at the greatest cost, under one manager."""
    cycles = model.whole().cycles
    share = "Share of all cycles that these calls take."
    fields: list[Field[Row]] = [
        texts("called from", "The function that called, and its line or its object.", "from"),
        texts("operation", "What it called.", "operation"),
        counts("calls", "How often.", "calls"),
        _per_call("stalls", "Stall cycles of a call, on average.", "stall_cycles"),
        percents("cycles", share, lambda site: site["cycles"] / cycles if cycles else 0.0),
    ]
    rows = [{**structs.asdict(site), "from": _called_from(site)} for site in model.sites]
    notes = [f"the costliest of {model.all_sites} sites."] if model.all_sites > len(rows) else []
    title = f"Callers of {manager}: {about}"
    return table(identifier, title, rows, fields, notes, essential=False)


def _called_from(site: Site) -> str:
    return shortened(visible(frame_text(structs.asdict(site))), 60)


def phase_tables(about: str, model: Simulated, identifier: str) -> list[Table]:
    """By phase, and before and after collections; nothing where there were none."""
    phases = {name or "outside": events for name, events in model.phases.items()}
    phases |= {
        f"program, {word} a collection": seen
        for word, seen in (("before", model.before), ("after", model.after))
        if seen is not None
    }
    if not phases:
        return []
    held = "Accesses that missed all levels, per 1,000 instructions."
    fields: list[Field[Row]] = [
        texts("when", "The phase that the program was in.", "when"),
        counts("instructions", "Executed then.", "instructions"),
        _per_instruction("cycles", "Cycles for each instruction.", "cycles"),
        _per_instruction("misses", "Misses of the first level per 1,000 instructions.", "first"),
        _per_instruction("to memory", held, "to_memory"),
    ]
    rows = [
        {
            **structs.asdict(events),
            "when": name,
            "first": 1000 * sum(missed[0] for missed in events.misses.values()),
            "to_memory": 1000 * events.memory_misses,
        }
        for name, events in phases.items()
    ]
    notes = [f"{format_count(model.collections)} collections."]
    return [table(identifier, f"Phases: {about}", rows, fields, notes)]


# ---- figures ----


def stall_figure(about: str, found: Mapping[str, Simulated], identifier: str) -> Figure:
    """A bar per manager, of what the program waits for, and one of what the manager waits for."""
    rows: list[dict[str, Any]] = []
    waits: list[str] = []
    for manager, model in found.items():
        label = shortened(visible(manager))
        instructions = max(model.whole().instructions, 1)
        for side in ("program", "manager"):
            for name, cycles in model.whole(manager=side == "manager").stalls.items():
                waits += [name] if name not in waits else []
                rows.append(
                    {
                        "manager": label,
                        "side": side,
                        "wait": name,
                        "cycles": rounded(cycles / instructions),
                        "order": waits.index(name),
                        "tip": f"{label}, {side}: {name}, {format_count(cycles)} stall cycles",
                    }
                )
    labels = list(dict.fromkeys(row["manager"] for row in rows))
    spec = {
        "params": params(),
        "data": {"values": rows},
        "facet": {
            "row": {
                "field": "side",
                "type": "nominal",
                "sort": ["program", "manager"],
                "title": None,
                "header": {"labelAngle": 0, "labelAlign": "left", "labelOrient": "top",
                           "labelAnchor": "start"},
            }
        },
        "spec": {
            "height": _ROW_HEIGHT * len(labels),
            "mark": {"type": "bar"},
            "encoding": {
                "y": {"field": "manager", "type": "nominal", "sort": labels,
                      "axis": {"title": None}},
                "x": {"field": "cycles", "type": "quantitative", "stack": "zero",
                      "axis": {"title": "stall cycles for each instruction of the run"}},
                "color": {"field": "wait", "type": "nominal", "sort": waits,
                          "scale": {"domain": waits, "range": list(SERIES[: len(waits)])},
                          "legend": {"title": None, "orient": "bottom", "columns": 3}},
                "order": {"field": "order", "type": "quantitative"},
                "description": {"field": "tip"},
            },
        },
    }  # fmt: skip
    return Figure(
        identifier=identifier,
        title=f"Stall cycles: {about}",
        caption="Stall cycles of the program itself, and of the operations of its manager, by what "
        "they wait for, divided by the instructions of the whole run.",
        spec=spec,
    )


def curve_figures(firsts: Mapping[str, Record], first: Record) -> list[Figure]:
    """Misses over the size of the cache: by manager, and by the number of ways."""
    figures = []
    for place, curve in enumerate(details_of(first).curves):
        of = curve.of
        lines = {
            (manager, side): found
            for manager, record in firsts.items()
            for its in [details_of(record).curves[place]]
            for side, found in (("program", its.program), ("manager", its.manager))
        }
        series = {
            f"{manager}, {side}": (found.misses, instructions)
            for (manager, side), found in lines.items()
            if (instructions := _instructions(firsts[manager])) and found.accesses
        }
        figures.append(
            _curve_figure(
                f"figure-curve-{of}",
                f"Misses of a fully associative cache, by its size: {of}",
                "Least-recently-used replacement; each curve is from one run. Misses of the "
                "program and of its manager in the cache that they share, per 1,000 instructions "
                "of the run.",
                series,
                curve.line_bytes,
            )
        )
        instructions = _instructions(first)
        figures.append(
            _curve_figure(
                f"figure-ways-{of}",
                f"Misses by size and number of ways: {of}, under {first.run.manager}",
                "Set-associative caches with least-recently-used replacement, from the same run.",
                {
                    f"{ways} {'way' if ways == '1' else 'ways'}": (points, instructions)
                    for ways, points in curve.associative.items()
                },
                curve.line_bytes,
            )
        )
    return figures


def _instructions(record: Record) -> float:
    return max(record.outcome.values["instructions"], 1)


def _curve_figure(
    identifier: str,
    title: str,
    caption: str,
    series: Mapping[str, tuple[Sequence[Sequence[int]], float]],
    line_bytes: int,
) -> Figure:
    rows = []
    labels = []
    for name, (points, instructions) in list(series.items())[: len(SERIES)]:
        label = shortened(visible(name), 40)
        labels.append(label)
        for size, missed in points:
            rows.append(
                {
                    "series": label,
                    "size": size,
                    "misses": rounded(1000 * missed / instructions),
                    "tip": f"{label}: {format_bytes(size)}, {format_count(missed)} misses",
                }
            )
    powers = [2**power for power in range(10, 41, 2)]
    spec = {
        "params": params(),
        "data": {"values": rows},
        "height": 260,
        "mark": {"type": "line", "point": {"size": 12}},
        "encoding": {
            "x": {"field": "size", "type": "quantitative",
                  "scale": {"type": "log", "base": 2, "nice": False},
                  "axis": {"title": "size of the cache", "values": powers,
                           "labelExpr": "datum.value >= 1073741824 ? datum.value / 1073741824 + "
                           "' GiB' : datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
                           "datum.value / 1024 + ' KiB'"}},
            "y": {"field": "misses", "type": "quantitative", "scale": {"type": "sqrt"},
                  "axis": {"title": "misses per 1,000 instructions"}},
            "color": {"field": "series", "type": "nominal", "sort": labels,
                      "scale": {"domain": labels, "range": list(SERIES[: len(labels)])},
                      "legend": {"title": None, "orient": "bottom", "columns": 2}},
            "description": {"field": "tip"},
        },
    }  # fmt: skip
    return Figure(identifier, title, f"{caption} Lines of {line_bytes} bytes.", spec)
