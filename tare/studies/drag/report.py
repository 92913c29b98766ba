"""The study behind `tare drag`: what a program holds in memory without need, when, and who asked.

A run is recorded and analysed by ``tare.studies.drag.observe``; its record holds all that is shown
here.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from tare.base.units import format_bytes, format_count, format_percent
from tare.campaign import planning
from tare.heap_traces.frames import merged
from tare.heap_traces.predictions import LEAK
from tare.records import summary
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import (
    MANAGER,
    Field,
    Row,
    counts,
    percents,
    ratios,
    sizes,
    table,
    text,
    texts,
)
from tare.report.figures.marks import INK, SERIES, scale_for
from tare.report.figures.profiles import Series, profile_spec
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.drag.details import Areas, Details, Kept, Peaks
from tare.studykit.findings import first_records, sentences_by_program
from tare.studykit.published import published
from tare.studykit.site_tables import (
    CALLED_BY,
    FRAME,
    OF_ONE,
    Measure,
    at_first_frame,
    first_view,
    frame_rows,
    large,
    ranked,
    site_number,
    site_text,
    stack_number,
)

STUDY = "drag"
OBSERVER = "drag"
TITLE = "Memory you could free earlier"
FIRST_METRIC = "peak_free_bytes"
SMALL = 0.02
"""Below this share of the peak, or above 1 in total drag, there is little to gain."""
WORTH_SAYING = 0.001
"""Smaller shares are left to the data."""
FLEETING = 0.05
"""Where the mean of the bytes held is below this share of their peak, most is held while hardly
anything is allocated."""
CAUSES = {
    "drag_freed": ("freed late", "freeing each object after its last use would help."),
    "drag_unfreed": (
        "never freed",
        "freeing them after their last use would help, unless that is near the end.",
    ),
    "void": ("never used", "not allocating them before they are needed would help."),
    "lag": ("born early", "allocating them right before their first use would help."),
}
"""By part of a site's wasted byte-time: why it is wasted, and what would help."""
MEANINGS = {
    "use": "from an object's first use to its last",
    "lag": "born, and not used yet",
    "drag": "after the last use, and not given back yet",
    "void": "of objects that are never used",
}


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
summarise = partial(summary.summarise_range, first_metric=FIRST_METRIC)


def values_of(found: Details) -> dict[str, float]:
    """The metrics of one analysed trace."""
    values = {
        f"peak_{curve}_bytes": float(peak)
        for curve, peak in structs.asdict(found.peaks).items()
        if peak is not None
    }
    if (ratio := total_drag(found.areas)) is not None:
        values["drag_ratio"] = ratio
    if whole := found.areas.held:
        values |= {f"{name}_share": part / whole for name, part in found.areas.parts.items()}
    values["never_used_bytes"] = float(found.totals.never_used_bytes)
    values["never_freed_bytes"] = float(found.totals.never_freed_bytes)
    if found.changes is not None:
        saved = [
            (change.kind, size)
            for change in found.changes
            for size, _, _ in filter(None, [change.saved(found.main.peaks.free)])
        ]
        values["best_change_bytes"] = max((0.0, *(size for _, size in saved)))
        values["leaking_bytes"] = sum(size for kind, size in saved if kind == LEAK)
    return values


def total_drag(areas: Areas, unreachable: bool = False) -> float | None:
    """The area under the curve with the program's frees (or, with ``unreachable``, that of what is
    still reachable) by the area under the curve with each object freed after its last use. None
    where only the latter is empty."""
    needed = areas.use + areas.lag
    held = areas.held
    if unreachable:
        held -= areas.unreachable_drag
    if needed > 0:
        return held / needed
    return 1.0 if held == 0 else None


# ---- the section of a report ----


def section(results: Results, identifier: str = STUDY, title: str = TITLE) -> Section:
    """Findings, tables and figures of all analysed traces in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    programs = list(dict.fromkeys(r.run.program for r in records))
    tables: list[Table] = []
    figures: list[Figure] = []
    folded: list[Table] = []
    for number, program in enumerate(programs, 1):
        firsts = first_records(good, program)
        if not firsts:
            continue
        first = firsts.get(results.run.baseline) or next(iter(firsts.values()))
        found = details_of(first)
        if not found.totals.objects:
            continue
        tables += [
            peaks_table(program, firsts, f"table-drag-{number}"),
            parts_table(program, found, f"table-parts-{number}"),
            sites_table(program, found, f"table-sites-{number}"),
        ]
        folded.append(stacks_table(program, found, f"table-stacks-{number}"))
        if len(programs) == 1:
            figures += drag_figures(found)
    if good:
        folded.append(published_table(good))
    return Section(
        identifier=identifier,
        title=title,
        findings=findings(records, results.run.baseline),
        tables=[*tables, *(table for table in folded if table.rows)],
        figures=figures,
        commands=_commands(results, records),
    )


def details_of(record: Record) -> Details:
    return record.outcome.details_as(Details)


def _commands(results: Results, records: Sequence[Record]) -> list[tuple[str, str]]:
    """For runs that failed, how to look at what was recorded of them."""
    commands = []
    for record in records:
        trace = record.outcome.details_as(Kept).trace
        if record.outcome.status is not Status.OK and trace:
            line = shlex.join(["tare", "drag", str(results.folder / trace)])
            commands.append(("to see what was recorded until then", line))
    return commands


def findings(records: Sequence[Record], baseline: str) -> list[str]:
    """What the traces say, in sentences."""
    good = [r for r in records if r.outcome.status is Status.OK]
    if not good:
        return ["No run gave a trace that can be analysed."]

    def about(firsts: Mapping[str, Record]) -> list[str]:
        first = firsts.get(baseline) or next(iter(firsts.values()))
        return _about(details_of(first))

    sentences = sentences_by_program(good, about)
    sentences.append(
        "Bytes are those that the program asked for. What the manager adds to them is not in these "
        "figures."
    )
    return sentences


def _about(found: Details) -> list[str]:
    totals, areas = found.totals, found.areas
    if not totals.objects:
        return ["The program allocated nothing."]
    sentences = [_peaks_sentence(found.peaks)]
    ratio = total_drag(areas)
    over = "allocation time" if found.clock == "bytes" else "its instructions"
    if ratio is None:
        sentences.append(f"Over {over} no object stays in use: all that it holds is unused.")
    elif ratio < 1 + SMALL:
        sentences.append(
            f"Its total drag is {ratio:.2f}: over {over} it holds hardly more than it needs."
        )
    else:
        sentences.append(
            f"Its total drag is {ratio:.2f}: over {over} it holds that many times the bytes "
            "that it would hold if each object were freed after its last use."
        )
    reachable = total_drag(areas, unreachable=True) if found.reachability else None
    if reachable is not None and ratio is not None:
        sentences.append(
            f"With each object freed once unreachable, total drag would be {reachable:.2f}."
        )
    held = areas.held / max(totals.bytes, 1)
    if found.clock == "bytes" and held < FLEETING * found.peaks.free:
        sentences.append(
            "Hardly anything is allocated while most is held, so time in bytes allocated says "
            "little: --clock instructions says more."
        )
    sentences += _sites_sentence(found)
    for what, number, size in (
        ("never used", totals.never_used_objects, totals.never_used_bytes),
        ("never freed", totals.never_freed_objects, totals.never_freed_bytes),
    ):
        share = size / max(totals.bytes, 1)
        if share >= WORTH_SAYING:
            objects = "one object" if number == 1 else f"{format_count(number)} objects"
            sentences.append(
                f"{format_bytes(size)} in {objects} were {what}, "
                f"{format_percent(share)} of all bytes."
            )
    if found.reuse is not None and found.reuse.reusable:
        share = found.reuse.reusable / found.reuse.frees
        sentences.append(
            f"{format_percent(share)} of the frees come right before an allocation of the same "
            "size by the same thread, which could reuse the memory in place."
        )
    if not found.complete:
        sentences.append(
            f"The recording was cut off ({found.reason or 'it has no end'}): the figures are for "
            f"the time until then, and {format_count(totals.unknown_objects)} objects that were "
            "alive then count as in use."
        )
    return sentences


def _peaks_sentence(peaks: Peaks) -> str:
    free, last = peaks.free, peaks.last_use
    start = f"The program holds {format_bytes(free)} at its peak; "
    less = 1 - last / free if free else 0.0
    needed = last if peaks.needed is None else peaks.needed
    if last - needed > SMALL * free:
        text = (
            f"{start}freeing each object after its last use, not counting reads by code that frees "
            f"it, would need {format_bytes(needed)} ({format_percent(1 - needed / free)} less)"
        )
    elif less < SMALL:
        text = f"{start}freeing each object right after its last use would change little"
        text += f" ({format_bytes(last)})"
    else:
        text = (
            f"{start}freeing each object right after its last use would need {format_bytes(last)} "
            f"({format_percent(less)} less)"
        )
    if peaks.unreachable is not None:
        text += f", and freeing it once it is unreachable {format_bytes(peaks.unreachable)}"
    return text + "."


def _sites_sentence(found: Details) -> list[str]:
    if not found.sites_known or not found.wasting_sites:
        return []
    number, wasted, summed = _wasting_sites(found), found.areas.wasted, 0.0
    if number == 1:
        return ["All unused memory comes from one call site."]
    for half, site in enumerate(_sites(found), 1):
        if 2 * (summed := summed + site["wasted"]) >= wasted:
            of = "call site" if half == 1 else "call sites"
            return [
                f"Half of the unused memory comes from {half} {of} (of {format_count(number)})."
            ]
    return []


# ---- tables ----


def peaks_table(program: str, firsts: Mapping[str, Record], identifier: str) -> Table:
    """A line per manager: the peaks by the three definitions of death, and total drag."""
    unreachable = "peak_unreachable_bytes"
    reachability = any(unreachable in r.outcome.values for r in firsts.values())
    teardown = any("peak_needed_bytes" in r.outcome.values for r in firsts.values())
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        sizes.metric("when freed", "peak_free_bytes"),
        sizes.metric("when unreachable", unreachable, shown=reachability),
        sizes.metric("after last use", "peak_last_use_bytes"),
        sizes.metric("when needed no more", "peak_needed_bytes", shown=teardown),
        percents("less", "How much lower the peak would be than it is.", _less),
        ratios.metric("total drag", "drag_ratio"),
        sizes.metric("never used", "never_used_bytes", essential=False),
        sizes.metric("never freed", "never_freed_bytes", essential=False),
    ]
    rows = [{"manager": manager, **record.outcome.values} for manager, record in firsts.items()]
    notes = ["after last use: an object that is never used is never held."]
    if teardown:
        notes.append(
            "when needed no more: after the last use other than by code that frees it, such as a "
            "destructor."
        )
    first = details_of(next(iter(firsts.values())))
    if first.processes > 1:
        notes.append(f"{first.processes} processes: the sum of their own peaks.")
    title = f"Peak, by when objects are given back: {program}"
    return table(identifier, title, rows, fields, notes)


def _least_peak(row: Row) -> float:
    """With each object freed as soon as the trace can tell."""
    return float(row.get("peak_needed_bytes", row["peak_last_use_bytes"]))


def _less(row: Row) -> float:
    free, last = row["peak_free_bytes"], _least_peak(row)
    return 1 - last / free if free else 0.0


def parts_table(program: str, found: Details, identifier: str) -> Table:
    """What the bytes held are held for: over the whole time, and at the peak."""
    parts, whole = found.areas.parts, found.areas.held
    at_peak = structs.asdict(found.main.at_peak)
    held = sum(at_peak[name] for name in parts)
    summed = "Share of the bytes held, summed over time."
    fields: list[Field[str]] = [
        texts("part", "", str),
        percents("share", summed, lambda name: parts[name] / whole if whole else 0.0),
        sizes(
            "at the peak",
            "The bytes in this part at the peak.",
            lambda name: at_peak[name],
        ),
        percents(
            "share at the peak",
            "Of the bytes held at the peak.",
            lambda name: at_peak[name] / held if held else 0.0,
            essential=False,
        ),
        Field("what it is", "", lambda name: Cell(MEANINGS[name], name), numeric=False),
    ]
    notes = []
    if found.processes > 1:
        notes.append(f"the peak is that of process {found.main.process}, which holds most.")
    return table(identifier, f"What bytes are held for: {program}", parts, fields, notes)


_MEANS = {
    "unused": ("wasted",),
    "drag": ("drag_freed", "drag_unfreed"),
    "lag": ("lag",),
    "void": ("void",),
}
"""By column, the byte-times of a site whose mean over the run it shows."""
_SUMMED = ("wasted", *CAUSES, *_MEANS, "objects", "bytes")


def _sites(found: Details) -> list[dict[str, Any]]:
    """Those that are kept, with their means; one for all that read alike, the largest first."""
    sites = [
        {
            **structs.asdict(site),
            **{
                title: site.mean(sum(getattr(site, part) for part in parts))
                for title, parts in _MEANS.items()
            },
        }
        for site in found.sites
    ]
    return sorted(merged(sites, _SUMMED), key=lambda site: -site["wasted"])


def _wasting_sites(found: Details) -> int:
    """How many call sites have unused memory, those that are not kept as they were counted."""
    return found.wasting_sites - len(found.sites) + len(_sites(found))


def _ranked(found: Details) -> tuple[list[Row], Measure]:
    measure = Measure("wasted", found.areas.wasted, format_bytes, size="unused")
    sites = _sites(found)
    others = {
        name: max(0.0, getattr(found.areas, name) - sum(site[name] for site in sites))
        for name in CAUSES
    }
    wasted = sum(others.values())
    end = found.main.end if found.processes == 1 else 0
    mean = {"unused": wasted / end} if end else {}
    number = found.wasting_sites - len(found.sites)
    return ranked(sites, measure, {**others, **mean, "wasted": wasted, "sites": number}), measure


def sites_table(program: str, found: Details, identifier: str) -> Table:
    """The call sites with most unused memory, their innermost frames first."""
    rows, measure = _ranked(found)
    held = "Mean bytes held {} use."
    unused = "Mean bytes over the run that the site's objects hold unused."
    fields: list[Field[Row]] = [
        site_number("By unused memory, the most first."),
        texts("call site", CALLED_BY, site_text),
        sizes("unused", unused, "unused"),
        percents("share", "Of all unused memory, in byte-time.", measure.share),
        sizes("drag", held.format("after the last"), "drag", essential=False),
        sizes("lag", held.format("before the first"), "lag", essential=False),
        sizes("void", "Mean bytes of objects that are never used.", "void",
              essential=False),
        counts("objects", "Objects that the site allocated.", "objects"),
        sizes("bytes", "Bytes that the site allocated.", "bytes", essential=False),
        texts("mostly", "Why most of it is unused.", _cause_in_words),
    ]  # fmt: skip
    causes = {cause(site): None for site in large(rows, measure)}
    notes = [f"{CAUSES[name][0]}: {CAUSES[name][1]}" for name in causes]
    if not found.sites_known:
        notes.append("the trace was recorded without call sites.")
    shown = table(identifier, f"Call sites: {program}", rows, fields, notes)
    return first_view(shown, rows, measure)


def stacks_table(program: str, found: Details, identifier: str) -> Table:
    """A line for each frame of each call site, the innermost first."""
    fields: list[Field[Row]] = [
        stack_number("The number of the call site in the table above."),
        at_first_frame(sizes("unused", "As above.", "unused")),
        at_first_frame(texts("mostly", "As above.", _cause_in_words)),
        FRAME,
    ]
    rows = frame_rows(large(*_ranked(found)))
    title = f"Stacks: {program}"
    return table(identifier, title, rows, fields, [OF_ONE], essential=False)


def cause(site: Row) -> str:
    """The part of ``CAUSES`` which most of a site's wasted byte-time is in."""
    return max(CAUSES, key=lambda name: float(site[name]))


def _cause_in_words(row: Row) -> str:
    return CAUSES[cause(row)][0]


def published_table(good: Sequence[Record]) -> Table:
    """What was measured here above what was published of programs with regions."""

    def more(row: Row) -> float | None:
        last = row["peak_last_use_bytes"]
        return row["peak_free_bytes"] / last - 1 if last else None

    theirs = "published"
    fields: list[Field[Row]] = [
        texts("program", "", "program"),
        Field(
            "from",
            "",
            lambda row: text(row["from"], "quiet" if row["from"] == theirs else ""),
            numeric=False,
        ),
        sizes("peak", "As the program frees.", "peak_free_bytes"),
        sizes(
            "if freed after last use",
            "With each object freed right after its last use.",
            "peak_last_use_bytes",
        ),
        percents("more", "How much higher the peak is than it would be.", more),
        ratios.metric("total drag", "drag_ratio"),
    ]
    rows: list[Row] = [
        {"program": r.run.program, "from": f"here, {r.run.manager}", **r.outcome.values}
        for r in good
    ]
    rows += [{"from": theirs, **row} for row in published(STUDY)]
    notes = [
        "published: programs with regions, from Berger, Zorn and McKinley, Reconsidering Custom "
        "Memory Allocation, OOPSLA 2002, table 4 and section 7.3; measured on another machine."
    ]
    title = "Beside published figures"
    return table("table-drag-published", title, rows, fields, notes, essential=False)


# ---- figures ----


def drag_figures(found: Details) -> list[Figure]:
    """The profile of lag, use, drag and void, and the curves of the definitions of death."""
    main, profile = found.main, structs.asdict(found.main.profile)
    if not main.profile.use or not main.end:
        return []
    by_bytes = found.clock == "bytes"
    across = scale_for("B" if by_bytes else "", float(main.end))
    upwards = scale_for("B", float(main.peaks.free))
    clock = "allocated so far" if by_bytes else "instructions so far"
    axes = (across, upwards), (clock, "bytes held")
    step = main.end / len(main.profile.use)
    parts, whole = found.areas.parts, found.areas.held or 1.0
    colours = {"use": SERIES[0], "lag": SERIES[5], "drag": SERIES[1], "void": SERIES[7]}
    areas = [
        Series(
            name,
            colours[name],
            profile[name],
            f"{name}, {MEANINGS[name]}: {format_percent(parts[name] / whole)} of the byte-time",
        )
        for name in parts
    ]
    total = [sum(values) for values in zip(*(profile[name] for name in parts), strict=True)]
    needed = [use + lag for use, lag in zip(main.profile.use, main.profile.lag, strict=True)]
    still = main.profile.unreachable
    reachable = (
        [Series("still reachable", INK, still, "bytes of objects still reachable")]
        if found.reachability
        else []
    )
    held, peak = main.peaks.free, main.at_peak
    mark = (peak.time, held, f"the peak: {format_bytes(held)} in {peak.objects:,} objects")
    process = f" Of process {main.process}, which holds most." if found.processes > 1 else ""
    steps = f"Each step is the mean over 1/{len(total)} of the run; "
    lines = [
        Series("freed by the program", SERIES[1], total, "bytes held, as the program frees"),
        *reachable,
        Series("freed after last use", SERIES[0], needed, "bytes needed by objects still used"),
    ]
    return [
        Figure(
            "figure-drag-profile",
            "What memory is held for, over time",
            f"{steps}the dot is the exact peak.{process}",
            profile_spec(*axes, step, areas=areas, lines=reachable, mark=mark),
        ),
        Figure(
            "figure-drag-curves",
            "Memory by when objects are given back",
            f"{steps}the area between the curves is unused memory.{process}",
            profile_spec(*axes, step, lines=lines),
        ),
    ]
