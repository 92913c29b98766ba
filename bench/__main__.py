"""What Tare itself costs: `python -m bench [NAME…]` prints one table. Medians of several tries."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import (
    breakdown,
    classics,
    cost_per_run,
    count,
    delay,
    growth,
    java_trace,
    marksweep,
    memsys,
    minheap,
    page,
    proximity,
    reading,
    reap,
    recorder,
    regions,
    replay,
    space,
    startup,
    trace,
)
from bench.row import Row

MODULES = (
    startup,
    cost_per_run,
    count,
    trace,
    java_trace,
    recorder,
    reading,
    space,
    delay,
    marksweep,
    reap,
    classics,
    regions,
    replay,
    minheap,
    memsys,
    breakdown,
    proximity,
    page,
    growth,
)
BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    module.__name__.removeprefix("bench."): module.rows for module in MODULES
}


def main() -> int:
    """Run those that are named, or all; exit code 1 when a bar is missed, 2 for an unknown name."""
    names = sys.argv[1:] or list(BENCHMARKS)
    if unknown := set(names) - set(BENCHMARKS):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(BENCHMARKS)}")
        return 2
    table = Table(title="what Tare itself costs")
    for title in ("what", "measured", "bar"):
        table.add_column(title)
    missed = False
    found: list[Row] = []
    for name in track(names, console=Console(stderr=True)):
        found += BENCHMARKS[name]()
    for row in found:
        missed |= row.met is False
        style = {True: "", False: "red", None: "yellow"}[row.met]
        table.add_row(row.what, row.measured, row.bar, style=style)
    Console().print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
