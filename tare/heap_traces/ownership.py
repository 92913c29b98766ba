"""Who owns the memory: what each call site holds at the peak and at the end, and allocates in all.

The peak is the moment at which the objects alive had asked for most bytes, so what the call sites
hold then adds up to it. *Temporary* is, as heaptrack has it, what the next call frees: of the same
thread here. *Never freed* is what was alive at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tare.base.libraries import np, pl
from tare.base.text import shortened
from tare.heap_traces.calls import following, in_order
from tare.heap_traces.frames import from_main, merged, own_frames
from tare.heap_traces.residence import (
    LONGEST_NAME,
    MOST_FRAMES,
    Process,
    batches,
    held_for,
    not_needed,
)
from tare.heap_traces.trace import Trace

DETAIL = "owners"
"""The key in the details of a record."""
SUMS = (
    *("peak_bytes", "peak_objects", "bytes", "objects", "temporary_bytes", "temporary_objects"),
    *("never_freed_bytes", "never_freed_objects"),
)
IDLE = "peak_idle"
"""Bytes at the peak that are needed no more, their teardown being no use, or at no time."""
USES = ("peak_lag", "peak_drag", "peak_void", IDLE)
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
_FRAME = ("function", "object", "file", "line", "offset")
Frame: TypeAlias = Mapping[str, Any]
_Key: TypeAlias = tuple[str, str, str, int | None, int]


def owners(
    trace: Trace, process: Process, moment: int, kept: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """``threads``, how many allocated; ``totals``; ``sites``, the most bytes at the peak first,
    each with ``frames`` of one of its stacks; ``others``, the sums of the sites that are smaller;
    and ``stacks`` as ``_path`` makes them, of numbers in ``frames``, with what they and thinner
    ones below them own.

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
    stacks = [*map(from_main, trace.stacks([(process.number, row["site"]) for row in rows]))]
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
    of_process = trace.objects().slice(process.start, process.rows)
    threads = of_process.select(pl.col("thread").n_unique()).collect(engine="streaming").item()
    return {
        "threads": threads,
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
    held = (born <= moment) & (freed.is_null() | (freed > moment))
    reasons = {}
    if uses:
        reasons = held_for(process, moment)
        held = pl.any_horizontal(*reasons.values())
        reasons["idle"] = held & (not_needed(process) <= moment)
    columns = {
        "site": pl.col("site").fill_null(0).cast(pl.Int64),
        "thread": pl.col("thread"),
        "free_thread": pl.coalesce("free_thread", "thread"),
        "born": born,
        "freed": freed,
        "bytes": size,
        "peak_bytes": held * size,
        "peak_objects": held.cast(pl.Int64),
        **{name: reasons[name.removeprefix("peak_")] * size for name in names if name in USES},
    }
    sums = [pl.col(name).sum() for name in names]
    unfreed = pl.col("freed").is_null()
    found = pl.DataFrame(schema={"site": pl.Int64, **dict.fromkeys(names, pl.Int64)})
    calls = _Calls()
    left = process.rows
    for part in batches(objects, process, columns):
        left -= part.height
        batch = part.with_columns(
            objects=pl.lit(1, pl.Int64),
            never_freed_objects=unfreed.cast(pl.Int64),
            never_freed_bytes=unfreed * pl.col("bytes"),
        )
        temporary = calls.temporary(batch, is_last=left == 0)
        parts = pl.concat([found, batch, temporary], how="diagonal")
        found = parts.group_by("site").agg(sums)
    return found.sort("site")


class _Calls:
    """Tells which objects are freed by the next call of the thread that allocated them: the first
    free after their birth, and before the next birth, is theirs."""

    def __init__(self) -> None:
        self._open: list[pl.DataFrame] = []  # each thread's last birth
        self._waiting: list[pl.DataFrame] = []  # frees after it, but for the first one not all

    def temporary(self, batch: pl.DataFrame, *, is_last: bool) -> pl.DataFrame:
        """The sums of temporary objects among those of which it is known by now."""
        births = pl.concat(
            [*self._open, batch.select("thread", "born", "freed", "site", "bytes")]
        ).sort("thread", maintain_order=True)
        frees = batch.select(thread="free_thread", at="freed").drop_nulls("at")
        frees = pl.concat([*self._waiting, frees])
        is_due = pl.lit(True) if is_last else pl.col("at") <= births["born"].max()
        first = _next_frees(births, frees.filter(is_due))
        next_birth = pl.col("born").shift(-1).over("thread")
        births = births.with_columns(first, is_open=next_birth.is_null() & (not is_last))
        is_temporary = ~pl.col("is_open") & (pl.col("freed") == pl.col("first"))
        is_temporary &= (pl.col("first") <= next_birth).fill_null(value=True)
        last = births.filter("is_open")
        self._open = [last.drop("first", "is_open")]
        self._waiting = [
            frees.filter(~is_due),
            last.select("thread", at="first").drop_nulls("at"),
        ]
        return births.filter(is_temporary).select(
            "site",
            temporary_objects=pl.lit(1, pl.Int64),
            temporary_bytes=pl.col("bytes"),
        )


def _next_frees(births: pl.DataFrame, frees: pl.DataFrame) -> pl.Series:
    """For each birth the time of the first free after it by its thread, or null."""
    never = np.iinfo(np.uint64).max
    threads, times = in_order(frees["thread"].to_numpy(), frees["at"].to_numpy())
    place = following(births["thread"].to_numpy(), births["born"].to_numpy(), threads, times)
    return pl.Series("first", np.append(times, never)[place]).replace(never, None)


def _is_large(row: Mapping[str, Any], totals: Mapping[str, int], least: float) -> bool:
    return any(row[name] and row[name] >= least * totals[name] for name in RANKED)


def _sites(
    rows: Sequence[Mapping[str, Any]],
    stacks: Sequence[Sequence[Frame]],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """One for all stacks that read alike, the largest first, with the frames of the first."""
    found = merged(
        (
            {"frames": stack, **{name: row[name] for name in names}}
            for row, stack in zip(rows, stacks, strict=True)
        ),
        names,
    )
    return sorted(found, key=lambda site: [-site[name] for name in RANKED])


def _path(stack: Sequence[Frame]) -> Iterator[_Key]:
    """From the program's first frame on down to the line that allocates, by itself or by the
    language's own library. Only that has its place: what calls it is one frame from whatever line
    it does, also where it calls itself."""
    mine = own_frames(stack)
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
