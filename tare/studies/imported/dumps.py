"""Dumps of heaps: which call sites hold live bytes, and which keep slabs that are partly empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from tare.base.units import format_bytes, format_percent
from tare.heap_traces import frames
from tare.heap_traces.frames import RecordedFrame, frame_text
from tare.records.runs import Number, Record
from tare.report.call_trees import CallTree, Frames, Weight, grown
from tare.report.fields import Field, Row, counts, percents, quotient, sizes, table, texts
from tare.report.figures.icicle import icicle
from tare.report.model import Figure, Table
from tare.studykit.site_tables import (
    CALLED_BY,
    Measure,
    first_view,
    ranked,
    site_number,
    site_text,
)


class Sums(Struct, frozen=True, kw_only=True):
    live_bytes: Number
    live_objects: Number
    bytes: Number
    objects: Number
    external: Number


class Site(Sums, frozen=True, kw_only=True):
    frames: tuple[RecordedFrame, ...]


class Others(Sums, frozen=True, kw_only=True):
    """As many call sites as ``sites`` together."""

    sites: Number


class SizeClass(Struct, frozen=True, kw_only=True):
    """``objects`` of its ``cells`` are taken."""

    size: Number
    objects: Number
    cells: Number


class Dump(Struct, frozen=True, kw_only=True):
    estimated: str
    """How, where sizes of call sites are not exact."""
    sites: tuple[Site, ...]
    others: Others
    totals: Sums
    classes: tuple[SizeClass, ...]


class _Details(Struct, frozen=True):
    dump: Dump | None = None


_WEIGHTS = {
    "live_bytes": Weight("live bytes", "B"),
    "external": Weight("free cells beside its objects, estimated", "B"),
    "bytes": Weight("bytes allocated", "B"),
}
_SUMMED = ("live_bytes", "live_objects", "bytes", "objects", "external")


def dump_of(record: Record) -> Dump | None:
    return record.outcome.details_as(_Details).dump


def sentences(dump: Dump) -> list[str]:
    totals = dump.totals
    if not totals.external or not dump.sites:
        return []
    first = max(dump.sites, key=lambda site: site.external)
    share = format_percent(first.external / totals.external)
    return [
        f"Objects of {frames.site_text(first.frames)} keep most free cells, by estimate: "
        f"{format_bytes(first.external)} of {format_bytes(totals.external)} ({share})."
    ]


def tables(program: str, dump: Dump, number: int) -> list[Table]:
    totals = dump.totals
    estimate = ", estimated" if dump.estimated else ""
    found = []
    if totals.live_bytes:
        title = f"Who holds live bytes{estimate}: {program}"
        found.append(_sites_table(f"table-dump-live-{number}", title, dump, "live_bytes"))
    if totals.external:
        title = f"Who keeps free cells in slabs, estimated: {program}"
        found.append(_sites_table(f"table-dump-external-{number}", title, dump, "external"))
    if totals.bytes:
        title = f"Who allocates most{estimate}: {program}"
        found.append(_sites_table(f"table-dump-allocated-{number}", title, dump, "bytes"))
    if dump.classes:
        found.append(_classes_table(f"table-dump-classes-{number}", program, dump.classes))
    return found


def _sites_table(identifier: str, title: str, dump: Dump, by: str) -> Table:
    totals = dump.totals
    measure = Measure(by, getattr(totals, by), format_bytes)
    sites = [structs.asdict(site) for site in frames_merged(dump)]
    without = [site for site in sites if not measure(site)]
    others = {
        name: getattr(dump.others, name) + sum(site[name] for site in without) for name in _SUMMED
    }
    others["sites"] = dump.others.sites + len(without)
    rows = ranked(sites, measure, others)
    fields: list[Field[Row]] = [
        site_number("By bytes, the most first."),
        texts("call site", CALLED_BY, site_text),
        sizes("live", "Bytes of its objects not freed.", "live_bytes", shown=by != "bytes"),
        sizes(
            "free beside",
            "Free cells of the size classes of its objects, shared among sites by bytes.",
            "external",
            shown=bool(totals.external) and by != "bytes",
        ),
        sizes("allocated", "In all, so far.", "bytes", shown=by == "bytes"),
        percents("share", "Of all sites' bytes.", measure.share),
        counts(
            "objects",
            "As many as the bytes are of.",
            "objects" if by == "bytes" else "live_objects",
            shown=bool(totals.objects if by == "bytes" else totals.live_objects),
        ),
    ]
    return first_view(table(identifier, title, rows, fields), rows, measure)


def frames_merged(dump: Dump) -> Sequence[Site]:
    """One for all sites that read alike in tables."""
    found = frames.merged(map(structs.asdict, dump.sites), _SUMMED)
    return [Site(**site) for site in found]


def _classes_table(identifier: str, program: str, classes: Sequence[SizeClass]) -> Table:
    """Fullest of free bytes first."""
    ordered = sorted(classes, key=lambda each: (each.objects - each.cells) * each.size)
    fields: list[Field[SizeClass]] = [
        sizes("size class", "Bytes of a cell.", lambda each: each.size),
        counts("objects", "Cells that are taken.", lambda each: each.objects),
        counts("cells", "In slabs of this class.", lambda each: each.cells),
        percents("full", "Taken cells.", lambda each: quotient(each.objects, each.cells) or 0.0),
        sizes("free", "Bytes of free cells.", lambda each: (each.cells - each.objects) * each.size),
    ]
    return table(identifier, f"Size classes: {program}", ordered, fields, essential=False)


def figures(program: str, dump: Dump, identifier: str) -> list[Figure]:
    estimate = ", estimated" if dump.estimated else ""
    drawn = []
    for name, title in (
        ("live_bytes", f"Who holds live bytes{estimate}"),
        ("external", "Who keeps free cells in slabs, estimated"),
        ("bytes", f"Who allocates most{estimate}"),
    ):
        if getattr(dump.totals, name):
            caption = (
                f"{title}: each frame lies below its caller, as wide as what it and the frames "
                "below it hold. Frames in a stronger colour allocate themselves."
            )
            tree = grown(program, "", title, [_WEIGHTS[name]], _paths(dump, [name]))
            drawn.append(icicle(f"{identifier}-{name.replace('_', '-')}", title, caption, tree))
    return drawn


def call_tree(program: str, manager: str, dump: Dump) -> CallTree:
    names = [name for name in _WEIGHTS if getattr(dump.totals, name)]
    weights = [_WEIGHTS[name] for name in names]
    title = "What a dump of the heap holds, by call site"
    return grown(program, manager, title, weights, _paths(dump, names))


def _paths(dump: Dump, names: Sequence[str]) -> Iterator[tuple[Frames, Sequence[float]]]:
    for site in dump.sites:
        path = tuple(
            frame_text(frame, with_place=bool(frame["line"])) for frame in reversed(site.frames)
        )
        yield path or ("[unknown]",), [getattr(site, name) for name in names]
    rest = [getattr(dump.others, name) for name in names]
    if any(rest):
        yield ("[others]",), rest
