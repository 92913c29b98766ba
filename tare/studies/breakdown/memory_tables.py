"""The memory system's part of a breakdown: tables and figures after those of the paper.

Time is simulated: cycles of instructions, and of waiting for memory. The rows of 1994 are of tables
5 to 12 of Tarditi and Diwan, Measuring the Cost of Storage Management (CMU-CS-94-201).
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tare.base.text import shortened, visible
from tare.base.units import format_count, format_percent
from tare.records.components import COMPONENTS, IN_COLLECTIONS, OTHER
from tare.report.figures.bars import stacked_bars
from tare.report.model import Cell, Column, Figure, Table
from tare.studies import breakdown as breakdown_package
from tare.studies.breakdown.memory import DEFAULT_MODEL
from tare.studies.breakdown.published import GROUPS, PAPER, by_group, published

Model = Mapping[str, Any]
"""As ``tare.studies.breakdown.memory.Memory.details`` gives it."""

WAITS = {"instructions": "fetches", "data read": "reads", "data written": "writes",
         "write buffer": "write buffer", "TLB": "TLB"}  # fmt: skip
"""What is waited for, as reports call it, and how the keys of stalls begin."""
_MUTATION = tuple(name for name in COMPONENTS if name not in IN_COLLECTIONS)
_BETWEEN = tuple(name for name in _MUTATION if name != OTHER)


# ---- what the paper computes ----


def stalls(model: Model, components: Iterable[str], *waits: str, doubled: bool = False) -> float:
    """Of these components; of all waits, or of those whose names begin so."""
    found: Iterable[tuple[str, float]] = (
        wait
        for name in components
        for wait in (
            model["doubled_stalls"][name] if doubled else model["components"][name]["stalls"]
        ).items()
    )
    return sum(cycles for wait, cycles in found if not waits or wait.startswith(waits))


def instructions(model: Model, components: Iterable[str]) -> int:
    return sum(model["components"][name]["instructions"] for name in components)


def cycles(model: Model, components: Iterable[str] = COMPONENTS) -> float:
    """With what is waited for."""
    chosen = tuple(components)
    spent = sum(model["components"][name]["cycles"] for name in chosen)
    return float(spent + stalls(model, chosen))


def shares_of_time(model: Model) -> dict[str, float]:
    """By component but ``other``, as the paper has them: what collections wait for is theirs, what
    the program waits for is no component's."""
    everything = cycles(model) or 1.0
    return {
        name: (
            model["components"][name]["cycles"]
            + (stalls(model, [name]) if name in IN_COLLECTIONS else 0.0)
        )
        / everything
        for name in COMPONENTS
        if name != OTHER
    }


def spatial_bound(model: Model) -> float:
    """The share of time that perfect spatial locality could save at most between collections: one
    miss in so many would be left as the smallest objects fit into what a miss brings in."""
    waits = stalls(model, _MUTATION, "reads", "writes")
    left: float = 1 / model["objects_in_a_read"]
    return waits * (1 - left) / (cycles(model) or 1.0)


def cache_size_bound(model: Model) -> float:
    """The share of time that caches of data of twice the size would save between collections."""
    saved = stalls(model, _MUTATION, "reads", "writes") - stalls(
        model, _MUTATION, "reads", "writes", doubled=True
    )
    return saved / (cycles(model) or 1.0)


def instruction_cache_estimate(model: Model) -> float:
    """The share of time for misses of instructions between collections, in proportion to the
    instructions there that are storage management."""
    part = instructions(model, _BETWEEN) / (instructions(model, _MUTATION) or 1)
    return part * stalls(model, _MUTATION, "fetches") / (cycles(model) or 1.0)


@functools.cache
def published_memory() -> Mapping[str, Mapping[str, float]]:
    """By program of the paper, the numbers of tables 5, 6, 7 and 9 to 12."""
    path = Path(breakdown_package.__file__).with_name("published_memory.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row.pop("program"): {name: float(number) for name, number in row.items()}
            for row in csv.DictReader(file)
        }


# ---- a report's part ----


def findings(rows: Mapping[str, Sequence[Model]]) -> list[str]:
    """What the simulations say of each run, in sentences."""
    sentences = []
    for label, models in rows.items():
        about = f"{visible(label)}: " if len(rows) > 1 else ""
        for model in models:
            shares = shares_of_time(model)
            everything = cycles(model) or 1.0
            in_collections = sum(shares[name] for name in IN_COLLECTIONS)
            sentence = (
                f"{about}In {model['name']}, storage management is "
                f"{format_percent(sum(shares.values()))} of the simulated time, as the paper of "
                f"1994 computes it: {format_percent(in_collections)} in collections, with what "
                "they wait for"
            )
            waiting = stalls(model, IN_COLLECTIONS) / everything
            own = stalls(model, _BETWEEN) / everything
            sentences.append(
                f"{sentence} ({format_percent(waiting)}), and "
                f"{format_percent(sum(shares.values()) - in_collections)} of instructions between "
                f"them. These wait for {format_percent(own)} more of the time, which the paper "
                "does not charge to them."
            )
    if rows:
        sentences.append(
            "Simulated time is that of models, not of this machine: each instruction takes as long "
            "as any other, and no misses overlap."
        )
    return sentences


def tables_and_figures(rows: Mapping[str, Sequence[Model]]) -> tuple[list[Table], list[Figure]]:
    """Of all runs with a memory system, by label; each with the same models."""
    tables: list[Table] = []
    figures: list[Figure] = []
    for place, first in enumerate(next(iter(rows.values()))):
        of_model = {shortened(visible(label), 30): models[place] for label, models in rows.items()}
        name = first["name"]
        beside = name == DEFAULT_MODEL
        for number, (label, model) in enumerate(of_model.items(), 1):
            tables.append(components_table(label, model, f"table-stalls-{place + 1}-{number}"))
        tables += [
            shares_table(of_model, name, beside, f"table-time-{place + 1}"),
            bounds_table(of_model, name, beside, f"table-bounds-{place + 1}"),
            programs_table(of_model, name, beside, f"table-programs-{place + 1}"),
        ]
        figures += [
            shares_figure(of_model, name, beside, f"figure-time-{place + 1}"),
            collections_figure(of_model, name, beside, f"figure-collections-{place + 1}"),
            waits_figure(of_model, name, f"figure-waits-{place + 1}"),
        ]
    return tables, figures


def _share(fraction: float) -> Cell:
    return Cell(format_percent(fraction), fraction)


def _program(label: str, is_published: bool = False) -> Cell:
    return Cell(f"{label} (1994)", label, "quiet") if is_published else Cell(label, label)


def components_table(about: str, model: Model, identifier: str) -> Table:
    """A line per component: its instructions, what is waited for at them, and its time."""
    everything = cycles(model)
    shown = [title for title, start in WAITS.items() if stalls(model, COMPONENTS, start) > 0]
    columns = (
        Column("component", "What the instructions do.", numeric=False),
        Column("instructions", "Those that are surely its own."),
        *(
            Column(f"waits: {title}", "Stall cycles at these instructions, or in these functions.",
                   essential=False)
            for title in shown
        ),
        Column("stall cycles", "All waits together."),
        Column("share of time", "Its cycles with its stall cycles, of all cycles."),
        Column("as in 1994", "As the paper has it: with what is waited for in collections, without "
               "it between them."),
    )  # fmt: skip
    as_published = shares_of_time(model)
    lines = []
    for name, component in COMPONENTS.items():
        if not model["components"][name]["instructions"]:
            continue
        waits = stalls(model, [name])
        lines.append(
            [
                Cell(component.title, component.title, "quiet" if name == OTHER else ""),
                _count(instructions(model, [name])),
                *(_count(stalls(model, [name], WAITS[title])) for title in shown),
                _count(waits),
                _share(cycles(model, [name]) / everything if everything else 0.0),
                Cell("–") if name == OTHER else _share(as_published[name]),
            ]
        )
    notes = [f"all lines sum to {format_count(everything)} cycles, exactly."]
    return Table(
        identifier, f"Time by component: {about} in {model['name']}", columns, lines, notes
    )


def _count(value: float) -> Cell:
    return Cell(format_count(value), value)


def shares_table(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Table:
    """Table 8 of the paper: a line per run, and those of 1994."""
    shares = {label: shares_of_time(model) for label, model in rows.items()}
    theirs = published() if beside else {}
    shown = [
        component
        for component in COMPONENTS
        if any(one.get(component) for one in (*shares.values(), *theirs.values()))
    ]
    columns = (
        Column("program", "", numeric=False),
        Column("all", "All components together."),
        Column("collections", "The components of collections together, with what they wait for."),
        *(
            Column(COMPONENTS[component].title, COMPONENTS[component].explanation, essential=False)
            for component in shown
        ),
    )
    lines = [
        [
            _program(label, is_published),
            _share(sum(one.values())),
            _share(sum(one.get(component, 0.0) for component in IN_COLLECTIONS)),
            *(_share(one[component]) if component in one else Cell("–") for component in shown),
        ]
        for found, is_published in ((shares, False), (theirs, True))
        for label, one in found.items()
    ]
    notes = [
        "shares of the cycles: in collections with what is waited for, between them of the "
        "instructions alone, as in 1994."
    ]
    if theirs:
        notes.append(_about_1994("table 8"))
    return Table(identifier, f"Shares of simulated time in {name}", columns, lines, notes)


def _about_1994(tables: str) -> str:
    return (
        f"the lines of 1994 are of {tables} of {PAPER}: SML/NJ on a DECstation 5000/200, with "
        "words of 32 bits, and other programs."
    )


def bounds_table(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Table:
    """Tables 9 to 12 of the paper."""
    columns = (
        Column("program", "", numeric=False),
        Column("before", "Reads of the program's own code that the first level did not hold, of "
               "all, in 100,000 instructions before each collection."),
        Column("after", "The same in those after each collection."),
        Column("spatial locality", "Of the time, at most: what perfect spatial locality would save "
               "between collections."),
        Column("cache size", "Of the time, at most: what header words take of the caches. It is "
               "what caches of data of twice the size would save between collections."),
        Column("instruction cache", "Of the time, an estimate: misses of instructions between "
               "collections, in proportion to the instructions of storage management."),
    )  # fmt: skip
    lines = [
        [
            _program(label),
            *(_rate(model[when]["misses"], model[when]["reads"]) for when in ("before", "after")),
            _share(spatial_bound(model)),
            _share(cache_size_bound(model)),
            _share(instruction_cache_estimate(model)),
        ]
        for label, model in rows.items()
    ]
    notes = []
    if beside:
        lines += [
            [
                _program(label, True),
                _share(row["dcache_miss_before_gc"]),
                _share(row["dcache_miss_after_gc"]),
                *(
                    _share(row[key] / 100)
                    for key in (
                        "spatial_locality_upper_bound_percent",
                        "effective_cache_size_upper_bound_percent",
                        "instruction_cache_estimate_percent",
                    )
                ),
            ]
            for label, row in published_memory().items()
        ]
        notes.append(_about_1994("tables 9 to 12"))
    title = f"Misses around collections, and bounds of the cost of memory, in {name}"
    return Table(identifier, title, columns, lines, notes)


def _rate(part: float, whole: float) -> Cell:
    return _share(part / whole) if whole else Cell("–")


def programs_table(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Table:
    """What of tables 5 to 7 of the paper can be told of a program without its source."""
    columns = (
        Column("program", "", numeric=False),
        Column("instructions", "All that were executed."),
        Column("reads", "Of data, for 100 instructions."),
        Column("writes", "Of data, for 100 instructions."),
        Column("words allocated", "Taken by the language's own code, in line."),
        Column("in collections", "Their share of the time."),
        Column("cycles", "For each instruction."),
        Column("collections", "How often the collector set to work; the making of its heap at the "
               "start may be among them.", essential=False),
    )  # fmt: skip
    lines = []
    for label, model in rows.items():
        number = instructions(model, COMPONENTS) or 1
        everything = cycles(model) or 1.0
        lines.append(
            [
                _program(label),
                _count(number),
                _share(model["reads"] / number),
                _share(model["writes"] / number),
                _count(model["allocated_words"]),
                _share(cycles(model, IN_COLLECTIONS) / everything),
                Cell(f"{everything / number:.2f}", everything / number),
                _count(model["collections"]),
            ]
        )
    notes = []
    if beside:
        for label, row in published_memory().items():
            seconds = row["mutator_seconds"] + row["gc_seconds"]
            lines.append(
                [
                    _program(label, True),
                    _count(row["instruction_fetches"]),
                    _share(row["reads_percent"] / 100),
                    _share((row["writes_percent"] + row["partial_writes_percent"]) / 100),
                    _count(row["allocation_words"]),
                    _share(row["gc_seconds"] / seconds),
                    Cell("–"),
                    Cell("–"),
                ]
            )
        notes.append(_about_1994("tables 5 to 7"))
    title = f"Memory references of the programs, and {name}"
    return Table(identifier, title, columns, lines, notes, essential=False)


# ---- figures ----


def shares_figure(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Figure:
    """Figure 2 of the paper."""
    bars = {label: by_group(shares_of_time(model)) for label, model in rows.items()}
    if beside:
        bars |= {f"{program} (1994)": by_group(one) for program, one in published().items()}
    return stacked_bars(
        identifier,
        f"Storage management in simulated time: {name}",
        "The low bounds, in groups of components: of collections with what they wait for, of "
        "others the instructions alone, as in 1994.",
        bars,
        tuple(GROUPS),
        "share of the time",
    )


COLLECTIONS, BETWEEN, WAITING = "collections", "instructions between", "what these wait for"


def collections_figure(
    rows: Mapping[str, Model], name: str, beside: bool, identifier: str
) -> Figure:
    """Figure 3 of the paper."""
    bars = {}
    for label, model in rows.items():
        shares = shares_of_time(model)
        bars[label] = {
            COLLECTIONS: sum(shares[component] for component in IN_COLLECTIONS),
            BETWEEN: sum(shares[component] for component in _BETWEEN),
            WAITING: stalls(model, _BETWEEN) / (cycles(model) or 1.0),
        }
    for program, row in (published() if beside else {}).items():
        collecting = sum(row.get(component, 0.0) for component in IN_COLLECTIONS)
        bars[f"{program} (1994)"] = {
            COLLECTIONS: collecting,
            BETWEEN: sum(row.values()) - collecting,
        }
    return stacked_bars(
        identifier,
        f"Collections, and storage management between them: {name}",
        "Collections with what they wait for. The paper does not have what instructions of storage "
        "management between collections wait for.",
        bars,
        (COLLECTIONS, BETWEEN, WAITING),
        "share of the time",
    )


def waits_figure(rows: Mapping[str, Model], name: str, identifier: str) -> Figure:
    """Figure 4 of the paper, of which there are no numbers: 0.1% to 4.3% in collections."""
    everywhere = [
        (f"{title}, {where}", start, components)
        for where, components in (("program", _MUTATION), ("collections", IN_COLLECTIONS))
        for title, start in WAITS.items()
        if any(stalls(model, COMPONENTS, start) for model in rows.values())
    ]
    bars = {
        label: {
            title: stalls(model, components, start) / (cycles(model) or 1.0)
            for title, start, components in everywhere
        }
        for label, model in rows.items()
    }
    return stacked_bars(
        identifier,
        f"Waiting for memory, between and in collections: {name}",
        "What is waited for in collections was 0.1% to 4.3% of the time in 1994.",
        bars,
        [title for title, _, _ in everywhere],
        "share of the time",
    )
