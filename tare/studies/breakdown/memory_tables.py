"""The memory system's part of a breakdown: tables and figures after those of the paper.

Time is simulated: cycles of instructions, and of waiting for memory. The rows of 1994 are of tables
5 to 12 of Tarditi and Diwan, Measuring the Cost of Storage Management (CMU-CS-94-201).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tare.base.text import shortened, visible
from tare.base.units import format_count, format_percent
from tare.records.components import COMPONENTS, IN_COLLECTIONS, OTHER
from tare.report.fields import Field, Row, counts, percents, quotient, ratios, table, text
from tare.report.figures.bars import stacked_bars
from tare.report.model import Cell, Figure, Table
from tare.studies.breakdown.details import Model
from tare.studies.breakdown.memory import DEFAULT_MODEL
from tare.studies.breakdown.published import (
    GROUPS,
    PAPER,
    Shares,
    by_group,
    by_program,
    published,
)

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
            model.doubled_stalls[name] if doubled else model.components[name].stalls
        ).items()
    )
    return sum(cycles for wait, cycles in found if not waits or wait.startswith(waits))


def instructions(model: Model, components: Iterable[str]) -> int:
    return sum(model.components[name].instructions for name in components)


def cycles(model: Model, components: Iterable[str] = COMPONENTS) -> float:
    """With what is waited for."""
    chosen = tuple(components)
    spent = sum(model.components[name].cycles for name in chosen)
    return float(spent + stalls(model, chosen))


def shares_of_time(model: Model) -> dict[str, float]:
    """By component but ``other``, as the paper has them: what collections wait for is theirs, what
    the program waits for is no component's."""
    everything = cycles(model) or 1.0
    return {
        name: (
            model.components[name].cycles
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
    left: float = 1 / model.objects_in_a_read
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
    return by_program("published_memory")


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
                f"{about}In {model.name}, storage management is "
                f"{format_percent(sum(shares.values()))} of the simulated time, as the paper of "
                f"1994 computes it: {format_percent(in_collections)} in collections, including "
                "stalls"
            )
            waiting = stalls(model, IN_COLLECTIONS) / everything
            own = stalls(model, _BETWEEN) / everything
            sentences.append(
                f"{sentence} ({format_percent(waiting)}), and "
                f"{format_percent(sum(shares.values()) - in_collections)} for instructions outside "
                f"them. The stalls of these take {format_percent(own)} more, which the paper does "
                "not count."
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
        name = first.name
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


def components_table(about: str, model: Model, identifier: str) -> Table:
    """A line per component: its instructions, what is waited for at them, and its time."""
    everything = cycles(model)
    as_published = shares_of_time(model)
    own = "Stall cycles at these instructions, or in these functions."

    def title(name: str) -> Cell:
        return text(COMPONENTS[name].title, "quiet" if name == OTHER else "")

    def waits(title: str, start: str) -> Field[str]:
        shown = stalls(model, COMPONENTS, start) > 0
        value = functools.partial(_stalls, model, start)
        return counts(f"waits: {title}", own, value, essential=False, shown=shown)

    fields: list[Field[str]] = [
        Field("component", "What the instructions do.", title, numeric=False),
        counts(
            "instructions",
            "Those that surely belong to the component.",
            lambda name: instructions(model, [name]),
        ),
        *(waits(title, start) for title, start in WAITS.items()),
        counts("stall cycles", "All waits together.", lambda name: stalls(model, [name])),
        percents(
            "share of time",
            "Its cycles with its stall cycles, of all cycles.",
            lambda name: cycles(model, [name]) / everything if everything else 0.0,
        ),
        percents(
            "as in 1994",
            "As the paper computes it: with stalls in collections, without stalls outside them.",
            as_published.get,
        ),
    ]
    rows = [name for name in COMPONENTS if model.components[name].instructions]
    notes = [f"all lines sum to {format_count(everything)} cycles, exactly."]
    title_of_all = f"Time by component: {about} in {model.name}"
    return table(identifier, title_of_all, rows, fields, notes)


def _stalls(model: Model, start: str, name: str) -> float:
    return stalls(model, [name], start)


_PROGRAM: Field[Row] = Field("program", "", lambda row: row["program"], numeric=False)


def program_of_1994(name: str) -> Cell:
    """The name of a program of the paper, in a line beside others."""
    return Cell(f"{name} (1994)", name, "quiet")


def component_fields(shares: Sequence[Shares]) -> list[Field[Row]]:
    """A field for each component that any of ``shares`` has."""
    return [
        percents(component.title, component.explanation, name, essential=False)
        for name, component in COMPONENTS.items()
        if name != OTHER and any(one.get(name) for one in shares)
    ]


def share_row(program: Cell, shares: Shares) -> dict[str, Any]:
    """A row of shares, with those of all and of collections."""
    collecting = sum(shares.get(component, 0.0) for component in IN_COLLECTIONS)
    return {**shares, "program": program, "all": sum(shares.values()), "collections": collecting}


def shares_table(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Table:
    """Table 8 of the paper: a line per run, and those of 1994."""
    theirs = published() if beside else {}
    lines = [share_row(text(label), shares_of_time(model)) for label, model in rows.items()]
    collecting = "The components of collections together, including stalls."
    fields: list[Field[Row]] = [
        _PROGRAM,
        percents("all", "All components together.", "all"),
        percents("collections", collecting, "collections"),
        *component_fields([*lines, *theirs.values()]),
    ]
    lines += [share_row(program_of_1994(program), shares) for program, shares in theirs.items()]
    notes = [
        "shares of the cycles: with stalls in collections, without them elsewhere, as in 1994."
    ]
    if theirs:
        notes.append(_about_1994("table 8"))
    return table(identifier, f"Shares of simulated time in {name}", lines, fields, notes)


def _about_1994(tables: str) -> str:
    return (
        f"the rows of 1994 are from {tables} of {PAPER}: SML/NJ on a DECstation 5000/200, with "
        "words of 32 bits, and other programs."
    )


def bounds_table(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Table:
    """Tables 9 to 12 of the paper."""
    before, after = "dcache_miss_before_gc", "dcache_miss_after_gc"
    locality, size, fetches = (
        "spatial_locality_upper_bound_percent",
        "effective_cache_size_upper_bound_percent",
        "instruction_cache_estimate_percent",
    )
    fields: list[Field[Row]] = [
        _PROGRAM,
        percents(
            "before",
            "Share of the reads of the program's own code that missed the first level, in the "
            "100,000 instructions before each collection.",
            before,
        ),
        percents("after", "The same, in the 100,000 after each collection.", after),
        percents(
            "spatial locality",
            "The most that perfect spatial locality would save outside collections, of the time.",
            locality,
        ),
        percents(
            "cache size",
            "The most that header words in the caches cost, of the time: what data caches of twice "
            "the size would save outside collections.",
            size,
        ),
        percents(
            "instruction cache",
            "An estimate, of the time: instruction misses outside collections, in proportion to "
            "the instructions of storage management.",
            fetches,
        ),
    ]
    lines: list[Row] = [
        {
            "program": text(label),
            before: quotient(model.before.misses, model.before.reads),
            after: quotient(model.after.misses, model.after.reads),
            locality: spatial_bound(model),
            size: cache_size_bound(model),
            fetches: instruction_cache_estimate(model),
        }
        for label, model in rows.items()
    ]
    notes = []
    if beside:
        for program, row in published_memory().items():
            shares = {column: row[column] / 100 for column in (locality, size, fetches)}
            lines.append({**row, **shares, "program": program_of_1994(program)})
        notes.append(_about_1994("tables 9 to 12"))
    title = f"Misses around collections, and bounds of the cost of memory, in {name}"
    return table(identifier, title, lines, fields, notes)


def programs_table(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Table:
    """What of tables 5 to 7 of the paper can be told of a program without its source."""
    fields: list[Field[Row]] = [
        _PROGRAM,
        counts("instructions", "All that were executed.", "instruction_fetches"),
        percents("reads", "Reads of data for 100 instructions.", "reads"),
        percents("writes", "Writes of data for 100 instructions.", "writes"),
        counts("words allocated", "By the language's own code, inline.", "allocation_words"),
        percents("in collections", "Share of the time in collections.", "in_collections"),
        ratios("cycles", "For each instruction.", "cycles"),
        counts(
            "collections",
            "How often the collector started; creating its heap at the start may count as one.",
            "collections",
            essential=False,
        ),
    ]
    lines: list[Row] = []
    for label, model in rows.items():
        number = instructions(model, COMPONENTS) or 1
        everything = cycles(model) or 1.0
        lines.append(
            {
                "program": text(label),
                "instruction_fetches": number,
                "reads": model.reads / number,
                "writes": model.writes / number,
                "allocation_words": model.allocated_words,
                "in_collections": cycles(model, IN_COLLECTIONS) / everything,
                "cycles": everything / number,
                "collections": model.collections,
            }
        )
    notes = []
    if beside:
        lines += [
            {
                **row,
                "program": program_of_1994(program),
                "reads": row["reads_percent"] / 100,
                "writes": (row["writes_percent"] + row["partial_writes_percent"]) / 100,
                "in_collections": row["gc_seconds"] / (row["mutator_seconds"] + row["gc_seconds"]),
            }
            for program, row in published_memory().items()
        ]
        notes.append(_about_1994("tables 5 to 7"))
    title = f"Memory references of the programs, and {name}"
    return table(identifier, title, lines, fields, notes, essential=False)


# ---- figures ----


def shares_figure(rows: Mapping[str, Model], name: str, beside: bool, identifier: str) -> Figure:
    """Figure 2 of the paper."""
    bars = {label: by_group(shares_of_time(model)) for label, model in rows.items()}
    if beside:
        bars |= {f"{program} (1994)": by_group(one) for program, one in published().items()}
    return stacked_bars(
        identifier,
        f"Storage management in simulated time: {name}",
        "The low bounds, in groups of components: of collections with their stalls, of others "
        "without, as in 1994.",
        bars,
        tuple(GROUPS),
        "share of the time",
    )


COLLECTIONS, BETWEEN, WAITING = "collections", "instructions outside", "stalls of these"


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
        "Collections with their stalls. The paper does not give the stalls of storage management "
        "outside collections.",
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
        "In 1994 stalls in collections were 0.1% to 4.3% of the time.",
        bars,
        [title for title, _, _ in everywhere],
        "share of the time",
    )
