"""Who owns the memory: what the call sites hold at the peak and at the end, and allocate in all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import structs

from tare.base.units import format_bytes, format_count, format_percent
from tare.heap_traces import frames
from tare.heap_traces.frames import frame_text
from tare.heap_traces.ownership import KEPT, LEAST_SITE, SUMS
from tare.records.metrics import Status
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Frames, Weight, grown
from tare.report.fields import (
    Field,
    Row,
    counts,
    percents,
    quotient,
    sizes,
    table,
    texts,
)
from tare.report.figures.icicle import icicle
from tare.report.model import Figure, Table
from tare.studies.space.details import Owned, Owning
from tare.studykit.site_tables import (
    CALLED_BY,
    Measure,
    first_view,
    ranked,
    site_number,
    site_text,
)

DRAG = "drag"
"""The study that records uses; in a bill its records lie beside those of space."""
NOTABLE_TEMPORARY = 0.1
NOTABLE_LEAKS = 0.02
"""Of the bytes at the peak."""
_SUMMED = (*SUMS, KEPT)
_WEIGHTS = {
    "peak_bytes": Weight("bytes at the peak", "B"),
    "never_freed_bytes": Weight("bytes never freed", "B"),
    "bytes": Weight("bytes allocated", "B"),
    "objects": Weight("objects allocated", ""),
    "temporary_objects": Weight("temporary objects", ""),
}


def sentences(found: Owning) -> list[str]:
    """Who holds most at the peak; nothing of a folder that does not say."""
    if (owned := found.owners) is None or not owned.totals.peak_bytes:
        return []
    totals = owned.totals
    said = []
    if owned.sites and (first := owned.sites[0]).frames:
        share = format_percent(first.peak_bytes / totals.peak_bytes)
        said.append(
            f"{frames.site_text(first.frames)} owns most at the peak: "
            f"{format_bytes(first.peak_bytes)} of the {format_bytes(totals.peak_bytes)} that were "
            f"asked for ({share})."
        )
    temporary = totals.temporary_objects / totals.objects
    if temporary >= NOTABLE_TEMPORARY:
        said.append(
            f"{format_percent(temporary)} of the {format_count(totals.objects)} allocations are "
            "temporary: the next call of their thread freed them."
        )
    return said


def drag_of(records: Sequence[Record], program: str) -> Owned | None:
    """What the study of drag found of who owns the memory, where the same results have it."""
    for record in records:
        run, outcome = record.run, record.outcome
        if run.study == DRAG and run.program == program and outcome.status is Status.OK:
            return outcome.details_as(Owning).owners
    return None


_AT_THE_PEAK: Field[Row] = sizes(
    "at the peak", "Bytes asked for by its objects alive at the peak.", "peak_bytes"
)
_NEVER_FREED: Field[Row] = sizes(
    "never freed", "Bytes of its objects alive at the end.", "never_freed_bytes"
)


def tables(program: str, found: Owning, dragged: Owned | None, number: int) -> list[Table]:
    """Of the sites by what they hold at the peak, by how often they allocate, and by what they
    never free."""
    if (owned := found.owners) is None or not owned.totals.objects:
        return []
    return [
        _peak_table(program, owned, dragged, f"table-owners-{number}"),
        _often_table(program, owned, f"table-often-{number}"),
        _leaks_table(program, owned, f"table-never-freed-{number}"),
    ]


def _peak_table(program: str, owned: Owned, dragged: Owned | None, identifier: str) -> Table:
    rows, measure = _ranked(owned, "peak_bytes", format_bytes)
    vain = {frames.site_text(site.frames): site.vain for site in (dragged.sites if dragged else ())}
    for row in rows:
        row["vain"] = vain.pop(site_text(row), None)
    rest = dragged.others.vain + sum(vain.values()) if dragged else None
    if rest and "sites" not in rows[-1]:
        rows.append({**structs.asdict(owned.others), "sites": max(owned.others.sites, 1)})
    if "sites" in rows[-1]:
        rows[-1]["vain"] = rest
    fields: list[Field[Row]] = [
        site_number("By the bytes at the peak, the most first."),
        texts("call site", CALLED_BY, site_text),
        _AT_THE_PEAK,
        percents("share", "Of all bytes at the peak.", measure.share),
        counts("objects", "Its objects alive at the peak.", "peak_objects"),
        _NEVER_FREED,
        sizes(
            "drag",
            "Bytes at the peak that are not needed again, except by code that frees them.",
            "vain",
            shown=dragged is not None,
        ),
        sizes("pins", "Free bytes that stay resident because its objects lie beside them.", KEPT),
    ]
    title = f"Who owns the memory at the peak: {program}"
    shown = table(identifier, title, rows, fields, _notes(owned, dragged))
    return first_view(shown, rows, measure)


def _notes(owned: Owned, dragged: Owned | None) -> list[str]:
    totals = owned.totals
    temporary, never_freed = map(
        format_count, (totals.temporary_objects, totals.never_freed_objects)
    )
    notes = [
        f"in all: {format_bytes(totals.peak_bytes)} at the peak; "
        f"{format_count(totals.objects)} allocations, {temporary} of them temporary; "
        f"{format_bytes(totals.never_freed_bytes)} in {never_freed} objects never freed.",
        "pins: at the peak of resident memory, which can be another moment.",
    ]
    if dragged:
        theirs = dragged.totals.peak_bytes
        notes.append(f"drag: of a run under the instrument, at its peak of {format_bytes(theirs)}.")
    return notes


def _often_table(program: str, owned: Owned, identifier: str) -> Table:
    """For the page: who allocates most often, and how much of it is temporary."""
    rows, measure = _ranked(owned, "objects", lambda number: f"{format_count(number)} allocations")
    fields: list[Field[Row]] = [
        site_number("By the number of allocations, the most first."),
        texts("call site", CALLED_BY, site_text),
        counts("allocations", "In the whole run.", "objects"),
        percents("share", "Of all allocations.", measure.share),
        counts("temporary", "Freed by the next call of their thread.", "temporary_objects"),
        percents(
            "of its own",
            "The share of its allocations that is temporary.",
            lambda row: quotient(row["temporary_objects"], row["objects"]) or 0.0,
        ),
        sizes("in all", "Bytes that it allocated in the whole run.", "bytes"),
        _NEVER_FREED,
    ]
    title = f"Who allocates most often: {program}"
    return first_view(table(identifier, title, rows, fields, essential=False), rows, measure)


def _leaks_table(program: str, owned: Owned, identifier: str) -> Table:
    """For the page: what was alive at the end."""
    rows, measure = _ranked(owned, "never_freed_bytes", format_bytes)
    fields: list[Field[Row]] = [
        site_number("By bytes, the most first."),
        texts("call site", CALLED_BY, site_text),
        sizes("bytes", "Never freed.", "never_freed_bytes"),
        percents("share", "Of all that was never freed.", measure.share),
        counts("objects", "Never freed.", "never_freed_objects"),
        _AT_THE_PEAK,
    ]
    title = f"Never freed: {program}"
    return first_view(table(identifier, title, rows, fields, essential=False), rows, measure)


def _ranked(
    owned: Owned, name: str, written: Callable[[float], str]
) -> tuple[list[dict[str, Any]], Measure]:
    """Sites without any of it are among the others, so that all columns add up."""
    measure = Measure(name, getattr(owned.totals, name), written)
    sites = [structs.asdict(site) for site in owned.sites]
    without = [site for site in sites if not measure(site)]
    others = {
        key: getattr(owned.others, key) + sum(site[key] for site in without) for key in _SUMMED
    }
    others["sites"] = owned.others.sites + len(without)
    return [dict(row) for row in ranked(sites, measure, others)], measure


# ---- the call tree ----


def figures(program: str, found: Owning, identifier: str) -> list[Figure]:
    """The call trees at the peak and, where that is notable, at the end."""
    if (owned := found.owners) is None:
        return []
    totals = owned.totals
    caption = (
        "{}: each frame lies below its caller, as wide as what it and the frames below it hold. "
        "Frames in a stronger colour allocate themselves. Frames of less than "
        f"{format_percent(LEAST_SITE)} are folded or left out."
    )
    drawn = []
    if totals.peak_bytes:
        what = caption.format("What the objects alive at the peak had asked for")
        tree = _tree(program, "", owned, "peak_bytes")
        drawn.append(icicle(identifier, "Who owns the memory at the peak", what, tree))
    if totals.never_freed_bytes > NOTABLE_LEAKS * totals.peak_bytes:
        what = caption.format("What the objects alive at the end had asked for")
        tree = _tree(program, "", owned, "never_freed_bytes")
        drawn.append(icicle(f"{identifier}-end", "What is never freed", what, tree))
    return drawn


def call_tree(program: str, manager: str, found: Owning) -> CallTree | None:
    """For the explorer: what is held at the peak and at the end, and allocated in all."""
    if (owned := found.owners) is None:
        return None
    return _tree(program, manager, owned, *_WEIGHTS)


def _tree(program: str, manager: str, owned: Owned, *names: str) -> CallTree:
    title, weights = "Who owns the memory, by call site", [_WEIGHTS[name] for name in names]
    return grown(program, manager, title, weights, _paths(owned, names))


def _paths(owned: Owned, names: Sequence[str]) -> Iterator[tuple[Frames, Sequence[float]]]:
    named = [frame_text(frame, with_place=bool(frame["line"])) for frame in owned.frames]
    for stack in owned.stacks:
        path = tuple(named[number] for number in stack.stack)
        yield path, [getattr(stack, name) for name in names]
    missing = [
        getattr(owned.totals, name) - sum(getattr(stack, name) for stack in owned.stacks)
        for name in names
    ]
    if any(missing):
        yield (), missing
