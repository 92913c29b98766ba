"""What holds in every sound heap trace, and how many rows of one break it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.base.errors import UsageError
from tare.base.libraries import np, pa, pl, pq
from tare.heap_traces.trace import (
    CLOCKS,
    STORED,
    TABLES,
    Trace,
    filled_up,
    first_line,
    table_file,
    with_clocks,
)


def violations(trace: Trace) -> dict[str, int]:
    """How many rows break each invariant of a trace; empty for a sound one. Reads all of it, in
    bounded memory. Raises UsageError where a file cannot be decoded."""
    counts: dict[str, int] = {}

    def add(name: str, number: int) -> None:
        if number:
            counts[name] = counts.get(name, 0) + number

    try:
        sites = trace.sites().collect()
        last = {
            process: int(part["site"].max())  # type: ignore[arg-type]
            for (process,), part in sites.group_by("process")
        }
        add("a site whose caller does not come before it", _bad_callers(sites))
        seen = [0] * len(trace.processes)
        clocks = [dict.fromkeys(CLOCKS, 0)] * len(trace.processes)
        with pq.ParquetFile(table_file(trace.folder, "objects")) as file:
            previous = 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                column = {name: table[name].combine_chunks() for name in table.column_names}
                if trace.clocks_are_stored:
                    column = filled_up(column, TABLES["objects"])
                else:
                    column = with_clocks(filled_up(column, STORED["objects"]))
                processes = column["process"].to_numpy()
                add("a process out of order", int(np.sum(np.diff(processes.astype(int)) < 0)))
                for process in np.unique(processes):
                    number = int(process)
                    if number >= len(seen) or number < previous:
                        add("an object of a process that is not there", 1)
                        continue
                    previous = number
                    mine = pa.array(processes == process)
                    values = {name: array.filter(mine) for name, array in column.items()}
                    for name, bad in broken_rows(
                        values, seen[number], clocks[number], last.get(number, 0)
                    ).items():
                        add(name, bad)
                    seen[number] += len(values["id"])
                    clocks[number] = last_births(values)
        for process, rows in zip(trace.header.processes, seen, strict=True):
            add("a process whose objects were not all found", int(process.objects != rows))
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{trace.folder} cannot be read: {first_line(error)}") from None
    return counts


def _bad_callers(sites: pl.DataFrame) -> int:
    return sites.filter(pl.col("caller") >= pl.col("site")).height


def last_births(column: Mapping[str, Any]) -> dict[str, int]:
    """The last of some births, on each clock; 0 where the clock is not known."""
    return {clock: int(column[f"birth_{clock}"][-1].as_py() or 0) for clock in CLOCKS}


def broken_rows(
    column: Mapping[str, Any], rows_before: int, births_before: Mapping[str, int], sites: int
) -> dict[str, int]:
    """How many rows of one process break each invariant.

    ``column`` maps names of objects.parquet to pyarrow arrays of the same length, in order of
    birth; ``rows_before`` rows of the process come before them, with births up to
    ``births_before`` by clock. The process has ``sites`` call sites.
    """

    def values(name: str, missing: int) -> Any:
        return column[name].fill_null(missing).to_numpy(zero_copy_only=False)

    greatest = (1 << 64) - 1
    ids = values("id", 0)
    births = {clock: values(f"birth_{clock}", 0) for clock in CLOCKS}
    frees = {clock: values(f"free_{clock}", greatest) for clock in CLOCKS}
    birth, free = births["instructions"], frees["instructions"]
    first, last = values("first_use_instructions", 0), values("last_use_instructions", 0)
    used = values("last_use_instructions", 0) != 0
    unreachable = values("unreachable_instructions", greatest)
    resized = values("resized_from", 0)
    needed = values("before_teardown_instructions", 0)
    dense = np.arange(rows_before + 1, rows_before + 1 + len(ids), dtype=np.uint64)

    def falls(numbers: Any, before: int) -> Any:
        return np.count_nonzero(numbers[1:] < numbers[:-1]) + int(
            len(numbers) > 0 and int(numbers[0]) < before
        )

    checks = {
        "an id that is not the next": ids != dense,
        "a first use before the birth": used & (first < birth),
        "a last use before the first": used & (last < first),
        "a first use without a last, or a last without a first": used != (first != 0),
        "a last use after the free": used & (last > free),
        "teardown without a use": (needed != 0) & ((needed < birth) | (needed > last)),
        **{
            f"a free before the birth{_on(clock)}": frees[clock] < births[clock] for clock in CLOCKS
        },
        "a birth after it was found unreachable": unreachable < birth,
        "found unreachable after the free": (free != greatest)
        & (unreachable != greatest)
        & (unreachable > free),
        "a site that is not there": (values("site", 0) > sites) | (values("free_site", 0) > sites),
        "resized from an object that is not older": (resized != 0) & (resized >= ids),
        "touched beyond its end": values("touched", 0) > values("size", 0),
    }
    broken = {name: int(np.count_nonzero(bad)) for name, bad in checks.items()}
    for clock in CLOCKS:
        broken[f"a birth before the one before it{_on(clock)}"] = int(
            falls(births[clock], births_before[clock])
        )
    return {name: number for name, number in broken.items() if number}


def _on(clock: str) -> str:
    return "" if clock == "instructions" else f", in {clock}"
