"""Who owns the memory: what each call site holds at the peak and at the end, and allocates in all.

The peak is the moment at which the objects alive had asked for most bytes, so what the call sites
hold then adds up to it. *Temporary* is what was freed before the thread that allocated it allocated
again. *Never freed* is what was alive at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tare.base.libraries import pl
from tare.base.text import shortened
from tare.heap_traces.frames import site_text, without_standard
from tare.heap_traces.residence import BATCH_ROWS, LONGEST_NAME, MOST_FRAMES, Process, held_for
from tare.heap_traces.trace import Trace

DETAIL = "owners"
"""The key in the details of a record."""
SUMS = (
    *("peak_bytes", "peak_objects", "bytes", "objects", "temporary_bytes", "temporary_objects"),
    *("never_freed_bytes", "never_freed_objects"),
)
USES = ("peak_lag", "peak_drag", "peak_void")
"""Bytes at the peak, where uses were recorded."""
KEPT = "kept"
"""Free bytes that the site's objects keep resident, where resident pages were recorded."""
RANKED = ("peak_bytes", "never_freed_bytes", "objects", "temporary_objects", "bytes")
LEAST_SITE, LEAST_STACK = 0.01, 0.002
"""Shares of any sum in ``RANKED`` from which on a site and a stack are kept."""
MOST_NAMED = 100_000
"""Call sites whose stacks are read."""
DEEPEST = 128
"""Frames of a stack, from the outermost on."""
_START = re.compile(r"_start$|__libc_start_(call_)?main|clone3?$|start_thread$|thread_start$")
"""What runs before the program, or a thread of it, does."""
_FRAME = ("function", "object", "file", "line", "offset")
Frame: TypeAlias = Mapping[str, Any]
_Key: TypeAlias = tuple[str, str, str, int | None, int]


def owners(
    trace: Trace, process: Process, moment: int, kept: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """``totals``; ``sites``, the most bytes at the peak first, each with ``frames`` of one of its
    stacks; ``others``, the sums of the sites that are smaller; and ``stacks`` as ``_path`` makes
    them, of numbers in ``frames``, with what they and thinner ones below them own.

    ``moment`` is that of the peak, on the clock of the process's order; ``kept`` is by site.
    """
    uses = USES if "last_use" in trace.header.observed else ()
    names = (*SUMS, *uses, *((KEPT,) if kept is not None else ()))
    table = by_site(trace.objects(), process, moment, uses=bool(uses))
    if kept is not None:
        schema = {"site": pl.Int64, KEPT: pl.Int64}
        found = pl.DataFrame({"site": [*kept], KEPT: [*kept.values()]}, schema)
        table = table.join(found, on="site", how="left").fill_null(0)
    table = table.sort([*RANKED, "site"], descending=[*[True] * len(RANKED), False])
    totals, rest = (
        {name: int(part[name].sum()) for name in names} for part in (table, table[MOST_NAMED:])
    )
    rows = table.head(MOST_NAMED).to_dicts()
    stacks = trace.stacks([(process.number, row["site"]) for row in rows])
    sites = _sites(rows, stacks, names)
    large = [site for site in sites if _is_large(site, totals, LEAST_SITE)]
    small = [site for site in sites if not _is_large(site, totals, LEAST_SITE)]
    for site in large:
        site["frames"] = [_short(frame) for frame in site["frames"][:MOST_FRAMES]]
    numbers: dict[_Key, int] = {}
    paths = (
        ([numbers.setdefault(key, len(numbers)) for key in _path(stack)], row)
        for stack, row in zip(stacks, rows, strict=True)
    )
    thick = _thick(paths, names, totals)
    used = {
        number: place
        for place, number in enumerate(dict.fromkeys(n for each in thick for n in each["stack"]))
    }
    keys = [*numbers]
    return {
        "totals": totals,
        "sites": large,
        "others": {
            "sites": len(small) + max(table.height - MOST_NAMED, 0),
            **{name: rest[name] + sum(site[name] for site in small) for name in names},
        },
        "frames": [_short(dict(zip(_FRAME, keys[number], strict=True))) for number in used],
        "stacks": [{**each, "stack": [used[number] for number in each["stack"]]} for each in thick],
    }


def by_site(
    objects: pl.LazyFrame, process: Process, moment: int, *, uses: bool = False
) -> pl.DataFrame:
    """A row for each call site (0 where it is not known) with ``SUMS`` and, with ``uses``, with
    ``USES``; in bounded memory."""
    names = (*SUMS, *(USES if uses else ()))
    order, size = process.order, pl.col("size").cast(pl.Int64)
    born, freed = pl.col(f"birth_{order}"), pl.col(f"free_{order}")
    reasons = held_for(process, moment) if uses else {}
    held = (born <= moment) & (freed.is_null() | (freed > moment))
    if uses:
        held = pl.any_horizontal(*reasons.values())
    columns = {
        "site": pl.col("site").fill_null(0).cast(pl.Int64),
        "thread": pl.col("thread"),
        "born": born,
        "freed": freed,
        "bytes": size,
        "peak_bytes": held * size,
        "peak_objects": held.cast(pl.Int64),
        **{name: reasons[name.removeprefix("peak_")] * size for name in names if name in USES},
    }
    temporary = pl.col("freed").is_not_null() & (
        pl.col("next").is_null() | (pl.col("freed") <= pl.col("next"))
    )
    following: dict[int, int] = {}  # by thread, the birth of the first object of the next batch
    sums = [pl.col(name).sum() for name in names]
    found = pl.DataFrame(schema={"site": pl.Int64, **dict.fromkeys(names, pl.Int64)})
    for start in reversed(range(process.start, process.start + process.rows, BATCH_ROWS)):
        rows = min(BATCH_ROWS, process.start + process.rows - start)
        batch = (
            objects.slice(start, rows)
            .select(each.alias(name) for name, each in columns.items())
            .collect()
        )
        later = pl.DataFrame(
            {"thread": [*following], "later": [*following.values()]},
            {"thread": batch.schema["thread"], "later": batch.schema["born"]},
        )
        batch = batch.join(later, on="thread", how="left", maintain_order="left").with_columns(
            next=pl.col("born").shift(-1).over("thread").fill_null(pl.col("later"))
        )
        firsts = batch.group_by("thread").agg(pl.col("born").first())
        following |= dict(firsts.iter_rows())
        unfreed = pl.col("freed").is_null()
        part = batch.with_columns(
            objects=pl.lit(1, pl.Int64),
            temporary_objects=temporary.cast(pl.Int64),
            temporary_bytes=temporary * pl.col("bytes"),
            never_freed_objects=unfreed.cast(pl.Int64),
            never_freed_bytes=unfreed * pl.col("bytes"),
        )
        part = part.group_by("site").agg(sums).select(found.columns)
        found = pl.concat([found, part]).group_by("site").agg(sums)
    return found.sort("site")


def _is_large(row: Mapping[str, Any], totals: Mapping[str, int], least: float) -> bool:
    return any(row[name] and row[name] >= least * totals[name] for name in RANKED)


def _sites(
    rows: Sequence[Mapping[str, Any]],
    stacks: Sequence[Sequence[Frame]],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """One for all stacks that read alike, the largest first, with the frames of the first."""
    found: dict[str, dict[str, Any]] = {}
    for row, stack in zip(rows, stacks, strict=True):
        site = found.setdefault(site_text(stack), {"frames": stack, **dict.fromkeys(names, 0)})
        for name in names:
            site[name] += row[name]
    return sorted(found.values(), key=lambda site: [-site[name] for name in RANKED])


def _path(stack: Sequence[Frame]) -> Iterator[_Key]:
    """From the program's first frame on down to the line that allocates, by itself or by the
    language's own library. Only that has its place: what calls it is one frame from whatever line
    it does, also where it calls itself."""
    starts = [n for n, frame in enumerate(stack) if _START.match(frame["function"])]
    mine = without_standard(stack[: starts[0]] if starts and starts[0] else stack)
    before = None
    for frame in reversed(mine):
        offset = 0 if frame["function"] else frame["offset"]
        key = (frame["function"], frame["object"], "", None, offset)
        if key != before:
            yield key
        before = key
    if mine and mine[0]["line"]:
        first = mine[0]
        yield (first["function"], first["object"], first["file"], first["line"], 0)


def _thick(
    stacks: Iterable[tuple[Sequence[int], Mapping[str, int]]],
    names: Sequence[str],
    totals: Mapping[str, int],
) -> list[dict[str, Any]]:
    """The stacks of which no frame has less than ``LEAST_STACK`` below it: what is thinner belongs
    to the frame that calls it. The outermost frame comes first."""
    parents, frames, below = [0], [-1], [dict.fromkeys(names, 0)]
    children: dict[tuple[int, int], int] = {}
    for path, sums in stacks:
        node = 0
        for frame in path[:DEEPEST]:
            child = children.setdefault((node, frame), len(parents))
            if child == len(parents):
                parents.append(node)
                frames.append(frame)
                below.append(dict.fromkeys(names, 0))
            node = child
            for name in names:
                below[node][name] += sums[name]
    own = [dict(each) for each in below]
    thick = [node for node in range(1, len(parents)) if _is_large(below[node], totals, LEAST_STACK)]
    for node in thick:
        for name in names:
            own[parents[node]][name] -= below[node][name]

    def path_to(node: int) -> list[int]:
        path = []
        while node:
            path.append(frames[node])
            node = parents[node]
        return path[::-1]

    return [{"stack": path_to(node), **own[node]} for node in thick if any(own[node].values())]


def _short(frame: Frame) -> dict[str, Any]:
    return {
        name: shortened(value, LONGEST_NAME) if isinstance(value, str) else value
        for name, value in frame.items()
    }
