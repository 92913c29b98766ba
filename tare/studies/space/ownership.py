"""Who owns the memory: what the call sites hold at the peak and at the end, and allocate in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tare.base.units import format_bytes, format_count, format_percent
from tare.heap_traces.frames import frame_text, site_text
from tare.heap_traces.ownership import LEAST_SITE
from tare.records.metrics import Status
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Frames, Weight, grown
from tare.report.fields import (
    Field,
    counts,
    numbers,
    percents,
    quotient,
    sizes,
    table,
    texts,
)
from tare.report.figures.icicle import icicle
from tare.report.model import Figure, Table
from tare.studies.space.details import Others, Owned, Owner, Owning, Sums
from tare.studykit.site_tables import CALLED_BY

DRAG = "drag"
"""The study that records uses; in a bill its records lie beside those of space."""
NOTABLE_TEMPORARY = 0.1
NOTABLE_LEAKS = 0.02
"""Of the bytes at the peak."""
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
        said.append(
            f"{site_text(first.frames)} owns most at the peak: {format_bytes(first.peak_bytes)} of "
            f"the {format_bytes(totals.peak_bytes)} that were asked for "
            f"({format_percent(first.peak_bytes / totals.peak_bytes)})."
        )
    share = totals.temporary_objects / totals.objects
    if share >= NOTABLE_TEMPORARY:
        said.append(
            f"{format_percent(share)} of the {format_count(totals.objects)} allocations are "
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


@dataclass(frozen=True)
class _Row:
    """A call site, or all others. ``vain`` is known where the study of drag ran as well."""

    sums: Sums
    text: str
    number: int | None = None
    vain: int | None = None


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
    whole = owned.totals.peak_bytes
    vain = {site_text(site.frames): site.vain for site in dragged.sites} if dragged else {}
    large, small = _divided(owned, ("peak_bytes",))
    rows = [replace(row, vain=vain.get(row.text)) for row in _rows(large)]
    if small.sites:
        rest = sum(vain.values()) - sum(row.vain or 0 for row in rows)
        others = dragged.others.vain if dragged else 0
        rows.append(_Row(small, _others(small), vain=rest + others))
    fields: list[Field[_Row]] = [
        numbers("no.", "By the bytes at the peak, the most first.", _number),
        texts("call site", CALLED_BY, _text),
        _AT_THE_PEAK,
        percents("share", "Of all bytes at the peak.", lambda row: row.sums.peak_bytes / whole),
        counts("objects", "Its objects alive at the peak.", lambda row: row.sums.peak_objects),
        replace(_IN_ALL, essential=False),
        counts(
            "temporary",
            "Objects that the next call of their thread freed.",
            lambda row: row.sums.temporary_objects,
            essential=False,
        ),
        _NEVER_FREED,
        sizes(
            "drag",
            "Bytes at the peak that are not used again: held after their last use, or never used.",
            lambda row: row.vain,
            shown=dragged is not None,
        ),
        sizes(
            "pins",
            "Free bytes that stay resident because its objects lie beside them.",
            lambda row: row.sums.kept,
        ),
    ]
    title = f"Who owns the memory at the peak: {program}"
    return table(identifier, title, rows, fields, _notes(owned, dragged))


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
    whole = owned.totals.objects
    large, small = _divided(owned, ("objects", "temporary_objects"))
    large.sort(key=lambda site: -site.objects)
    rows = _rows(large)
    if small.sites:
        rows.append(_Row(small, _others(small)))
    fields: list[Field[_Row]] = [
        numbers("no.", "By the number of allocations, the most first.", _number),
        texts("call site", CALLED_BY, _text),
        counts("allocations", "In the whole run.", lambda row: row.sums.objects),
        percents("share", "Of all allocations.", lambda row: row.sums.objects / whole),
        counts(
            "temporary",
            "Freed by the next call of their thread.",
            lambda row: row.sums.temporary_objects,
        ),
        percents(
            "of its own",
            "The share of its allocations that is temporary.",
            lambda row: quotient(row.sums.temporary_objects, row.sums.objects) or 0.0,
        ),
        _IN_ALL,
        _NEVER_FREED,
    ]
    title = f"Who allocates most often: {program}"
    return table(identifier, title, rows, fields, essential=False)


def _leaks_table(program: str, owned: Owned, identifier: str) -> Table:
    """For the page: what was alive at the end."""
    whole = owned.totals.never_freed_bytes
    large, small = _divided(owned, ("never_freed_bytes",))
    large.sort(key=lambda site: -site.never_freed_bytes)
    rows = _rows(large)
    if rows and small.never_freed_bytes:
        rows.append(_Row(small, _others(small)))
    fields: list[Field[_Row]] = [
        numbers("no.", "By bytes, the most first.", _number),
        texts("call site", CALLED_BY, _text),
        sizes("bytes", "Never freed.", lambda row: row.sums.never_freed_bytes),
        percents(
            "share",
            "Of all that was never freed.",
            lambda row: row.sums.never_freed_bytes / whole,
        ),
        counts("objects", "Never freed.", lambda row: row.sums.never_freed_objects),
        _AT_THE_PEAK,
    ]
    return table(identifier, f"Never freed: {program}", rows, fields, essential=False)


_AT_THE_PEAK: Field[_Row] = sizes(
    "at the peak",
    "What its objects alive at the peak had asked for.",
    lambda row: row.sums.peak_bytes,
)
_IN_ALL: Field[_Row] = sizes(
    "in all", "Bytes that it allocated in the whole run.", lambda row: row.sums.bytes
)
_NEVER_FREED: Field[_Row] = sizes(
    "never freed",
    "What its objects alive at the end hold.",
    lambda row: row.sums.never_freed_bytes,
)


def _rows(sites: Sequence[Owner]) -> list[_Row]:
    return [_Row(site, site_text(site.frames), number) for number, site in enumerate(sites, 1)]


def _divided(owned: Owned, names: Sequence[str]) -> tuple[list[Owner], Others]:
    """The sites with ``LEAST_SITE`` of one of the sums or more, and the sums of all others."""

    def is_large(site: Owner) -> bool:
        return any(
            (size := getattr(site, name)) and size >= LEAST_SITE * getattr(owned.totals, name)
            for name in names
        )

    large = [site for site in owned.sites if is_large(site)]
    return large, owned.others.with_more([site for site in owned.sites if not is_large(site)])


def _others(small: Others) -> str:
    return "another site" if small.sites == 1 else f"{format_count(small.sites)} others"


def _number(row: _Row) -> Any:
    return "" if row.number is None else row.number


def _text(row: _Row) -> str:
    return row.text


# ---- the call tree ----


def figures(program: str, found: Owning, identifier: str) -> list[Figure]:
    """The call trees at the peak and, where that is notable, at the end."""
    if (owned := found.owners) is None:
        return []
    totals = owned.totals
    caption = (
        "{}: each frame lies below the one that calls it, as wide as what it and those below it "
        "hold. Those in stronger colour allocate themselves. Less than "
        f"{format_percent(LEAST_SITE)} is folded, or left out."
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
