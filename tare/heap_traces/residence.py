"""Unused memory: the lag, use, drag and void of a heap trace, and its peaks.

After Röjemo and Runciman, an object's residence divides into lag (born and not yet used), use
(from its first use to its last) and drag (from its last use to the end of its residence); the
residence of an object that is never used is void. Residence ends with the program's free, and for
what is never freed with the process. Byte-time is bytes times the time they are held for, on one of
the two clocks: bytes allocated, or instructions.

Three curves follow from one trace: the bytes held with the program's own frees; with each object
given back when it was found unreachable; and with each given back at its last use, where objects
that are never used are never held. Total drag is the area under the first curve divided by that
under the last (Berger, Zorn and McKinley, section 7.3).

Everything is read in batches: memory does not grow with the number of objects.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tare.base.errors import UsageError
from tare.base.libraries import NDArray, np, pl
from tare.base.text import shortened
from tare.heap_traces.frames import merged
from tare.heap_traces.function_names import short_name
from tare.heap_traces.peak import PeakSweep
from tare.heap_traces.profile import Profile
from tare.heap_traces.trace import Trace, TraceDamageError, sample_weight

CLOCKS = ("bytes", "instructions")
_KNOWN_CLOCKS = (*CLOCKS, "nanoseconds")
CURVES = {
    "free": "end",
    "unreachable": "gone",
    "last_use": "given_back",
    "needed": "not_needed",
}
"""By curve, the moment at which its objects are given back."""
BATCH_ROWS = 1 << 18
_BATCHES_AHEAD = 2
MOST_SITES = 50
_MOST_NAMED = 4096
"""Stacks that are told apart by how they read: those that waste most."""
MOST_FRAMES, LONGEST_NAME = 64, 300
"""Of a call site that is kept: frames, and characters of each name."""
_MOST_BYTES = 1 << 53
"""Sums of sizes are exact in a double up to here, and no machine has allocated so much."""

_SITE_TIMES = ("use", "lag", "drag_freed", "drag_unfreed", "void", "unreachable_drag")
_SITE_COUNTS = (
    *("objects", "bytes", "never_used_objects", "never_used_bytes", "never_freed_objects"),
    *("never_freed_bytes", "unknown_objects"),
)


@dataclass(frozen=True)
class Process:
    """The rows of one process in ``objects``. The clocks at its end, 0 where they are not known;
    ``complete`` says whether uses were recorded for all of its objects, those alive at its end
    included."""

    number: int
    start: int
    rows: int
    instructions: int
    nanoseconds: int
    bytes: int
    complete: bool
    program: str

    @property
    def order(self) -> str:
        """The clock that tells any two of its events apart."""
        return "nanoseconds" if self.nanoseconds else "instructions"


def processes_of(trace: Trace) -> list[Process]:
    """The processes of ``trace``; UsageError when it has no last uses, or contradicts itself."""
    if "last_use" not in trace.header.observed:
        raise UsageError(
            f"{trace.folder} has no last uses",
            "record it again with tare trace --last-use, or run tare drag on the program itself",
        )
    with reading(trace):
        return processes(trace.objects(), trace.processes)


def analyse(trace: Trace, found: Sequence[Process], clock: str = "bytes") -> dict[str, Any]:
    """All that a report on drag shows of the processes ``found`` in ``trace``, as JSON could hold
    it; tare.studies.drag.details has the keys.

    UsageError when ``trace`` contradicts itself.
    """
    with reading(trace):
        reachability, teardown = (
            word in trace.header.observed for word in ("unreachable", "teardown")
        )
        result = analyse_objects(
            trace.objects(), found, clock, reachability=reachability, teardown=teardown
        )
        named_sites(result["sites"], trace)
    return _alike(result) | {
        "complete": trace.header.complete,
        "reason": trace.header.reason,
        "sites_known": "sites" in trace.header.observed,
    }


@contextmanager
def reading(trace: Trace) -> Iterator[None]:
    """Turn what a damaged file leads to into a UsageError about ``trace``."""
    try:
        yield
    except TraceDamageError as damage:
        raise UsageError(
            f"{trace.folder} contradicts itself: {damage.message}", "record it again"
        ) from None
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(
            f"{trace.folder} cannot be read: {reason}", "the trace is damaged: record it again"
        ) from None


def processes(objects: pl.LazyFrame, described: Sequence[Mapping[str, Any]]) -> list[Process]:
    """Where each process lies in ``objects``, which are in the order of processes and births.

    ``described`` are the processes of meta.json. A process whose end was not seen ends at the last
    moment that the trace knows of it.
    """
    latest = {
        clock: pl.max_horizontal(
            pl.col(f"{moment}_{clock}") for moment in ("birth", "last_use", "free")
        )
        for clock in _KNOWN_CLOCKS
    }
    rows = int(objects.select(pl.len()).collect().item())
    table = in_slices(
        objects,
        0,
        rows,
        lambda part: part.group_by("process").agg(
            pl.len().alias("rows"), *(each.max().alias(clock) for clock, each in latest.items())
        ),
        lambda parts: parts.group_by("process").agg(
            pl.col("rows").sum(), pl.col(*_KNOWN_CLOCKS).max()
        ),
    ).sort("process")
    by_number = {int(each["process"]): each for each in described}
    found = []
    start = 0
    for row in table.iter_rows(named=True):
        if row["bytes"] is None or (described and row["process"] not in by_number):
            raise TraceDamageError("it has objects without a birth, or of no process")
        found.append(_process(row, start, by_number.get(row["process"], {})))
        start += row["rows"]
    return found


def without_objects(described: Mapping[str, Any]) -> Process:
    """The same of a process of meta.json that has no object at all."""
    return _process({"process": int(described["process"]), "rows": 0}, 0, described)


def _process(row: Mapping[str, Any], start: int, described: Mapping[str, Any]) -> Process:
    def end(clock: str, name: str) -> int:
        return max(row.get(clock) or 0, int(described.get(name, 0)))

    return Process(
        number=row["process"],
        start=start,
        rows=row["rows"],
        instructions=end("instructions", "instructions"),
        nanoseconds=end("nanoseconds", "nanoseconds"),
        bytes=end("bytes", "allocated_bytes"),
        complete=bool(described.get("complete", True)),
        program=str(described.get("program", "")),
    )


def in_slices(
    objects: pl.LazyFrame,
    start: int,
    rows: int,
    query: Callable[[pl.LazyFrame], pl.LazyFrame],
    merge: Callable[[pl.DataFrame], pl.DataFrame],
) -> pl.DataFrame:
    """``query`` of ``rows`` rows from ``start`` on, a slice at a time, so that memory is bounded;
    ``merge`` makes one of the answers to several slices."""
    parts = [query(objects.slice(start, 0)).collect()]
    for part in _collected(map(query, _slices(objects, start, rows))):
        parts.append(part)
        if sum(part.height for part in parts) > BATCH_ROWS:
            parts = [merge(pl.concat(parts))]
    return merge(pl.concat(parts))


def _slices(objects: pl.LazyFrame, start: int, rows: int) -> Iterator[pl.LazyFrame]:
    for at in range(start, start + rows, BATCH_ROWS):
        yield objects.slice(at, min(BATCH_ROWS, start + rows - at))


def _collected(queries: Iterable[pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """What each gives, in order. Some are computed ahead: one alone leaves processors idle, and so
    does who uses it."""
    waiting: deque[Future[pl.DataFrame]] = deque()
    with ThreadPoolExecutor(_BATCHES_AHEAD) as pool:
        for query in queries:
            waiting.append(pool.submit(query.collect))
            if len(waiting) > _BATCHES_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def analyse_objects(
    objects: pl.LazyFrame,
    found: Sequence[Process],
    clock: str,
    *,
    reachability: bool,
    teardown: bool = False,
) -> dict[str, Any]:
    """As ``analyse``, of the objects of contract "heap trace" alone; sites are not named yet."""
    if clock not in CLOCKS:
        raise UsageError(f"there is no clock '{clock}'", f"one of: {', '.join(CLOCKS)}")
    sites = site_table(objects, found, clock)
    missing = {"unreachable": not reachability, "needed": not teardown}
    curves = [curve for curve in CURVES if not missing.get(curve)]
    areas = {name: float(sites[name].sum()) for name in _SITE_TIMES}
    main = largest_process(sites, found)
    peaks = dict.fromkeys(curves, 0)
    detail: dict[str, Any] = {}
    for process in found:
        swept, profile = _sweep(objects, process, clock, curves, profiled=process.number == main)
        for curve in curves:
            peaks[curve] += swept[curve].bytes
        if process.number == main:
            detail = {
                "process": process.number,
                "program": process.program,
                "end": getattr(process, clock),
                "profile": profile,
                "peaks": {curve: swept[curve].bytes for curve in curves},
                "at_peak": _at(objects, process, clock, swept["free"].time),
                "peak_moment": swept["free"].time,
            }
    return {
        "clock": clock,
        "processes": len(found),
        "reachability": reachability,
        "peaks": peaks,
        "areas": areas,
        "main": detail,
        "totals": {name: int(sites[name].sum()) for name in _SITE_COUNTS},
        **ranked(sites),
    }


# ---- moments of an object ----


def moments(process: Process, clock: str) -> dict[str, pl.Expr]:
    """Expressions over the columns of ``objects``: ``birth``, ``first``, ``last``, ``gone`` and
    ``end`` on ``clock``, ascending but for ``gone``, which lies between ``last`` and ``end``;
    without uses, ``first`` and ``last`` are the birth. ``need`` is the last use that is no
    teardown, the birth where there is none.

    In a recording that was cut off, an object that was not freed may have been used later: it is
    taken to be in use to the end, and all the time where no use is known.
    """
    birth = pl.col(f"birth_{clock}")
    final = pl.lit(getattr(process, clock), pl.UInt64)
    end = pl.max_horizontal(pl.col(f"free_{clock}").fill_null(final), birth)
    first = pl.min_horizontal(pl.max_horizontal(pl.col(f"first_use_{clock}"), birth), end)
    last = pl.min_horizontal(pl.max_horizontal(pl.col(f"last_use_{clock}"), first), end)
    unused = pl.col("last_use_bytes").is_null()
    unknown = _unknown(process)
    first = pl.when(unused).then(birth).otherwise(first)
    last = pl.when(unknown).then(end).when(unused).then(birth).otherwise(last)
    seen = pl.col(f"unreachable_{clock}")
    gone = (
        pl.when(seen.is_null())
        .then(end)
        .otherwise(pl.min_horizontal(pl.max_horizontal(seen, last), end))
    )
    before = pl.col(f"before_teardown_{clock}")
    need = pl.min_horizontal(pl.max_horizontal(before.fill_null(last), birth), last)
    return {"birth": birth, "first": first, "last": last, "need": need, "gone": gone, "end": end}


def is_unneeded(process: Process) -> pl.Expr:
    """Whether an object is never used, or in teardown alone."""
    birth = pl.col(f"birth_{process.order}")
    before = pl.col(f"before_teardown_{process.order}")
    by_teardown = (before <= birth) & (pl.col(f"first_use_{process.order}") > birth)
    return is_void(process) | by_teardown.fill_null(value=False)


def _unknown(process: Process) -> pl.Expr:
    """Whether the recording ended before the object did."""
    if process.complete:
        return pl.lit(False)
    return pl.col("free_bytes").is_null()


def is_void(process: Process) -> pl.Expr:
    return pl.col("last_use_bytes").is_null() & ~_unknown(process)


# ---- by call site ----


def site_table(
    objects: pl.LazyFrame, found: Sequence[Process], clock: str, sample_bytes: int = 0
) -> pl.DataFrame:
    """A row per process and call site (0 where it is not known): byte-times on ``clock`` as
    floats, and counts. The columns are process, site, ``_SITE_TIMES``, ``_SITE_COUNTS`` and
    ``end``, when the process ended. Of a sampled trace they are estimates.

    TraceDamageError when the sizes cannot be true.
    """
    parts = []
    for process in found:
        at = moments(process, clock)
        size = pl.col("size").cast(pl.Float64)
        void, unknown = is_void(process), _unknown(process)
        freed = pl.col("free_bytes").is_not_null()

        def held(start: str, end: str, at: Mapping[str, pl.Expr] = at) -> pl.Expr:
            return (at[end] - at[start]).cast(pl.Float64) * pl.col("size").cast(pl.Float64)

        drag = pl.when(void).then(0.0).otherwise(held("last", "end"))
        times = {
            "use": held("first", "last"),
            "lag": held("birth", "first"),
            "drag_freed": pl.when(freed).then(drag).otherwise(0.0),
            "drag_unfreed": pl.when(freed).then(0.0).otherwise(drag),
            "void": pl.when(void).then(held("birth", "end")).otherwise(0.0),
            "unreachable_drag": held("gone", "end"),
        }
        counts = {
            "objects": pl.lit(1.0),
            "bytes": size,
            "never_used_objects": void.cast(pl.Float64),
            "never_used_bytes": void * size,
            "never_freed_objects": (~freed & ~unknown).cast(pl.Float64),
            "never_freed_bytes": (~freed & ~unknown) * size,
            "unknown_objects": unknown.cast(pl.Float64),
        }
        weight = sample_weight(sample_bytes)
        columns = {name: each.cast(pl.Float64) * weight for name, each in (times | counts).items()}
        sums = [pl.col(name).sum() for name in columns]

        def summed(
            part: pl.LazyFrame,
            columns: Mapping[str, pl.Expr] = columns,
            sums: Sequence[pl.Expr] = sums,
        ) -> pl.LazyFrame:
            named = (each.alias(name) for name, each in columns.items())
            return part.select(pl.col("site").fill_null(0), *named).group_by("site").agg(sums)

        table = in_slices(
            objects,
            process.start,
            process.rows,
            summed,
            lambda parts, sums=sums: parts.group_by("site").agg(sums),  # type: ignore[misc]
        )
        parts.append(
            table.with_columns(
                pl.lit(process.number, pl.UInt32).alias("process"),
                pl.lit(float(getattr(process, clock))).alias("end"),
            )
        )
    if not parts:
        floats = dict.fromkeys((*_SITE_TIMES, *_SITE_COUNTS, "end"), pl.Float64)
        return pl.DataFrame(schema={"process": pl.UInt32, "site": pl.UInt32, **floats})
    table = pl.concat(parts)
    if float(table["bytes"].sum()) > _MOST_BYTES:
        raise TraceDamageError("it has more bytes than can ever have been allocated")
    return table.sort("process", "site")


def largest_process(sites: pl.DataFrame, found: Sequence[Process]) -> int:
    """The process that held most byte-time."""
    if not found:
        return -1
    held = pl.sum_horizontal("use", "lag", "drag_freed", "drag_unfreed", "void")
    areas = sites.group_by("process").agg(held.sum().alias("area"))
    return int(areas.sort(["area", "process"], descending=[True, False])["process"][0])


def _alike(result: Mapping[str, Any]) -> dict[str, Any]:
    """With one site for all stacks of a process that read alike."""
    stacks = result["sites"]
    summed = ("wasted", *_SITE_TIMES, *_SITE_COUNTS)
    found = [
        site
        for process in sorted({stack["process"] for stack in stacks})
        for site in merged((each for each in stacks if each["process"] == process), summed)
    ]
    found.sort(key=lambda site: -site["wasted"])
    return {
        **result,
        "sites": found[:MOST_SITES],
        "wasting_sites": result["wasting_sites"] - len(stacks) + len(found),
    }


def ranked(sites: pl.DataFrame) -> dict[str, Any]:
    """The sites that waste most byte-time, and the number of all that waste any."""
    wasted = pl.sum_horizontal("lag", "drag_freed", "drag_unfreed", "void")
    order = (
        sites.with_columns(wasted.alias("wasted"))
        .filter(pl.col("wasted") > 0)
        .sort(["wasted", "process", "site"], descending=[True, False, False])
    )
    counts = [pl.col(name).cast(pl.Int64) for name in _SITE_COUNTS]
    return {
        "sites": order.head(_MOST_NAMED).with_columns(counts).to_dicts(),
        "wasting_sites": order.height,
        "all_sites": sites.filter(pl.col("site") > 0).height,
    }


def named_sites(sites: Sequence[dict[str, Any]], trace: Trace) -> None:
    """Put ``frames`` to each of ``sites``: dicts of function, object, file and line, innermost
    first, empty where the site is not known."""
    stacks = trace.stacks([(site["process"], site["site"]) for site in sites])
    for site, frames in zip(sites, stacks, strict=True):
        site["frames"] = [
            {
                name: _fitting(value) if isinstance(value, str) else value
                for name, value in frame.items()
            }
            for frame in frames[:MOST_FRAMES]
        ]


def _fitting(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else shortened(short_name(name), LONGEST_NAME)


# ---- over time ----


def _sweep(
    objects: pl.LazyFrame, process: Process, clock: str, curves: Sequence[str], *, profiled: bool
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The peaks of the curves of one process, on the clock that tells its events apart; and the
    mean bytes of each class in each step of ``clock``."""
    in_order = moments(process, process.order)
    # Right after the last use is one step of the clock later, so that what is used right after its
    # birth is held at its birth.
    after = pl.min_horizontal(in_order["last"] + 1, in_order["end"])
    given_back = pl.when(is_void(process)).then(in_order["birth"]).otherwise(after)
    in_order["given_back"] = given_back
    in_order["not_needed"] = not_needed(process)
    in_order["gone"] = pl.max_horizontal(in_order["gone"], given_back)
    columns = {"process": pl.col("process"), "size": pl.col("size").cast(pl.Int64)}
    columns |= {name: in_order[name] for name in ("birth", *map(CURVES.__getitem__, curves))}
    if profiled:
        columns |= {f"on_{name}": each for name, each in moments(process, clock).items()}
        columns["void"] = is_void(process)
    profile = Profile(getattr(process, clock)) if profiled else None
    lasts = last_births(objects, process)
    with contextlib.ExitStack() as stack:
        sweeps = {curve: stack.enter_context(PeakSweep(lasts)) for curve in curves}
        pool = stack.enter_context(ThreadPoolExecutor(len(curves)))
        before = 0
        for batch in batches(objects, process, columns):
            births, sizes = batch["birth"].to_numpy(), batch["size"].to_numpy()
            if int(births[0]) < before or (np.diff(births.view(np.int64)) < 0).any():
                raise TraceDamageError("its objects are not in the order of their births")
            if batch["process"].n_unique() != 1 or int(batch["process"][0]) != process.number:
                raise TraceDamageError("its objects are not in the order of processes")
            before = int(births[-1])
            added = [
                pool.submit(sweep.add, births, batch[CURVES[curve]].to_numpy(), sizes)
                for curve, sweep in sweeps.items()
            ]
            if profile is not None:
                profile.add(batch)
            for each in added:
                each.result()
        peaks = {curve: sweep.peak for curve, sweep in sweeps.items()}
    return peaks, profile.means() if profile is not None else {}


def not_needed(process: Process) -> pl.Expr:
    """From when on, on the clock of its order, an object is unused, its teardown being no
    use; its birth where it is not needed at all."""
    at = moments(process, process.order)
    after = pl.min_horizontal(at["need"] + 1, at["end"])
    return pl.when(is_unneeded(process)).then(at["birth"]).otherwise(after)


def batches(
    objects: pl.LazyFrame, process: Process, columns: Mapping[str, pl.Expr]
) -> Iterator[pl.DataFrame]:
    """A frame with ``columns`` for each ``BATCH_ROWS`` objects of a process."""
    named = [each.alias(name) for name, each in columns.items()]
    return _collected(part.select(named) for part in _slices(objects, process.start, process.rows))


def last_births(objects: pl.LazyFrame, process: Process) -> NDArray[np.uint64]:
    """Of each of the ``batches``, on the clock of the process's order."""
    last = process.start + process.rows - 1
    rows = [*range(process.start + BATCH_ROWS - 1, last, BATCH_ROWS), last]
    births = objects.select(f"birth_{process.order}")
    found = [births.slice(row, 1).collect().item() for row in rows]
    if None in found:
        raise TraceDamageError(f"it has objects without a birth in {process.order}")
    return np.array(found, np.uint64)


def _at(objects: pl.LazyFrame, process: Process, clock: str, time: int) -> dict[str, float]:
    """What was held at ``time`` (of its order): objects, bytes of each class, and when on ``clock``
    that was."""
    size = pl.col("size").cast(pl.Int64)
    part = held_for(process, time)
    sums = [
        pl.any_horizontal(*part.values()).sum().cast(pl.Int64).alias("objects"),
        *(where.cast(pl.Int64).mul(size).sum().alias(name) for name, where in part.items()),
    ]
    now = pl.lit(time, pl.UInt64)
    latest = pl.col(f"birth_{clock}").filter(pl.col(f"birth_{process.order}") <= now).max()
    return in_slices(
        objects,
        process.start,
        process.rows,
        lambda rows: rows.select(*sums, latest.fill_null(0).alias("time")),
        lambda rows: rows.select(pl.exclude("time").sum(), pl.col("time").max()),
    ).row(0, named=True)


def held_for(process: Process, time: int) -> dict[str, pl.Expr]:
    """By class, whether an object was held for it at ``time`` (of its order)."""
    at = moments(process, process.order)
    now = pl.lit(time, pl.UInt64)
    held, void = (at["birth"] <= now) & (now < at["end"]), is_void(process)
    return {
        "void": held & void,
        "lag": held & ~void & (now < at["first"]),
        "use": held & ~void & (now >= at["first"]) & (now <= at["last"]),
        "drag": held & ~void & (now > at["last"]),
    }


def peak_moment(objects: pl.LazyFrame, process: Process) -> int:
    """When most bytes were held, with the program's frees, on the clock of its order."""
    peaks, _ = _sweep(objects, process, "bytes", ["free"], profiled=False)
    return int(peaks["free"].time)
