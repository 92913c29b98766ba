"""The study behind `tare space`: what the resident memory of a program is for, under each manager.

A run is recorded and analysed by ``tare.studies.space.observe``; its record holds all that is shown
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from tare.base.libraries import np
from tare.base.units import format_bytes, format_count, format_percent, format_seconds
from tare.campaign import planning
from tare.heap_traces.frames import merged
from tare.heap_traces.growth import GROWS
from tare.records import summary
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import (
    MANAGER,
    Field,
    Row,
    counts,
    numbers,
    quotient,
    ratios,
    sizes,
    table,
    texts,
)
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.space import figures as drawn
from tare.studies.space import ownership
from tare.studies.space.details import Details, Growth, Process
from tare.studies.space.figures import shown_parts
from tare.studies.space.snapshot import TOUCHED_BYTES
from tare.studykit.findings import first_records, sentences_by_program
from tare.studykit.published import published
from tare.studykit.site_tables import (
    CALLED,
    CALLED_BY,
    FRAME,
    OF_ONE,
    Measure,
    at_first_frame,
    first_view,
    frame_rows,
    large,
    numbered,
    placed,
    ranked,
    site_number,
    site_text,
    stack_number,
)

STUDY = "space"
OBSERVER = "space"
TITLE = "Where peak memory goes"
FIRST_METRIC = "resident_bytes"
MOST_FIGURES = 4
"""Managers that are drawn one by one."""
MEANINGS = {
    "requested": "what the program asked for and has not freed",
    "internal": "given beyond what was asked for, in objects alive",
    "metadata": "headers, the manager's tables, and what was never handed out",
    "external": "free cells, in pages that hold an object",
    "retained": "pages that held objects, and hold none now",
    "delayed": "freed by the program, and still held by a layer",
    "other": "outside the heap: code, static data, stacks, mappings of the program's own",
    "unexplained": "resident in the kernel's sum, but not among the pages that it lists",
}
SMALL = 0.02
"""Below this share of resident memory, a part is not worth a sentence."""
FAR = 1.05
"""From this ratio on, the snapshots missed the peak that the kernel saw."""
NOTABLE_UNEXPLAINED = 0.01
NOTABLE_MAPPED = 0.1


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
summarise = partial(summary.summarise_range, first_metric=FIRST_METRIC)


# ---- the section of a report ----


def section(results: Results, identifier: str = STUDY, title: str = TITLE) -> Section:
    """Findings, tables and figures of all analysed runs in a results folder."""
    every = read_records(results.folder)
    records = [r for r in every if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    programs = list(dict.fromkeys(r.run.program for r in good))
    tables: list[Table] = []
    folded: list[Table] = []
    figures: list[Figure] = []
    for number, program in enumerate(programs, 1):
        found = details_of(first_records(good, program))
        baseline = results.run.baseline
        first = baseline if baseline in found else next(iter(found))
        dragged = ownership.drag_of(every, program)
        owners = ownership.tables(program, found[first], dragged, number)
        tables += [
            split_table(program, found, f"table-space-{number}"),
            *(table for table in owners if table.essential),
            sites_table(program, first, found[first], f"table-keeping-{number}"),
        ]
        if found[first].growth.sites:
            tables.append(growth_table(program, found[first], f"table-growth-{number}"))
        folded += [
            *(table for table in owners if not table.essential),
            sizes_table(program, found, f"table-sizes-{number}"),
            *(
                []
                if owners
                else [leaks_table(program, found[first], f"table-never-freed-{number}")]
            ),
            stacks_table(program, found[first], f"table-space-stacks-{number}"),
            processes_table(program, found[first], f"table-space-processes-{number}"),
        ]
        if len(programs) == 1:
            figures += space_figures(program, found, first)
    if good:
        folded.append(published_table(good))
    return Section(
        identifier=identifier,
        title=title,
        findings=findings(records, results.run.baseline),
        tables=[*(table for table in tables if table.rows), *(t for t in folded if t.rows)],
        figures=figures,
    )


def details_of(firsts: Mapping[str, Record]) -> dict[str, Details]:
    return {manager: record.outcome.details_as(Details) for manager, record in firsts.items()}


def findings(records: Sequence[Record], baseline: str) -> list[str]:
    """What the runs say, in sentences."""
    good = [r for r in records if r.outcome.status is Status.OK]
    if not good:
        return ["No run could be analysed."]

    def about(firsts: Mapping[str, Record]) -> list[str]:
        found = details_of(firsts)
        first = baseline if baseline in found else next(iter(found))
        return [
            *_peak_sentences(first, found[first]),
            *ownership.sentences(found[first]),
            *_comparison_sentence(first, found),
            *_growth_sentences(found[first].growth, found[first]),
            *_caution_sentences(found),
        ]

    return sentences_by_program(good, about)


def _peak_sentences(manager: str, found: Details) -> list[str]:
    peak = found.peak
    whole, requested = max(peak.resident, 1), peak.parts.requested
    sentences = [
        f"Under {manager}, {format_bytes(peak.resident)} are resident at the peak; "
        f"{format_bytes(requested)} of them ({format_percent(requested / whole)})"
        " are what the program asked for and still has."
    ]
    for each in found.mapped[:1]:
        share = each.resident / whole
        if share >= NOTABLE_MAPPED:
            sentences.append(
                f"{format_bytes(each.resident)} ({format_percent(share)}) are memory that "
                f"{Path(each.file).name} maps itself: no allocator serves it."
            )
    costs = {
        name: size
        for name in ("internal", "metadata", "external", "retained", "delayed")
        if (size := peak.part(name)) >= SMALL * whole
    }
    if costs:
        largest = sorted(costs, key=lambda name: -costs[name])
        texts = [f"{format_bytes(costs[name])} {name} ({MEANINGS[name]})" for name in largest[:3]]
        sentences.append(f"Most of what the heap takes beyond that: {'; '.join(texts)}.")
    if found.largest_live:
        ratio = peak.heap / found.largest_live
        sentences.append(
            f"Heap expansion is {ratio:.2f}: the resident heap at the peak, divided by the most "
            f"bytes ever alive, {format_bytes(found.largest_live)}."
        )
    keeping = _keeping(found)
    kept = sum(site["kept"] for site in keeping)
    number = found.keeping_sites - len(found.sites) + len(keeping)
    if kept >= SMALL * whole and number == 1:
        sentences.append("The free cells lie beside the objects of one call site.")
    elif kept >= SMALL * whole and found.sites_known:
        half, sum_ = 0, 0
        for site in keeping:
            half, sum_ = half + 1, sum_ + site["kept"]
            if 2 * sum_ >= kept:
                break
        sites = "one call site keep" if half == 1 else f"{half} call sites keep"
        sentences.append(
            f"The objects of {sites} at least half of the free cells resident "
            f"({format_bytes(sum_)}; {format_count(number)} sites keep some)."
        )
    return sentences


def _comparison_sentence(first: str, found: Mapping[str, Details]) -> list[str]:
    if len(found) < 2:
        return []
    peaks = {manager: details.peak.resident for manager, details in found.items()}
    least, most = min(peaks, key=lambda m: peaks[m]), max(peaks, key=lambda m: peaks[m])
    if peaks[least] > peaks[first] * (1 - SMALL):
        least = first
    if peaks[most] < peaks[least] * (1 + SMALL):
        return ["All managers have about the same resident memory at the peak."]
    text = f"{least} has the least resident memory at the peak, {format_bytes(peaks[least])}"
    if least != first:
        text += f" ({format_percent(1 - peaks[least] / peaks[first])} less than {first})"
    return [f"{text}; {most} has the most, {format_bytes(peaks[most])}."]


def _growth_sentences(growth: Growth, found: Details) -> list[str]:
    sentences = []
    kinds = [site["kind"] for site in _growing(growth)]
    kept = [site.kind for site in growth.sites]
    number = growth.growing_sites - kept.count(GROWS) + kinds.count(GROWS)
    if number:
        sites, have, end = (
            ("one call site", "has", "it")
            if number == 1
            else (f"{number} call sites", "have", "they")
        )
        sentences.append(
            f"{sites} {have} objects that grow to the end of the run: {end} may be leaking, or "
            "building up what is needed."
        )
    elif found.sites_known and found.allocated_bytes:
        sentences.append(
            "No call site's objects grow without bound: all reach a plateau or level off."
        )
    share = growth.never_freed_bytes / max(found.largest_live, 1)
    if share >= SMALL:
        sentences.append(
            f"{format_bytes(growth.never_freed_bytes)} in "
            f"{format_count(growth.never_freed_objects)} objects were never freed."
        )
    return [sentence[0].upper() + sentence[1:] for sentence in sentences]


def _caution_sentences(found: Mapping[str, Details]) -> list[str]:
    sentences = []
    if collectors := [manager for manager, details in found.items() if details.collects]:
        collects = "collects" if len(collectors) == 1 else "collect"
        sentences.append(
            f"{', '.join(collectors)} {collects} garbage: until it is collected it cannot be told "
            "from objects in use, and counts as requested until the program frees it."
        )
    for manager, details in found.items():
        peak = details.peak
        seen = peak.resident + peak.observer
        if (kernels := details.kernel_peak_bytes) and kernels > FAR * seen and not many(details):
            sentences.append(
                f"Under {manager} the kernel saw a peak of {format_bytes(kernels)}, above that of "
                f"the snapshots, {format_bytes(seen)} including the recorder's own memory: memory "
                "was used for a moment in which nothing was allocated or freed."
            )
        unexplained = peak.parts.unexplained / max(peak.resident, 1)
        if abs(unexplained) > NOTABLE_UNEXPLAINED:
            sentences.append(
                f"Under {manager}, {format_percent(unexplained)} of resident memory is unexplained."
            )
        if peak.swapped:
            sentences.append(
                f"Under {manager}, {format_bytes(peak.swapped)} were swapped out and are not "
                "counted."
            )
        if details.damage:
            number = len(details.damage)
            damaged = "1 snapshot was" if number == 1 else f"{number} snapshots were"
            sentences.append(f"Under {manager}, {damaged} damaged.")
    spent = max(details.snapshot_seconds for details in found.values())
    cost = max(details.peak.observer for details in found.values())
    coarse = max(details.coarseness for details in found.values())
    sentences.append(
        f"Peaks are accurate to {format_percent(coarse)} or {format_bytes(TOUCHED_BYTES)}. "
        f"The recorder's own memory, {format_bytes(cost)}, is left out; snapshots took "
        f"{format_seconds(spent)} of a run."
    )
    return sentences


def many(details: Details) -> bool:
    """Whether the figures are of one process among several."""
    return len(details.processes) > 1


# ---- tables ----


def split_table(program: str, found: Mapping[str, Details], identifier: str) -> Table:
    """A line per manager: its resident bytes at the peak, and the parts."""
    parts = shown_parts([details.peak for details in found.values()])
    most_alive = "The most bytes, as asked for, alive at one moment."
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        sizes.metric("resident", "resident_bytes"),
        *(sizes.metric(name, f"{name}_bytes", essential=name != "unexplained") for name in parts),
        ratios.metric("expansion", "heap_expansion_ratio"),
        sizes("most alive", most_alive, "largest_live", essential=False),
    ]
    rows = [
        {
            "manager": manager,
            "resident_bytes": details.peak.resident,
            **{f"{name}_bytes": details.peak.part(name) for name in parts},
            "heap_expansion_ratio": quotient(details.peak.heap, details.largest_live),
            "largest_live": details.largest_live,
        }
        for manager, details in found.items()
    ]
    notes = [f"{name}: {MEANINGS[name]}." for name in parts]
    if any(many(details) for details in found.values()):
        notes.append("of several processes: the one with the largest peak.")
    if any(details.forked for details in found.values()):
        notes.append(
            "the child of a fork: what it freed of its parent's objects counts as requested."
        )
    return table(identifier, f"Resident memory at the peak: {program}", rows, fields, notes)


_KEPT = ("kept", "objects", "requested", "internal", "sparse_pages", "alone", "sparse_bytes")


def _keeping(found: Details) -> list[dict[str, Any]]:
    """The call sites whose objects keep free cells resident, one for all that read alike."""
    return sorted(merged(map(structs.asdict, found.sites), _KEPT), key=lambda site: -site["kept"])


def _growing(growth: Growth) -> list[dict[str, Any]]:
    """The call sites whose objects grow or level off, one for all that read alike: it grows where
    one of them does."""
    sites = ({**structs.asdict(site), "levels": np.array(site.levels)} for site in growth.sites)
    found = merged(sites, ("gained", "per_allocated", "levels"))
    return sorted(found, key=lambda site: (site["kind"] != GROWS, -site["gained"]))


def _ranked_keeping(found: Details) -> tuple[list[Row], Measure]:
    sites = _keeping(found)
    kept = sum(site["kept"] for site in sites)
    whole = max(kept, found.peak.parts.external)
    others = {"kept": whole - kept, "sites": found.keeping_sites - len(found.sites)}
    measure = Measure("kept", whole, format_bytes)
    return ranked(sites, measure, others), measure


def sites_table(program: str, manager: str, found: Details, identifier: str) -> Table:
    """The call sites whose objects keep free cells resident."""
    rows, measure = _ranked_keeping(found)
    notes = [] if found.sites_known else ["recorded without call sites."]
    shared = "Free cells in pages with the site's objects, shared out by bytes on a page."
    empty = "Mostly empty pages (under 25% alive) with an object of the site."
    alone = "Of these, the pages with objects of this site only."
    on_pages = "Bytes of the site's objects on its mostly empty pages."
    beyond = "What they were given beyond that."
    fields: list[Field[Row]] = [
        site_number("By the free cells kept, the most first."),
        texts("call site", CALLED_BY, site_text),
        sizes("keeps", shared, "kept"),
        counts("objects", "Objects of the site alive at the peak.", "objects"),
        sizes("bytes", "What they asked for.", "requested"),
        sizes("internal", beyond, "internal", essential=False),
        counts("pages", empty, "sparse_pages"),
        counts("alone", alone, "alone", essential=False),
        sizes("with", on_pages, "sparse_bytes"),
    ]
    title = f"Objects that pin free memory, under {manager}: {program}"
    return first_view(table(identifier, title, rows, fields, notes), rows, measure)


def growth_table(program: str, found: Details, identifier: str) -> Table:
    """The call sites whose objects grow, or level off."""
    gained = "The least that was alive in the last eighth of the run, less that in the first."
    rate = "Bytes gained for each MiB that the program allocated meanwhile."
    does = "What they do, by the test in docs/space.md."
    fields: list[Field[Row]] = [
        site_number("By what was gained, those that grow first."),
        texts("call site", CALLED, site_text),
        texts("objects", does, "kind"),
        sizes("gained", gained, "gained"),
        sizes("a MiB", rate, lambda row: row["per_allocated"] * (1 << 20)),
    ]
    rows = numbered(_growing(found.growth))
    title = f"Call sites whose objects grow: {program}"
    return placed(table(identifier, title, rows, fields), rows)


def sizes_table(program: str, found: Mapping[str, Details], identifier: str) -> Table:
    """By manager and size class: what objects take, and what they keep."""
    keeps = "Free cells in their pages, shared out by bytes on a page."
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        sizes("up to", "Usable size, to a power of two.", "up_to"),
        counts("objects", "Alive at the peak.", "objects"),
        sizes("asked for", "By these objects.", "requested"),
        sizes("internal", "Given beyond that.", "internal"),
        sizes("keeps", keeps, "kept"),
        counts("pages", "Mostly empty pages with one of them.", "sparse_pages"),
    ]
    rows = [
        {"manager": manager, **structs.asdict(each)}
        for manager, details in found.items()
        for each in details.sizes
    ]
    return table(identifier, f"By size: {program}", rows, fields, essential=False)


def leaks_table(program: str, found: Details, identifier: str) -> Table:
    """What was never freed, by stack: of results that do not say who owns the memory."""
    fields: list[Field[Row]] = [
        site_number("By bytes, the most first."),
        texts("call site", CALLED, site_text),
        sizes("bytes", "Never freed.", "never_freed_bytes"),
        counts("objects", "Never freed.", "never_freed_objects"),
    ]
    growth, summed = found.growth, ("never_freed_bytes", "never_freed_objects")
    kept = [structs.asdict(site) for site in growth.never_freed]
    others = {name: getattr(growth, name) - sum(site[name] for site in kept) for name in summed}
    others["sites"] = growth.leaking_sites - len(kept)
    measure = Measure("never_freed_bytes", growth.never_freed_bytes, format_bytes)
    rows = ranked(merged(kept, summed), measure, others)
    title = f"Never freed: {program}"
    return first_view(table(identifier, title, rows, fields, essential=False), rows, measure)


def stacks_table(program: str, found: Details, identifier: str) -> Table:
    """The whole stacks of the call sites that keep free cells, and of those that grow."""

    fields: list[Field[Row]] = [
        at_first_frame(texts("table", "", "table")),
        stack_number("The number of the call site in that table."),
        FRAME,
    ]
    rows = [
        {"table": name, **row}
        for name, sites in (
            ("keeps", large(*_ranked_keeping(found))),
            ("grows", numbered(_growing(found.growth))),
        )
        for row in frame_rows(sites)
    ]
    return table(identifier, f"Stacks: {program}", rows, fields, [OF_ONE], essential=False)


def processes_table(program: str, found: Details, identifier: str) -> Table:
    """The processes with their peaks; no rows where there is one."""
    peak = "Resident at its peak, the recorder's memory included."
    fields: list[Field[Process]] = [
        numbers("process", "Its number.", lambda process: process.pid),
        texts("program", "", lambda process: process.program),
        sizes("peak", peak, lambda process: process.peak_bytes),
    ]
    rows = found.processes[:1000] if many(found) else ()
    return table(identifier, f"Processes: {program}", rows, fields, essential=False)


def published_table(good: Sequence[Record]) -> Table:
    """Measured heap expansion over that of table X of Detlefs, Dosser and Zorn (1994)."""
    paper = published(STUDY)
    allocators = [name for name in paper[0] if name != "program"]
    theirs = "Published: largest heap divided by the most bytes alive."

    def expansion(title: str, help: str, name: str) -> Field[Row]:
        return Field(title, help, lambda row: ratios.cell(row[name]) if name in row else Cell(""))

    fields: list[Field[Row]] = [
        Field("program", "", lambda row: Cell(row["text"], row["program"]), numeric=False),
        expansion("here", "Resident heap at the peak divided by the most bytes alive.", "here"),
        *(expansion(name, theirs, name) for name in allocators),
    ]
    rows = [
        {"program": (name := f"{record.run.program} under {record.run.manager}"), "text": name,
         "here": record.outcome.values["heap_expansion_ratio"]}
        for record in good
        if "heap_expansion_ratio" in record.outcome.values
    ]  # fmt: skip
    rows += [{**row, "text": f"{row['program']} (published)"} for row in paper]
    notes = [
        "published: Detlefs, Dosser and Zorn, Memory Allocation Costs in Large C and C++ Programs "
        "(1994), table X. There the heap is what the allocator had from the kernel, here only the "
        "resident part of it; programs and machines differ, so only the order of magnitude can be "
        "compared."
    ]
    title = "Heap expansion beside published figures"
    return table("table-space-published", title, rows, fields, notes, essential=False)


# ---- figures ----


def space_figures(program: str, found: Mapping[str, Details], first: str) -> list[Figure]:
    """The parts by manager, and who owns them; then over time, and the pages, of which the page
    folds what is not of ``first``."""
    figures = [drawn.split_figure(found, "figure-space", program)]
    figures += ownership.figures(program, found[first], "figure-space-owners")
    ordered = {first: found[first], **found}
    for number, (manager, details) in enumerate(list(ordered.items())[:MOST_FIGURES], 1):
        mine = [drawn.timeline_figure(manager, details, f"figure-space-time-{number}")]
        if details.page_map.live:
            mine.append(drawn.page_map_figure(manager, details, f"figure-space-map-{number}"))
            mine.append(drawn.occupancy_figure(manager, details, f"figure-space-full-{number}"))
        figures += [replace(figure, essential=manager == first) for figure in mine]
    growth = found[first].growth
    if growth.sites:
        allocated = found[first].allocated_bytes
        figures.append(drawn.growth_figure(_growing(growth), allocated, "figure-space-growth"))
    return figures
