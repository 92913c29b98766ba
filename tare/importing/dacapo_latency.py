"""Latencies that DaCapo writes: files of requests, and lines of its output.

A line of ``dacapo-latency-usec-KIND-ITERATION.csv`` is a request: when it started and ended, in
microseconds, and perhaps its thread. KIND is simple, or metered: then the start is that which the
request would have had, had all come evenly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tare.errors import UsageError
from tare.importing.runs import UNKNOWN, Imported, ImportedRun
from tare.measurement import Status

TITLE = "DaCapo (files of latencies, or a folder of them)"
_NAME = re.compile(
    r"dacapo-latency-usec-(?P<kind>simple|metered[a-z0-9-]*?)(-(?P<iteration>\d{1,9}))?\.csv"
)
_FULL = ("metered", "metered-full-smoothing")
"""The kinds that the metrics of metered latencies are about."""
_LINE = re.compile(
    r"DaCapo (?P<kind>simple|metered[a-z0-9 -]*) tail latency: (?P<points>.*), measured over"
)
_POINT = re.compile(r"(?P<point>max|\d{2}(\.9+)?%) (?P<microseconds>\d{1,12}) usec")
POINTS = {"50%": 2, "90%": 10, "99%": 100, "99.9%": 1000, "99.99%": 10_000, "max": 0}
"""By quantile, one request in how many takes longer; 0: none."""
_MOST_FILE_BYTES = 1 << 30


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
    for file in sorted(file for file, iteration in iterations.items() if iteration == last):
        note(f"reading {file.name}")
        values |= _quantiles(file)
    if not values:
        raise UsageError(f"{path} has neither simple latencies nor metered ones over all requests")
    folder = path if path.is_dir() else path.resolve().parent
    run = ImportedRun(folder.name or UNKNOWN, UNKNOWN, Status.OK, values=values)
    return Imported(
        tool="DaCapo",
        runs=[run],
        notes=[
            "The files name neither the program nor its collector: the program has the name of "
            "their folder.",
            "Of several iterations the last is taken.",
        ],
    )


def _iteration(file: Path) -> int:
    match = _NAME.fullmatch(file.name)
    return int(match["iteration"] or 0) if match else 0


def _quantiles(file: Path) -> dict[str, float]:
    """As DaCapo computes them, of its sorted latencies."""
    import polars as pl

    match = _NAME.fullmatch(file.name)
    kind = match["kind"] if match else ""
    if not metric_of(kind, "max"):
        return {}
    if file.stat().st_size > _MOST_FILE_BYTES:
        raise UsageError(f"{file} is larger than {_MOST_FILE_BYTES >> 30} GiB")
    try:
        table = pl.read_csv(file, has_header=False, columns=[0, 1], infer_schema=False)
        start, end = (
            table[name].str.strip_chars().cast(pl.Int64, strict=True) for name in table.columns
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UsageError(f"{file} is not a file of latencies: {error}") from None
    # A request that was never sent is 0 in both columns.
    latencies = (end - start).filter((start != 0) | (end != 0)).sort()
    count = len(latencies)
    if not count or int(latencies[0]) < 0:
        raise UsageError(f"{file} has no requests, or some that end before they start")
    return {
        metric_of(kind, point): int(latencies[count - 1 - (count // rarity if rarity else 0)]) / 1e6
        for point, rarity in POINTS.items()
    }
