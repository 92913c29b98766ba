"""What Tare itself costs: `python -m bench` prints one table. Medians of several tries."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import (
    cost_per_run,
    count,
    delay,
    marksweep,
    memsys,
    page,
    reading,
    reap,
    recorder,
    space,
    startup,
    trace,
)
from bench.row import Row

BENCHMARKS: tuple[Callable[[], list[Row]], ...] = (
    startup.rows,
    cost_per_run.rows,
    count.rows,
    trace.rows,
    recorder.rows,
    reading.rows,
    space.rows,
    delay.rows,
    marksweep.rows,
    reap.rows,
    memsys.rows,
    page.rows,
)


def main() -> int:
    """Run all; exit code 1 when a bar is missed."""
    table = Table(title="what Tare itself costs")
    for title in ("what", "measured", "bar"):
        table.add_column(title)
    missed = False
    found: list[Row] = []
    for benchmark in track(BENCHMARKS, console=Console(stderr=True)):
        found += benchmark()
    for row in found:
        missed |= not row.met
        style = "" if row.met else "red"
        table.add_row(row.what, row.measured, row.bar, style=style)
    Console().print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
