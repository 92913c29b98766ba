"""The study of Sareen (2021), table 3.1, on native programs: least heaps beside that of mark-sweep
over mimalloc.

    python traces/study.py FOLDER [--pointers] [--only PROGRAM]...
    python traces/study.py FOLDER --trace T.tare...

Records the programs of the suite `papers` into FOLDER, or takes the traces that are named; seeks
the least heaps, and prints a table with the published rows below ours. What is in FOLDER already is
not done again.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import tare as api
from tare.base.errors import InterruptedStudy, TareError
from tare.heap_traces.trace import is_trace
from tare.observers.asked import Asked
from tare.records.metrics import Status
from tare.records.results import load, read_records
from tare.studies.minheap.question import minheap
from tare.studies.minheap.replayed_report import (
    HIGH,
    PUBLISHED_COLLECTORS,
    REFERENCE,
    published_heaps,
)

COLLECTORS = (REFERENCE, *PUBLISHED_COLLECTORS)
MEGABYTE = 1e6
Heaps = Mapping[str, float]


def record(folder: Path, only: Sequence[str], *, pointers: bool) -> list[Path]:
    """The traces of the programs; a program that fails is told of and left out."""
    recorded = []
    for program in api.suite_programs("papers", only, _tell):
        target = folder / f"{program.name}.tare"
        if not is_trace(target):
            _tell(f"recording {program.name}")
            api.trace(program, what=Asked(pointers=pointers, sites=False), folder=target)
        recorded.append(target)
    return recorded


def least_heaps(trace: Path, folder: Path, *, repeats: int) -> Heaps:
    """By collector, the bytes of its least heap; none for one that has none."""
    results = folder / f"{trace.stem}.minheap"
    if not (results.exists() and load(results).run.finished):
        _tell(f"least heaps of {trace.stem}")
        minheap(trace, ["glibc", *COLLECTORS], repeats=repeats, folder=results)
    return {
        record.run.manager: record.outcome.values[HIGH]
        for record in read_records(results)
        if record.outcome.status is Status.OK
    }


def table(ours: Mapping[str, Heaps]) -> str:
    """As Markdown: a line for each program, ours and the published ones, and the means."""
    lines = [
        f"| MB | {' | '.join(COLLECTORS)} |",
        f"| --- |{' ---: |' * len(COLLECTORS)}",
    ]
    for program, heaps in ours.items():
        lines.append(_line(program, (_megabytes(heaps.get(name)) for name in COLLECTORS)))
    lines.append(_line("*over the first, geometric mean*", map(_text, _means(list(ours.values())))))
    for program, row in published_heaps().items():
        lines.append(_line(f"{program} (published)", map(_text, row)))
    published = [
        {name: heap for name, heap in zip(COLLECTORS, row, strict=True) if heap is not None}
        for row in published_heaps().values()
    ]
    lines.append(_line("*published, geometric mean*", map(_text, _means(published))))
    return "\n".join(lines)


def _means(rows: Sequence[Heaps]) -> list[float | None]:
    """Of each collector, the geometric mean of its heaps over the reference's."""
    means: list[float | None] = []
    for name in COLLECTORS:
        logarithms = [
            math.log(heaps[name] / heaps[REFERENCE])
            for heaps in rows
            if name in heaps and REFERENCE in heaps
        ]
        means.append(round(math.exp(sum(logarithms) / len(logarithms)), 2) if logarithms else None)
    return means


def _line(program: str, cells: Iterable[str]) -> str:
    return f"| {program} | {' | '.join(cells)} |"


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _megabytes(size: float | None) -> str:
    return "–" if size is None else f"{size / MEGABYTE:.3g}"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pointers", action="store_true", help="record stores of pointers, too")
    parser.add_argument("--only", action="append", default=[], metavar="PROGRAM")
    parser.add_argument("--trace", action="append", default=[], type=Path, metavar="T.tare")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    try:
        traces = given.trace or record(given.folder, given.only, pointers=given.pointers)
        ours = {
            trace.stem: least_heaps(trace, given.folder, repeats=given.repeats) for trace in traces
        }
    except TareError as error:
        sys.exit(f"{error}")
    except InterruptedStudy as interrupted:
        sys.exit(f"interrupted; the same command goes on from {interrupted.folder}")
    print(table(ours))


if __name__ == "__main__":
    main()
