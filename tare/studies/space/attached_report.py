"""What `tare space --attach` found: resident memory, divided without the births of objects."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from tare.base.text import shortened, visible
from tare.base.units import format_bytes, format_count, format_percent
from tare.records import summary
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.report.fields import Field, Row, counts, percents, sizes, table, texts
from tare.report.model import Section, Table
from tare.studies.space.attached import PARTS, TOLD, UNKNOWN, WALKED, Details, Kind, Size
from tare.studies.space.glibc_heap import MOST_CELLS

STUDY = "space-attached"
TITLE = "What resident memory is for"
MEANINGS = {
    "live": "cells in use, as the allocator rounds them: what was asked for is not known",
    "cached": "freed cells that threads keep for themselves",
    "external": "free cells, in pages that hold one in use",
    "retained": "pages of the heap that hold nothing in use",
    "metadata": "headers and the allocator's tables",
    "other": "outside the heap: code, static data, stacks, mappings of the program's own",
    "unexplained": "none of these, such as tables that the allocator does not tell of",
}
_NAMES = {"live": "in use", "cached": "in caches"}
_UNKNOWN = (
    "Its births were not seen. So requested sizes, internal fragmentation, call sites and "
    "lifetimes are not known: tare trace --attach records them from now on."
)
_NOTABLE = 0.01

summarise = partial(summary.summarise_range, first_metric="resident_bytes")


class _Details(Struct, frozen=True):
    process: Details


def section(results: Results) -> Section:
    found = [
        (record.run.program, record.outcome.details_as(_Details).process)
        for record in read_records(results.folder)
        if record.run.study == STUDY and record.outcome.status is Status.OK
    ]
    findings, tables = [], []
    for number, (program, details) in enumerate(found, 1):
        findings += _sentences(program, details)
        tables += [
            _parts_table(details, f"table-attached-{number}"),
            _kinds_table(details, f"table-outside-{number}"),
            *([_sizes_table(details, f"table-cells-{number}")] if details.sizes else []),
        ]
    return Section(identifier=STUDY, title=TITLE, findings=findings, tables=tables)


def _sentences(program: str, found: Details) -> list[str]:
    whole = max(found.resident, 1)
    parts = found.parts
    sentences = [
        f"Process {found.pid} ({shortened(visible(program), 40)}) has "
        f"{format_bytes(found.resident)} resident"
        + (f"; Tare waited until {found.over}." if found.over else ".")
    ]
    if found.how != UNKNOWN:
        free = sum(parts.get(name, 0) for name in ("cached", "external", "retained"))
        sentences.append(
            f"{format_bytes(parts['live'])} ({format_percent(parts['live'] / whole)}) are in use, "
            f"and {format_bytes(free)} ({format_percent(free / whole)}) are free memory that "
            f"{found.allocator} keeps."
        )
    sentences.append(_how(found))
    if found.how == WALKED and not found.caches_known:
        sentences.append("No thread's cache was found: what caches hold counts as in use.")
    if found.how == WALKED and not found.fast_known:
        sentences.append("glibc's fast bins were not found: their cells count as in use.")
    if found.undivided:
        sentences.append(
            f"{format_bytes(found.undivided)} of the heap are unexplained: they changed while they "
            f"were read, or there are over {format_count(MOST_CELLS)} cells."
        )
    elif abs(parts["unexplained"]) > _NOTABLE * whole and found.how == WALKED:
        sentences.append(f"{format_percent(parts['unexplained'] / whole)} is unexplained.")
    if found.swapped:
        sentences.append(f"{format_bytes(found.swapped)} are swapped out and not counted.")
    return [*sentences, _UNKNOWN]


def _how(found: Details) -> str:
    if found.how == WALKED:
        return (
            "glibc's heaps were read from outside, while the process ran on; nothing was put into "
            "it."
        )
    if found.how == TOLD:
        return (
            f"{found.allocator} reported on itself, by a call that one thread was made to do; it "
            "counts cells that were never touched, too, so unexplained may be negative."
        )
    return (
        f"{found.allocator} serves malloc, and does not say what of its heap is in use: the heap "
        "is unexplained."
    )


def _parts_table(found: Details, identifier: str) -> Table:
    rows: list[Row] = [
        {"part": _NAMES.get(name, name), "bytes": found.parts[name], "meaning": MEANINGS[name]}
        for name in PARTS
        if name in found.parts
    ]

    def share(row: Row) -> float | None:
        size: float = row["bytes"]
        return size / max(found.resident, 1) if size >= 0 else None

    fields: list[Field[Row]] = [
        texts("part", "Of resident memory; the parts add up.", "part"),
        sizes("bytes", "Resident.", "bytes"),
        percents("share", "Of resident memory.", share),
        texts("what it is", "In a few words.", "meaning"),
    ]
    return table(identifier, f"Resident memory, under {found.allocator}", rows, fields)


def _kinds_table(found: Details, identifier: str) -> Table:
    fields: list[Field[Kind]] = [
        texts("what is mapped", "By the kernel's list of mappings.", lambda row: row.kind),
        sizes("resident", "Resident bytes that are not in the heap.", lambda row: row.resident),
    ]
    return table(identifier, "Outside the heap", found.kinds, fields)


def _sizes_table(found: Details, identifier: str) -> Table:
    def share(row: Size) -> float:
        return row.live / max(row.live + row.free, 1)

    fields: list[Field[Size]] = [
        sizes("cells of", "Usable bytes of a cell.", lambda row: row.size),
        counts("in use", "Cells of this size.", lambda row: row.objects),
        sizes("bytes in use", "In these cells, resident or not.", lambda row: row.live),
        sizes("bytes free", "In free cells of this size, resident or not.", lambda row: row.free),
        percents("full", "Bytes in use, of both.", share),
    ]
    notes = ["free neighbours are joined, so large free cells may have been small ones."]
    return table(identifier, "Cells by size", found.sizes, fields, notes, essential=False)
