"""Who owns the memory: what the call sites hold at the peak and at the end, and allocate in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tare.base.units import format_bytes, format_count, format_percent
from tare.heap_traces.frames import frame_text
from tare.heap_traces.ownership import DETAIL, LEAST_SITE
from tare.records.metrics import Status
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Frames, Weight, grown
from tare.report.fields import (
    Field,
    Row,
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
from tare.studykit.site_tables import CALLED_BY, site_text

Details = Mapping[str, Any]
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


def sentences(found: Details) -> list[str]:
    """Who holds most at the peak; nothing of a folder that does not say."""
    if not (owned := found.get(DETAIL)) or not owned["totals"]["peak_bytes"]:
        return []
    totals = owned["totals"]
    said = []
    if owned["sites"] and (first := owned["sites"][0])["frames"]:
        said.append(
            f"{site_text(first)} owns most at the peak: {format_bytes(first['peak_bytes'])} of the "
            f"{format_bytes(totals['peak_bytes'])} that were asked for "
            f"({format_percent(first['peak_bytes'] / totals['peak_bytes'])})."
        )
    share = totals["temporary_objects"] / totals["objects"]
    if share >= NOTABLE_TEMPORARY:
        said.append(
            f"{format_percent(share)} of the {format_count(totals['objects'])} allocations are "
            "temporary: the next call of their thread freed them."
        )
    return said


def drag_of(records: Sequence[Record], program: str) -> Details | None:
    """What the study of drag found of who owns the memory, where the same results have it."""
    for record in records:
        run, outcome = record.run, record.outcome
        if run.study == DRAG and run.program == program and outcome.status is Status.OK:
            owned: Details | None = outcome.details.get(DETAIL)
            return owned
    return None


def tables(program: str, found: Details, dragged: Details | None, number: int) -> list[Table]:
    """Of the sites by what they hold at the peak, by how often they allocate, and by what they
    never free."""
    if not (owned := found.get(DETAIL)) or not owned["totals"]["objects"]:
        return []
    return [
        _peak_table(program, owned, dragged, f"table-owners-{number}"),
        _often_table(program, owned, f"table-often-{number}"),
        _leaks_table(program, owned, f"table-never-freed-{number}"),
    ]


def _peak_table(program: str, owned: Details, dragged: Details | None, identifier: str) -> Table:
    whole = owned["totals"]["peak_bytes"]
    vain = _vain_by_text(dragged["sites"] if dragged else ())
    large, small = _divided(owned, ("peak_bytes",))
    rows = [{**site, "text": site_text(site), "number": n} for n, site in enumerate(large, 1)]
    for row in rows:
        row["vain"] = vain.get(row["text"])
    if small["sites"]:
        rest = sum(vain.values()) - sum(row["vain"] or 0 for row in rows)
        others = dragged["others"] if dragged else {}
        rows.append({**small, "text": _others(small), "vain": rest + _vain(others)})
    fields: list[Field[Row]] = [
        numbers("no.", "By the bytes at the peak, the most first.", _number),
        texts("call site", CALLED_BY, "text"),
        sizes("at the peak", "What its objects alive at the peak had asked for.", "peak_bytes"),
        percents("share", "Of all bytes at the peak.", lambda row: row["peak_bytes"] / whole),
        counts("objects", "Its objects alive at the peak.", "peak_objects"),
        sizes("in all", "Bytes that it allocated in the whole run.", "bytes", essential=False),
        counts(
            "temporary",
            "Objects that the next call of their thread freed.",
            "temporary_objects",
            essential=False,
        ),
        sizes("never freed", "What its objects alive at the end hold.", "never_freed_bytes"),
        sizes(
            "drag",
            "Bytes at the peak that are not used again: held after their last use, or never used.",
            "vain",
            shown=dragged is not None,
        ),
        sizes("pins", "Free bytes that stay resident because its objects lie beside them.", "kept"),
    ]
    title = f"Who owns the memory at the peak: {program}"
    return table(identifier, title, rows, fields, _notes(owned, dragged))


def _notes(owned: Details, dragged: Details | None) -> list[str]:
    totals = owned["totals"]
    temporary, never_freed = (
        format_count(totals[f"{what}_objects"]) for what in ("temporary", "never_freed")
    )
    notes = [
        f"in all: {format_bytes(totals['peak_bytes'])} at the peak; "
        f"{format_count(totals['objects'])} allocations, {temporary} of them temporary; "
        f"{format_bytes(totals['never_freed_bytes'])} in {never_freed} objects never freed.",
        "pins: at the peak of resident memory, which can be another moment.",
    ]
    if dragged:
        theirs = dragged["totals"]["peak_bytes"]
        notes.append(f"drag: of a run under the instrument, at its peak of {format_bytes(theirs)}.")
    return notes


def _often_table(program: str, owned: Details, identifier: str) -> Table:
    """For the page: who allocates most often, and how much of it is temporary."""
    whole = owned["totals"]["objects"]
    large, small = _divided(owned, ("objects", "temporary_objects"))
    large.sort(key=lambda site: -site["objects"])
    rows = [{**site, "text": site_text(site), "number": n} for n, site in enumerate(large, 1)]
    if small["sites"]:
        rows.append({**small, "text": _others(small)})
    fields: list[Field[Row]] = [
        numbers("no.", "By the number of allocations, the most first.", _number),
        texts("call site", CALLED_BY, "text"),
        counts("allocations", "In the whole run.", "objects"),
        percents("share", "Of all allocations.", lambda row: row["objects"] / whole),
        counts("temporary", "Freed by the next call of their thread.", "temporary_objects"),
        percents(
            "of its own",
            "The share of its allocations that is temporary.",
            lambda row: quotient(row["temporary_objects"], row["objects"]) or 0.0,
        ),
        sizes("in all", "Bytes that it allocated in the whole run.", "bytes"),
        sizes("never freed", "What its objects alive at the end hold.", "never_freed_bytes"),
    ]
    title = f"Who allocates most often: {program}"
    return table(identifier, title, rows, fields, essential=False)


def _leaks_table(program: str, owned: Details, identifier: str) -> Table:
    """For the page: what was alive at the end."""
    whole = owned["totals"]["never_freed_bytes"]
    large, small = _divided(owned, ("never_freed_bytes",))
    large.sort(key=lambda site: -site["never_freed_bytes"])
    rows = [{**site, "text": site_text(site), "number": n} for n, site in enumerate(large, 1)]
    if rows and small["never_freed_bytes"]:
        rows.append({**small, "text": _others(small)})
    fields: list[Field[Row]] = [
        numbers("no.", "By bytes, the most first.", _number),
        texts("call site", CALLED_BY, "text"),
        sizes("bytes", "Never freed.", "never_freed_bytes"),
        percents(
            "share", "Of all that was never freed.", lambda row: row["never_freed_bytes"] / whole
        ),
        counts("objects", "Never freed.", "never_freed_objects"),
        sizes("at the peak", "What its objects alive at the peak had asked for.", "peak_bytes"),
    ]
    return table(identifier, f"Never freed: {program}", rows, fields, essential=False)


def _divided(owned: Details, names: Sequence[str]) -> tuple[list[Details], dict[str, Any]]:
    """The sites with ``LEAST_SITE`` of one of the sums or more, and the sums of all others."""
    totals = owned["totals"]

    def is_large(site: Details) -> bool:
        return any(site[n] and site[n] >= LEAST_SITE * totals[n] for n in names)

    large = [site for site in owned["sites"] if is_large(site)]
    small = [site for site in owned["sites"] if not is_large(site)]
    others = {
        name: number + (len(small) if name == "sites" else sum(site[name] for site in small))
        for name, number in owned["others"].items()
    }
    return large, others


def _others(small: Details) -> str:
    return "another site" if small["sites"] == 1 else f"{format_count(small['sites'])} others"


def _number(row: Row) -> Any:
    return row.get("number", "")


def _vain(site: Details) -> int:
    return int(site.get("peak_drag", 0) + site.get("peak_void", 0))


def _vain_by_text(sites: Sequence[Details]) -> dict[str, int]:
    return {site_text(site): _vain(site) for site in sites}


# ---- the call tree ----


def figures(program: str, found: Details, identifier: str) -> list[Figure]:
    """The call trees at the peak and, where that is notable, at the end."""
    if not (owned := found.get(DETAIL)):
        return []
    totals = owned["totals"]
    caption = (
        "{}: each frame lies below the one that calls it, as wide as what it and those below it "
        "hold. Those in stronger colour allocate themselves. Less than "
        f"{format_percent(LEAST_SITE)} is folded, or left out."
    )
    drawn = []
    if totals["peak_bytes"]:
        what = caption.format("What the objects alive at the peak had asked for")
        tree = _tree(program, "", owned, "peak_bytes")
        drawn.append(icicle(identifier, "Who owns the memory at the peak", what, tree))
    if totals["never_freed_bytes"] > NOTABLE_LEAKS * totals["peak_bytes"]:
        what = caption.format("What the objects alive at the end had asked for")
        tree = _tree(program, "", owned, "never_freed_bytes")
        drawn.append(icicle(f"{identifier}-end", "What is never freed", what, tree))
    return drawn


def call_tree(program: str, manager: str, found: Details) -> CallTree | None:
    """For the explorer: what is held at the peak and at the end, and allocated in all."""
    if not (owned := found.get(DETAIL)):
        return None
    return _tree(program, manager, owned, *_WEIGHTS)


def _tree(program: str, manager: str, owned: Details, *names: str) -> CallTree:
    title, weights = "Who owns the memory, by call site", [_WEIGHTS[name] for name in names]
    return grown(program, manager, title, weights, _paths(owned, names))


def _paths(owned: Details, names: Sequence[str]) -> Iterator[tuple[Frames, Sequence[float]]]:
    named = [frame_text(frame, with_place=bool(frame["line"])) for frame in owned["frames"]]
    for stack in owned["stacks"]:
        path = tuple(named[number] for number in stack["stack"])
        yield path, [stack[name] for name in names]
    missing = [
        owned["totals"][name] - sum(stack[name] for stack in owned["stacks"]) for name in names
    ]
    if any(missing):
        yield (), missing
