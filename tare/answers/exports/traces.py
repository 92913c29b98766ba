"""Heap traces in the forms that other tools' viewers read, by call stack.

A new form is a function and a row of ``TRACE_FORMATS``. Stacks beyond ``MOST_STACKS`` become one,
so that what is written stays of a size that viewers open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.base.libraries import np, pl
from tare.base.text import shortened, visible
from tare.heap_traces.peak import PeakSweep
from tare.heap_traces.residence import (
    BATCH_ROWS,
    Process,
    in_slices,
    largest_process,
    moments,
    peak_moment,
    processes,
    site_table,
)
from tare.heap_traces.trace import Trace, open_trace
from tare.records.results import RUN_FILE, read_records, read_run
from tare.report import stacks as stack_export
from tare.report.stacks import (
    LONGEST_FRAME,
    Kind,
    Profile,
    as_json,
)
from tare.studies.drag.report import STUDY
from tare.studies.drag.stacks import SiteStack, stacks_of

WEIGHTS = {
    "vain": "unused bytes times the bytes allocated while they are held",
    "bytes": "bytes allocated",
    "objects": "objects allocated",
}
_KINDS = {
    "mean_vain": Kind("unused bytes, the mean over the run", "held_in_vain", "bytes"),
    "bytes": Kind("bytes allocated", "alloc_space", "bytes"),
    "objects": Kind("objects allocated", "alloc_objects", "count"),
}
_MOST_AT_ONCE = 1 << 20
"""Objects whose events are sorted in memory at once, for the peaks of stacks."""


@dataclass(frozen=True)
class TraceFormat:
    """``render`` takes a trace and one of ``WEIGHTS``, which only some forms need."""

    title: str
    render: Callable[[Trace, str], bytes]
    weighted: bool = False


# ---- collapsed stacks, speedscope, pprof ----


def to_collapsed(trace: Trace, weight: str) -> bytes:
    """As ``tare.report.stacks.to_collapsed``."""
    return stack_export.to_collapsed(_profile(trace, weight), weight)


def to_speedscope(trace: Trace, _weight: str) -> bytes:
    """As ``tare.report.stacks.to_speedscope``, with a profile for each of ``_KINDS``."""
    return stack_export.to_speedscope(_profile(trace, _first_weight(trace)))


def to_pprof(trace: Trace, _weight: str) -> bytes:
    """As ``tare.report.stacks.to_pprof``."""
    return stack_export.to_pprof(_profile(trace, _first_weight(trace)))


def _profile(trace: Trace, weight: str) -> Profile:
    return Profile(_name(trace), _KINDS, stacks_of(trace, weight))


# ---- DHAT ----


def to_dhat(trace: Trace, _weight: str) -> bytes:
    """What DHAT writes for its viewer, version 2, of the process that held most."""
    if trace.sample_bytes:
        raise UsageError(
            f"{trace.folder} is a sample, and DHAT's format cannot hold estimates",
            "choose another format, or record without --sample",
        )
    objects = trace.objects()
    found = processes(objects, trace.processes)
    main = largest_process(site_table(objects, found, "bytes"), found)
    mine = [process for process in found if process.number == main]
    described = next((p for p in trace.processes if p["process"] == main), {})
    stacks = stacks_of(trace, "bytes", mine)
    peak = peak_moment(objects, mine[0]) if mine else 0
    rows = _stack_rows(objects, mine[0], stacks, peak) if mine else []
    numbers: dict[str, int] = {"[root]": 0}
    points = []
    for stack, row in zip(stacks, rows, strict=True):
        texts = [frame.text for frame in stack.frames]
        points.append(row | {"fs": [numbers.setdefault(text, len(numbers)) for text in texts]})
    order = mine[0].order if mine else "instructions"
    document = {
        "dhatFileVersion": 2,
        "mode": "heap",
        "verb": "Allocated",
        "bklt": True,
        "bkacc": False,
        "tu": {"instructions": "instrs", "nanoseconds": "ns"}[order],
        "Mtu": {"instructions": "Minstr", "nanoseconds": "ms"}[order],
        "tuth": 500,
        "cmd": _name(trace),
        "pid": int(described.get("pid", 0)),
        "te": getattr(mine[0], order) if mine else 0,
        "tg": peak,
        "pps": _unique(points),
        "ftbl": list(numbers),
    }
    return as_json(document)


def _unique(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The viewer wants each list of frames once: stacks that read the same are added up."""
    by_frames: dict[tuple[int, ...], dict[str, Any]] = {}
    for point in points:
        key = tuple(point["fs"])
        if (there := by_frames.get(key)) is None:
            by_frames[key] = point
            continue
        for name in point:
            if name != "fs":
                there[name] += point[name]
    return list(by_frames.values())


def _stack_rows(
    objects: pl.LazyFrame, process: Process, stacks: Sequence[SiteStack], peak: int
) -> list[dict[str, int]]:
    """By stack, the fields of DHAT's program points: totals, and what is held at the stack's own
    peak, at the peak of all, and at the end."""
    numbers = pl.LazyFrame(
        [(site, n) for n, stack in enumerate(stacks) for _, site in stack.sites],
        schema={"site": pl.UInt32, "stack": pl.Int64},
        orient="row",
    )
    rest = next((n for n, s in enumerate(stacks) if not s.sites), -1)
    at = moments(process, process.order)
    now = pl.lit(peak, pl.UInt64)
    size, held = pl.col("size"), (pl.col("birth") <= now) & (now < pl.col("end"))

    def of_stacks(part: pl.LazyFrame) -> pl.LazyFrame:
        return (
            part.select(
                pl.col("site").fill_null(0),
                pl.col("size").cast(pl.Int64),
                pl.col("free_bytes").is_null().alias("left"),
                at["birth"].alias("birth"),
                at["end"].alias("end"),
            )
            .join(numbers, on="site", how="left", maintain_order="left")
            .with_columns(pl.col("stack").fill_null(rest))
        )

    table = in_slices(
        objects,
        process.start,
        process.rows,
        lambda part: (
            of_stacks(part)
            .group_by("stack")
            .agg(
                size.sum().alias("tb"),
                pl.len().cast(pl.Int64).alias("tbk"),
                (pl.col("end") - pl.col("birth")).sum().cast(pl.Int64).alias("tl"),
                (held * size).sum().alias("gb"),
                held.sum().cast(pl.Int64).alias("gbk"),
                (pl.col("left") * size).sum().alias("eb"),
                pl.col("left").sum().cast(pl.Int64).alias("ebk"),
            )
        ),
        lambda parts: parts.group_by("stack").agg(pl.all().sum()),
    )
    by_stack = {row.pop("stack"): row for row in table.to_dicts()}
    parts = _Slices(objects, process, of_stacks)
    peaks = _own_peaks(parts, {n: row["tbk"] for n, row in by_stack.items()})
    result = []
    for number in range(len(stacks)):
        row = by_stack[number]
        most, blocks = peaks[number]
        result.append(
            {name: int(row[name]) for name in ("tb", "tbk", "tl")}
            | {"mb": most, "mbk": blocks}
            | {name: int(row[name]) for name in ("gb", "gbk", "eb", "ebk")}
        )
    return result


@dataclass(frozen=True)
class _Slices:
    """The objects of one process with their stacks, a slice at a time, as often as asked."""

    objects: pl.LazyFrame
    process: Process
    of_stacks: Callable[[pl.LazyFrame], pl.LazyFrame]

    def of(self, stacks: Collection[int]) -> Iterator[pl.DataFrame]:
        """The rows of some stacks, in the order of births: stack, birth, end, size."""
        end = self.process.start + self.process.rows
        for start in range(self.process.start, end, BATCH_ROWS):
            part = self.objects.slice(start, min(BATCH_ROWS, end - start))
            mine = self.of_stacks(part).filter(pl.col("stack").is_in(list(stacks)))
            yield mine.select("stack", "birth", "end", "size").collect()


def _own_peaks(slices: _Slices, counts: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """By stack, the most bytes that its objects held, and how many objects those were. Stacks are
    taken together as long as their objects fit in memory."""
    groups: list[list[int]] = [[]]
    held = 0
    for number, count in sorted(counts.items(), key=lambda item: item[1]):
        if count > _MOST_AT_ONCE:
            continue
        if held + count > _MOST_AT_ONCE:
            groups.append([])
            held = 0
        groups[-1].append(number)
        held += count
    found = _large_peaks(slices, {n for n, count in counts.items() if count > _MOST_AT_ONCE})
    for group in filter(None, groups):
        found |= _peaks_in_memory(pl.concat(slices.of(group)))
    return found


def _large_peaks(slices: _Slices, stacks: Collection[int]) -> dict[int, tuple[int, int]]:
    """As ``_own_peaks``, in three readings, of stacks of any number of objects."""
    if not stacks:
        return {}
    last_births: dict[int, list[int]] = {number: [] for number in stacks}
    for part in slices.of(stacks):
        for number, last in part.group_by("stack").agg(pl.col("birth").last()).rows():
            last_births[number].append(last)
    with contextlib.ExitStack() as opened:
        sweeps = {
            number: opened.enter_context(PeakSweep(np.array(lasts, np.uint64)))
            for number, lasts in last_births.items()
        }
        for part in slices.of(stacks):
            for (number,), rows in part.group_by("stack", maintain_order=True):
                columns = rows.select("birth", "end", "size")
                sweeps[int(str(number))].add(*(column.to_numpy() for column in columns))
        peaks = {number: sweep.peak for number, sweep in sweeps.items()}
    objects = dict.fromkeys(stacks, 0)
    times = pl.DataFrame(
        [(number, peak.time) for number, peak in peaks.items()],
        schema={"stack": pl.Int64, "now": pl.UInt64},
        orient="row",
    )
    held = (pl.col("birth") <= pl.col("now")) & (pl.col("now") < pl.col("end"))
    for part in slices.of(stacks):
        counted = part.join(times, on="stack").filter(held).group_by("stack").len()
        for number, count in counted.rows():
            objects[number] += count
    return {number: (peak.bytes, objects[number]) for number, peak in peaks.items()}


def _peaks_in_memory(rows: pl.DataFrame) -> dict[int, tuple[int, int]]:
    births = rows.select("stack", "size", time="birth", sign=pl.lit(1, pl.Int64))
    ends = rows.select("stack", "size", time="end", sign=pl.lit(-1, pl.Int64))
    events = (
        pl.concat([births, ends])
        .sort("stack", "time", "sign")
        .with_columns(
            (pl.col("size") * pl.col("sign")).cum_sum().over("stack").alias("bytes"),
            pl.col("sign").cum_sum().over("stack").alias("objects"),
        )
        .group_by("stack")
        .agg(
            pl.col("bytes").max(),
            pl.col("objects").get(pl.col("bytes").arg_max()),
        )
    )
    return {row[0]: (max(int(row[1]), 0), max(int(row[2]), 0)) for row in events.rows()}


# ---- all forms ----


def _first_weight(trace: Trace) -> str:
    return "vain" if "last_use" in trace.meta["observed"] else "bytes"


def _name(trace: Trace) -> str:
    name = trace.meta["program"].get("name")
    return shortened(visible(name), LONGEST_FRAME) if isinstance(name, str) else trace.folder.stem


TRACE_FORMATS: dict[str, TraceFormat] = {
    "collapsed": TraceFormat(
        "one line per call stack, for flame graphs; see --weight", to_collapsed, weighted=True
    ),
    "dhat": TraceFormat("what DHAT's viewer (dh_view.html) opens", to_dhat),
    "pprof": TraceFormat("a profile for go tool pprof and similar tools", to_pprof),
    "speedscope": TraceFormat("a file for speedscope, with one profile per weight", to_speedscope),
}


def find_trace(folder: Path) -> Trace:
    """The trace in ``folder``: itself one, or the results of ``tare drag``, whose baseline's trace
    was kept. UsageError where there is none."""
    if not (folder / RUN_FILE).exists():
        return open_trace(folder)
    run = read_run(folder)
    records = [r for r in read_records(folder) if r.run.study == STUDY]
    records.sort(key=lambda record: record.run.manager != run.baseline)
    for record in records:
        path = record.outcome.details.get("trace")
        if isinstance(path, str) and path and (folder / path).is_dir():
            return open_trace(folder / path)
    raise UsageError(
        f"{folder} holds no heap trace",
        "give the trace itself, or the results of tare drag without --discard-trace",
    )
