"""The study behind `tare breakdown`: what storage management takes, by component.

A run is charged by ``tare.studies.breakdown.observe``; its record holds all that is shown here. The
rows of 1994 are of table 8 of Tarditi and Diwan, Measuring the Cost of Storage Management
(CMU-CS-94-201).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tare.base.text import shortened, visible
from tare.base.units import format_count, format_percent
from tare.campaign import planning
from tare.campaign.planning import Plan
from tare.memory_managers.manager import OWN
from tare.records import summary
from tare.records.components import (
    COMPONENTS,
    COUNTING,
    IN_COLLECTIONS,
    OTHER,
    Certainty,
    metric,
)
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.fields import (
    Field,
    Kind,
    Row,
    counts,
    percents,
    quotient,
    seconds,
    table,
    text,
    texts,
)
from tare.report.figures.bars import stacked_bars
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.breakdown import memory_tables
from tare.studies.breakdown.details import Details
from tare.studies.breakdown.memory_tables import component_fields, program_of_1994, share_row
from tare.studies.breakdown.published import GROUPS, PAPER, by_group, published
from tare.studykit.findings import first_records, sentences_by_program

STUDY = "breakdown"
OBSERVER = "breakdown"
PAGES = "pages"
"""The observer of a further run, without Valgrind."""
TITLE = "Storage management by component"
FIRST_METRIC = "instructions"


def next_round(plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next, given those that are done; empty when the study is complete.

    Under ``own`` none is for pages: what programs of 32 bits use can only be proved by the
    instrument.
    """
    preloaded = tuple(name for name in plan.managers if name != OWN)
    return planning.next_round(plan, records, STUDY, OBSERVER) or planning.next_round(
        replace(plan, managers=preloaded), records, STUDY, PAGES
    )


summarise = partial(summary.summarise_range, first_metric=FIRST_METRIC)


# ---- the section of a report ----


def section(results: Results, identifier: str = STUDY, title: str = TITLE) -> Section:
    """Findings, tables and a figure of all breakdowns in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK and r.run.observer == OBSERVER]
    tables: list[Table] = []
    programs = list(dict.fromkeys(r.run.program for r in good))
    firsts = {program: first_records(good, program) for program in programs}
    for number, program in enumerate(programs, 1):
        for place, (manager, record) in enumerate(firsts[program].items(), 1):
            about = program if len(firsts[program]) == 1 else f"{program} under {manager}"
            tag = f"{number}-{place}"
            tables.append(components_table(about, record, f"table-components-{tag}"))
            tables += calls_tables(about, record, f"table-calls-{tag}")
            tables += updates_tables(about, record, f"table-updates-{tag}")
            tables += unexplained_tables(about, record, f"table-unexplained-{tag}")
    rows = {
        program if len(found) == 1 else f"{program}, {manager}": record
        for program, found in firsts.items()
        for manager, record in found.items()
    }
    figures: list[Figure] = []
    if rows:
        tables.append(comparison_table(rows))
        figures.append(shares_figure(rows))
    simulated = {
        label: models for label, record in rows.items() if (models := details_of(record).memory)
    }
    if simulated:
        more_tables, more_figures = memory_tables.tables_and_figures(simulated)
        tables += more_tables
        figures += more_figures
    tables += pages_tables(records)
    return Section(
        identifier=identifier,
        title=title,
        findings=findings(good) + memory_tables.findings(simulated),
        tables=tables,
        figures=figures,
    )


def details_of(record: Record) -> Details:
    return record.outcome.details_as(Details)


def shares_of(record: Record) -> dict[str, float]:
    """The share of all instructions that is surely each component's, but for ``other``."""
    values = record.outcome.values
    instructions = max(values["instructions"], 1)
    return {
        name: values.get(metric(name), 0.0) / instructions for name in COMPONENTS if name != OTHER
    }


def highest_share(record: Record) -> float:
    """Of all components together, with all that may be theirs."""
    parts = details_of(record).components.values()
    return sum(sum(one.values()) for one in parts) / max(record.outcome.values["instructions"], 1)


def findings(good: Sequence[Record]) -> list[str]:
    """What the breakdowns say, in sentences."""
    if not good:
        return ["No run succeeded."]
    sentences = sentences_by_program(good, _sentences) + _about_rules(good)
    if uncounted := max(details_of(r).uncounted_processes for r in good):
        sentences.append(
            f"{uncounted} of the processes ended without a count (killed, or started in a way that "
            "leaves Valgrind): their instructions are missing."
        )
    return sentences


def _sentences(firsts: Mapping[str, Record]) -> list[str]:
    sentences = []
    for manager, record in firsts.items():
        shares = shares_of(record)
        low, high = sum(shares.values()), highest_share(record)
        bounds = format_percent(low)
        if format_percent(high) != bounds:
            bounds = f"{bounds} to {format_percent(high)}"
        where = f" under {manager}" if len(firsts) > 1 else ""
        sentence = f"Storage management is {bounds} of the instructions{where}"
        collecting = sum(shares[name] for name in IN_COLLECTIONS)
        if details_of(record).titles and collecting:
            sentence += (
                f": {format_percent(collecting)} in collections, and "
                f"at least {format_percent(low - collecting)} outside them"
            )
        largest = sorted(shares, key=lambda name: -shares[name])[:3]
        named = ", ".join(
            f"{COMPONENTS[name].title} {format_percent(shares[name])}"
            for name in largest
            if shares[name] > 0
        )
        sentences.append(f"{sentence}. The largest parts: {named}." if named else f"{sentence}.")
        if details_of(record).updates:
            sentences.append(_about_counting(record, shares, where))
    return sentences


def _about_counting(record: Record, shares: Mapping[str, float], where: str) -> str:
    """What references are counted for, and how much of the program this cannot be said of."""
    values, updates = record.outcome.values, details_of(record).updates.values()
    atomic = sum(one.atomic for one in updates) / max(sum(one.all for one in updates), 1)
    unseen = values["unexplained_instructions"] / max(values["instructions"], 1)
    return (
        f"Counting references takes {format_percent(sum(shares[name] for name in COUNTING))} of "
        f"the instructions{where}; {format_percent(atomic)} of the updates of counts are atomic. "
        f"Whether counts are inlined in the {format_percent(unseen)} that no rule covers, Tare "
        "cannot tell."
    )


def _about_rules(good: Sequence[Record]) -> list[str]:
    """By which rules the runs were judged, and how far these reach."""
    judged = [record for record in good if details_of(record).titles]
    sentences = []
    if judged:
        titles = {title for record in judged for title in details_of(record).titles}
        shares = [
            record.outcome.values["unexplained_instructions"]
            / max(record.outcome.values["instructions"], 1)
            for record in judged
        ]
        bounds = " to ".join(dict.fromkeys(map(format_percent, (min(shares), max(shares)))))
        sentences.append(
            f"Runtime: {', '.join(sorted(titles))}. {bounds} of the instructions are in code that "
            "no rule covers, such as primitives and libraries in C; they count as the program's "
            "own."
        )
        sentences += _about_sites(judged)
    if others := len(good) - len(judged):
        where = f" in {others} of {len(good)} runs" if judged else ""
        sentences.append(
            f"No known runtime was found{where}: malloc and its family are counted, and a "
            "collector of the program's own counts as the program."
        )
    return sentences


def _about_sites(judged: Sequence[Record]) -> list[str]:
    sites = {
        name: sum(getattr(details_of(record).sites, name) for record in judged)
        for name in ("all", "tiled", "checked", "agreeing")
    }
    if not sites["all"]:
        return []
    words = (
        f"Of {sites['all']:,} executed places that allocate, {sites['tiled']:,} have all their "
        "header words"
    )
    if sites["checked"]:
        words += (
            f"; of {sites['checked']:,} that the compiler's tables describe, too, "
            f"{sites['agreeing']:,} agree with these"
        )
    return [f"{words}."]


# ---- tables ----


def components_table(about: str, record: Record, identifier: str) -> Table:
    """A line per component with a low and a high bound."""
    values, components = record.outcome.values, details_of(record).components
    instructions = values["instructions"]

    def share(title: str, help: str, name: str) -> Field[Row]:
        return percents(
            title,
            help,
            lambda row: (
                (row[name] / instructions if instructions else 0.0) if name in row else None
            ),
        )

    may_be = "The high bound: with the ambiguous and the folded instructions."
    ambiguous = "Instructions that look like the component's, but may be the program's."
    folded = "Instructions of the program that also do the component's work."
    fields: list[Field[Row]] = [
        Field("component", "What the instructions do.", lambda row: row["title"], numeric=False),
        counts("instructions", "Those that surely belong to the component.", Certainty.SURE),
        share("share", "Of all instructions of the program: the low bound.", Certainty.SURE),
        share("at most", may_be, "most"),
        counts("ambiguous", ambiguous, Certainty.AMBIGUOUS, essential=False),
        counts("folded", folded, Certainty.FOLDED, essential=False),
        Field("what it is", "", lambda row: Cell(row["words"]), numeric=False, essential=False),
    ]
    rows: list[Row] = [
        {**part, "title": text(component.title), "words": component.explanation, "most": most}
        for name, component in COMPONENTS.items()
        if name != OTHER and (part := components.get(name)) and (most := sum(part.values()))
    ]
    no_rule = values["unexplained_instructions"]
    rows += [
        {"title": text(title, "quiet"), "words": words, Certainty.SURE: number}
        for title, number, words in (
            (
                COMPONENTS[OTHER].title,
                values[metric(OTHER)] - no_rule,
                "Code that the rules cover, but charge to no component.",
            ),
            ("no rule", no_rule, "Code that no rule covers."),
        )
    ]
    notes = [f"all lines sum to {format_count(instructions)} instructions, exactly."]
    return table(identifier, f"Components: {about}", rows, fields, notes)


def unexplained_tables(about: str, record: Record, identifier: str) -> list[Table]:
    """Where the code is that no rule is about."""
    unexplained = details_of(record).unexplained
    if not unexplained:
        return []
    whole = record.outcome.values["instructions"]
    executed = "Executed there, in code that no rule covers."
    fields: list[Field[str]] = [
        texts(
            "code", "The object file, or a part of it.", lambda name: shortened(visible(name), 60)
        ),
        counts("instructions", executed, lambda name: unexplained[name]),
        percents(
            "share",
            "Of all instructions of the program.",
            lambda name: unexplained[name] / whole if whole else 0.0,
        ),
    ]
    return [table(identifier, f"No rule: {about}", unexplained, fields, essential=False)]


def calls_tables(about: str, record: Record, identifier: str) -> list[Table]:
    """How much of malloc's operations is beyond their quickest calls."""
    operations = details_of(record).calls
    if not operations:
        return []
    per_call = Kind("{:.1f}".format)
    fields: list[Field[Row]] = [
        texts("operation", "", "operation"),
        counts("calls", "By the program, or one of its libraries.", "calls"),
        per_call(
            "a call",
            "Mean instructions of a call, without the zeroing in calloc.",
            lambda row: (row["quick"] + row["slow"]) / max(row["calls"], 1),
        ),
        per_call(
            "quick",
            "The same, if all were like the quickest tenth.",
            lambda row: row["quick"] / max(row["calls"], 1),
        ),
        percents(
            "slow",
            "Share of the operation's instructions beyond that.",
            lambda row: quotient(row["slow"], row["quick"] + row["slow"]) or 0.0,
        ),
    ]
    rows = [{**of, "operation": name} for name, of in operations.items()]
    return [table(identifier, f"Quick and slow calls: {about}", rows, fields)]


def updates_tables(about: str, record: Record, identifier: str) -> list[Table]:
    """How often counts of references were written."""
    updates = details_of(record).updates
    if not updates:
        return []
    values = record.outcome.values
    fields: list[Field[Row]] = [
        texts("component", "", "title"),
        counts("updates", "How often a count was written.", "all"),
        percents(
            "atomic",
            "Of these, with a locked instruction.",
            lambda row: quotient(row["atomic"], row["all"]) or 0.0,
        ),
        Kind("{:.1f}".format)(
            "instructions",
            "Of the component, for each update; immortal objects have none.",
            lambda row: row["instructions"] / max(row["all"], 1),
        ),
    ]
    rows = [
        {
            "title": COMPONENTS[name].title,
            "all": one.all,
            "atomic": one.atomic,
            "instructions": values[metric(name)],
        }
        for name, one in updates.items()
    ]
    return [table(identifier, f"Counts of references: {about}", rows, fields)]


def pages_tables(records: Sequence[Record]) -> list[Table]:
    """What the kernel did for memory, in runs by themselves."""
    first_touch = "First touches of a page, which the kernel served without a disk."
    system, user = "system_seconds", "user_seconds"
    fields: list[Field[Row]] = [
        texts("program", "", "program"),
        texts("manager", "", "manager"),
        counts("page faults", first_touch, "minor_faults"),
        counts("from disk", "Those that had to wait for a disk.", "major_faults", essential=False),
        seconds("in the kernel", "Processor time in the kernel, for all purposes.", system),
        percents(
            "share",
            "Of all processor time.",
            lambda row: quotient(row[system], row[system] + row[user]) or 0.0,
        ),
    ]
    rows = [
        {
            **record.outcome.values,
            **record.outcome.details,
            "program": shortened(visible(record.run.program), 40),
            "manager": record.run.manager,
        }
        for record in records
        if record.run.observer == PAGES and record.outcome.status is Status.OK
    ]
    if not rows:
        return []
    notes = [
        "one run each, without Valgrind. Instructions of the kernel are not counted, so this is "
        "not among the components."
    ]
    return [table("table-pages", "Pages, and time in the kernel", rows, fields, notes)]


def comparison_table(rows: Mapping[str, Record]) -> Table:
    """A line per run, and below those of the paper; shares of instructions, and of its time."""
    lines = []
    for label, record in rows.items():
        values = record.outcome.values
        unexplained = quotient(values["unexplained_instructions"], values["instructions"])
        bounds = {"most": highest_share(record), "unexplained": unexplained or 0.0}
        name = text(shortened(visible(label), 40))
        lines.append({**share_row(name, shares_of(record)), **bounds})
    fields: list[Field[Row]] = [
        Field("program", "", lambda row: row["program"], numeric=False),
        percents("all", "All components together: the low bound.", "all"),
        percents("at most", "The high bound.", "most"),
        percents("collections", "The components of collections together.", "collections"),
        *component_fields([*lines, *published().values()]),
        percents("no rule", "In code that no rule covers.", "unexplained"),
    ]
    lines += [
        share_row(program_of_1994(program), shares) for program, shares in published().items()
    ]
    notes = [
        f"the rows of 1994 are from {PAPER}, of SML/NJ on a DECstation 5000/200: shares of the "
        "run time, with stalls in collections. The other rows are shares of instructions, of "
        "other programs."
    ]
    return table("table-breakdown", "Shares beside those of 1994", lines, fields, notes)


# ---- the figure ----


def shares_figure(rows: Mapping[str, Record]) -> Figure:
    """A bar per run and per program of the paper, stacked of groups of components."""
    bars = {
        shortened(visible(label), 30): by_group(shares_of(record)) for label, record in rows.items()
    }
    bars |= {f"{program} (1994)": by_group(shares) for program, shares in published().items()}
    return stacked_bars(
        "figure-breakdown",
        "Storage management by component",
        "The low bounds, in groups of components; slow, zeroing and copies are of malloc and "
        "realloc. Below, what was published in 1994 of other programs, on another machine.",
        bars,
        tuple(GROUPS),
        "share of all instructions (1994: of the run time)",
    )
