"""Latencies that DaCapo writes: files of requests, and lines of its output.

A line of ``dacapo-latency-usec-KIND-ITERATION.csv`` is a request: when it started and ended, in
microseconds, and perhaps its thread. KIND is simple, or metered: then the start is that which the
request would have had, had all come evenly.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.importing.runs import UNKNOWN, Imported, ImportedRun
from tare.records.metrics import Status

TITLE = "DaCapo (files of latencies, or a folder of them)"
_NAME = re.compile(
    r"dacapo-latency-usec-(?P<kind>simple|metered[a-z0-9-]*?)(-(?P<iteration>\d{1,9}))?\.csv"
)
_FULL = ("metered", "metered-full-smoothing")
"""The kinds that the metrics of metered latencies are about."""
_REALLY = "simple"
"""The kind with the times at which requests really started."""
_LINE = re.compile(
    r"DaCapo (?P<kind>simple|metered[a-z0-9 -]*) tail latency: (?P<points>.*), measured over"
)
_POINT = re.compile(r"(?P<point>max|\d{2}(\.9+)?%) (?P<microseconds>\d{1,12}) usec")
POINTS = {"50%": 2, "90%": 10, "99%": 100, "99.9%": 1000, "99.99%": 10_000, "max": 0}
"""By quantile, one request in how many takes longer; 0: none."""
_MOST_FILE_BYTES = 1 << 30
_TIMELINE_REQUESTS = 5000


@dataclass(frozen=True)
class _Requests:
    """The requests of a file that were sent, in its order: ``start`` and ``end`` in microseconds,
    and ``thread`` where the file tells it."""

    kind: str
    table: pl.DataFrame

    @property
    def latencies(self) -> pl.Series:
        return self.table["end"] - self.table["start"]


def metric_of(kind: str, point: str) -> str:
    """The metric of a quantile, as DaCapo writes it; empty where there is none."""
    of_kind = {"simple": "", **dict.fromkeys(_FULL, "metered_")}.get(kind.replace(" ", "-").strip())
    if of_kind is None or point not in POINTS:
        return ""
    return f"{of_kind}latency_{point.replace('.', '').rstrip('%')}_seconds"


def tail_latencies(line: str) -> dict[str, float]:
    """What a line of DaCapo's output says of latencies, as metrics; mostly nothing."""
    if "tail latency" not in line or (match := _LINE.search(line)) is None:
        return {}
    found = {
        metric_of(match["kind"], point["point"]): int(point["microseconds"]) / 1e6
        for point in _POINT.finditer(match["points"])
    }
    found.pop("", None)
    return found


def recognises_runs(path: Path) -> bool:
    """Whether ``path`` is such a file, or a folder with such files."""
    if path.is_dir():
        return any(_NAME.fullmatch(file.name) for file in path.iterdir())
    return _NAME.fullmatch(path.name) is not None


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    """One run: the last iteration of which there are files."""
    files = [path] if path.is_file() else [f for f in path.iterdir() if _NAME.fullmatch(f.name)]
    iterations = {file: _iteration(file) for file in files}
    last = max(iterations.values())
    values: dict[str, float] = {}
    details: dict[str, Any] = {}
    for file in sorted(file for file, iteration in iterations.items() if iteration == last):
        note(f"reading {file.name}")
        if (requests := _read(file)) is None:
            continue
        values |= _quantiles(requests)
        if requests.kind == _REALLY:
            details["timeline"] = _timeline(requests)
    if not values:
        raise UsageError(f"{path} has neither simple latencies nor metered ones over all requests")
    folder = path if path.is_dir() else path.resolve().parent
    run = ImportedRun(folder.name or UNKNOWN, UNKNOWN, Status.OK, values=values, details=details)
    return Imported(
        tool="DaCapo",
        runs=[run],
        notes=[
            "The files name neither the program nor its collector: the program is named after "
            "their folder.",
            "With several iterations, the last is used.",
        ],
    )


def _iteration(file: Path) -> int:
    match = _NAME.fullmatch(file.name)
    return int(match["iteration"] or 0) if match else 0


def _read(file: Path) -> _Requests | None:
    """The requests of a file; None where it is of a kind that has no metrics."""
    match = _NAME.fullmatch(file.name)
    kind = match["kind"] if match else ""
    if not metric_of(kind, "max"):
        return None
    if file.stat().st_size > _MOST_FILE_BYTES:
        raise UsageError(f"{file} is larger than {_MOST_FILE_BYTES >> 30} GiB")
    try:
        table = pl.read_csv(file, has_header=False, infer_schema=False)
        start, end, *others = (column.str.strip_chars() for column in table.get_columns())
        table = pl.DataFrame([_numbers("start", start), _numbers("end", end)])
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise UsageError(f"{file} is not a file of latencies: {error}") from None
    threads = others[0].cast(pl.Int64, strict=False) if others else pl.Series([], dtype=pl.Int64)
    if len(threads) and not threads.has_nulls():
        table = table.with_columns(threads.alias("thread"))
    # A request that was never sent is 0 in both columns.
    table = table.filter((pl.col("start") != 0) | (pl.col("end") != 0))
    if table.is_empty() or (table["end"] < table["start"]).any():
        raise UsageError(f"{file} has no requests, or some that end before they start")
    return _Requests(kind, table)


def _numbers(name: str, column: pl.Series) -> pl.Series:
    if column.has_nulls():
        raise ValueError(f"a request without its {name}")
    return column.cast(pl.Int64, strict=True).alias(name)


def _quantiles(requests: _Requests) -> dict[str, float]:
    """As DaCapo computes them, of its sorted latencies."""
    latencies = requests.latencies.sort()
    count = len(latencies)
    return {
        metric_of(requests.kind, point): latencies[count - 1 - (count // rarity if rarity else 0)]
        / 1e6
        for point, rarity in POINTS.items()
    }


def _timeline(requests: _Requests) -> dict[str, Any]:
    """The requests around the slowest one, as ``tare.studies.proximity.question.timeline`` has
    events. Where their threads are not known, each has the first track that is free."""
    table = requests.table.sort("start", "end")
    slowest = (table["end"] - table["start"]).arg_max() or 0
    first = max(0, min(slowest - _TIMELINE_REQUESTS // 2, table.height - _TIMELINE_REQUESTS))
    table = table.slice(first, _TIMELINE_REQUESTS)
    times = table.select("start", "end").rows()
    known = "thread" in table.columns
    tracks = table["thread"].to_list() if known else _tracks(times)
    begin = times[0][0]
    return {
        "events": [
            [(start - begin) * 1000, (end - start) * 1000, track]
            for (start, end), track in zip(times, tracks, strict=True)
        ],
        "halts": [],
        "track": "thread" if known else "track",
    }


def _tracks(requests: list[tuple[int, int]]) -> list[int]:
    """For each of ``requests``, by their start, a number that no other has meanwhile."""
    tracks, free = [], [*range(1, len(requests) + 1)]
    busy: list[tuple[int, int]] = []
    for start, end in requests:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        tracks.append(heapq.heappop(free))
        heapq.heappush(busy, (end, tracks[-1]))
    return tracks
