"""What Tare itself costs: `python -m bench [NAME…]` prints a table for each. Medians of several
tries; where a bar is missed, they are made once more."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

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
    pace,
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
from bench.reached import reached
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
KEPT, NO_BAR, CANNOT_TELL = "bar kept", "no bar", "cannot tell"
AS_KNOWN, MISSED = "bar missed, as known", "bar missed"
Judged: TypeAlias = tuple[Row, str]
"""A row and its verdict."""
_STYLES = {KEPT: "", NO_BAR: "dim", CANNOT_TELL: "yellow", AS_KNOWN: "magenta", MISSED: "red"}


def main() -> int:
    """Run those that are named, or all. Exit code 1 when a bar is missed twice: one that
    reached.toml does not know, or, on a machine as fast as those of the bars, by more than it
    knows; 2 for an unknown name."""
    names = sys.argv[1:] or list(BENCHMARKS)
    if unknown := set(names) - set(BENCHMARKS):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(BENCHMARKS)}")
        return 2
    progress = Console(stderr=True)
    found = {name: _measured(name) for name in track(names, console=progress)}
    doubtful = [name for name, rows in found.items() if any(said == MISSED for _, said in rows)]
    if doubtful:
        print(f"measured again, for a bar was missed: {', '.join(doubtful)}", flush=True)
    for name in track(doubtful, console=progress):
        found[name] = confirmed(found[name], _measured(name))
    counts = Counter(said for rows in found.values() for _, said in rows)
    print(", ".join(f"{said}: {counts[said]}" for said in _STYLES if counts[said]))
    return 1 if counts[MISSED] else 0


def _measured(name: str) -> list[Judged]:
    pace.begin()
    begun = time.monotonic()
    found = BENCHMARKS[name]()
    seconds = time.monotonic() - begun
    slower = pace.slowness()
    title = (
        f"what Tare itself costs: {name}, measured in {seconds:.0f} s; Python's start takes "
        f"{slower:.1f}x as long as where the bars were set"
    )
    rows = [(row, verdict(row, calm=slower <= pace.CALM)) for row in found]
    Console().print(_table(title, rows))
    sys.stdout.flush()  # the next one may fail
    return rows


def confirmed(first: Sequence[Judged], again: Sequence[Judged]) -> list[Judged]:
    """A bar is missed if both measurements miss it: of some 250 rows, some are off by chance."""
    still = {row.what for row, said in again if said == MISSED}
    by_chance = {row.what for row, _ in again} - still
    return [
        (row, CANNOT_TELL if said == MISSED and row.what in by_chance else said)
        for row, said in first
    ]


def verdict(row: Row, *, calm: bool = True) -> str:
    """Whether a miss is worse than what is known of it, is only told where all is ``calm``."""
    if row.met is None:
        return CANNOT_TELL
    if row.met:
        return KEPT if row.bar else NO_BAR
    known = reached(row)
    if known is None or row.low is None:
        return MISSED
    if row.low <= known.figure:
        return AS_KNOWN
    return MISSED if calm else CANNOT_TELL


def _table(title: str, rows: Sequence[Judged]) -> Table:
    table = Table(title=title, title_justify="left")
    for title in ("what", "measured", "bar", "verdict"):
        table.add_column(title, overflow="fold")
    for row, said in rows:
        known = reached(row)
        reason = f" (up to {known.figure:g}): {known.why}" if known else ""
        table.add_row(row.what, row.measured, row.bar, said + reason, style=_STYLES[said])
    return table


if __name__ == "__main__":
    sys.exit(main())
