"""What one test allocates, natively: a run of pytest under Tare, as a program of its own so that
nothing of Tare is loaded into the tests' process. It reads what to do from standard input, and
prints figures and their largest places.

Only the test's call counts, for which the run says where it begins and ends:

- The recorder is paused, and turned on and off by a signal. It sees the child processes, too.
- The instrument sees all of the run, since uses can come at any time. Two objects of odd sizes are
  born at the two moments, and what was born between them counts, up to the second. It is of the
  test's process alone, as children have clocks of their own.

Python reads every object when it frees it, by its counter of references. Such a read is no use:
drag is what was held after the last use that was not part of freeing it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

import tare
from pytest_tare import EXIT_NOT_CALLED, INNER, MARKS, SIGNAL
from tare.heap_traces.frames import merged, site_text
from tare.heap_traces.ownership import by_site
from tare.heap_traces.residence import (
    Process,
    analyse_objects,
    is_void,
    moments,
    named_sites,
    processes,
)
from tare.heap_traces.trace import Trace

MOST_SITES, MOST_NAMED = 3, 4096
Figures = dict[str, float]
Sites = dict[str, list[tuple[str, float]]]


def main() -> None:
    told = json.load(sys.stdin)
    try:
        figures, sites = measure(told)
    except tare.TareError as error:
        sys.exit(error.message)
    print(json.dumps({"figures": figures, "sites": sites}))


def measure(told: Mapping[str, Any]) -> tuple[Figures, Sites]:
    recorder = told["observer"] == "recorder"
    program = tare.Program(
        name="test",
        argv=tuple(told["command"]),
        directory=Path(told["directory"]),
        ignore_output=True,
        environment={INNER: told["observer"], "PYTHONHASHSEED": "0", "PYTEST_ADDOPTS": ""},
    )
    what = tare.Asked(paused=True, signal_number=SIGNAL) if recorder else tare.Asked(last_use=True)
    trace = tare.trace(
        program, "cpython.malloc", folder=Path(told["folder"]) / "test.tare", what=what
    )
    if not trace.header.complete:
        raise tare.TareError(why(trace.header.reason))
    return allocated(trace) if recorder else dragged(trace)


def why(reason: str) -> str:
    if reason.endswith(f" {EXIT_NOT_CALLED}"):
        return "it was not called when it ran alone"
    return f"when it ran alone under Tare: {reason}"


def allocated(trace: Trace) -> tuple[Figures, Sites]:
    """Of all processes; the places at the peak are those of the process that held most."""
    objects = trace.objects()
    old = objects.select("process", resized_from="id", old="size")
    grown = pl.col("size").cast(pl.Int64) - pl.col("old").fill_null(0).cast(pl.Int64)
    values = {"objects": pl.col("resized_from").is_null().cast(pl.Int64), "bytes": grown.clip(0)}
    table = (
        objects.join(_of_tare(trace), on=["process", "site"], how="anti")
        .join(old, on=["process", "resized_from"], how="left")
        .with_columns(pl.col("site").fill_null(0), **values)
        .group_by("process", "site")
        .agg(pl.col(*values).sum())
        .collect()
    )
    figures = {name: float(table[name].sum()) for name in values}
    sites = {name: _largest(table, name, trace) for name in values}
    found = processes(objects, trace.processes)
    if main := analyse_objects(objects, found, "bytes", reachability=False)["main"]:
        mine = next(process for process in found if process.number == main["process"])
        owners = by_site(objects, mine, main["peak_moment"])
        owners = owners.with_columns(process=pl.lit(mine.number))
        sites["peak"] = _largest(owners, "peak_bytes", trace)
    return figures, sites


def _of_tare(trace: Trace) -> pl.LazyFrame:
    """The sites in the module by which Tare sees collections, which allocates at each of them, and
    in what it calls."""
    sites = trace.sites().select("process", "site", "caller", "file").collect()
    found: set[tuple[int, int]] = set()
    for process, site, caller, file in sites.iter_rows():  # callers come first
        if file.endswith("cpython/sitecustomize.py") or (process, caller) in found:
            found.add((process, site))
    schema = sites.select("process", "site").schema
    return pl.LazyFrame(sorted(found), schema, orient="row")


def dragged(trace: Trace) -> tuple[Figures, Sites]:
    """Of the test's process. Time is bytes allocated, as in tare drag."""
    objects = trace.objects()
    sizes = [sys.getsizeof(bytes(mark)) for mark in MARKS]
    marks = [
        objects.filter(pl.col("operation") == "calloc", pl.col("size") == size).first().collect()
        for size in sizes
    ]
    if any(mark.is_empty() for mark in marks):
        raise tare.TareError("the test's begin and end are not in the trace")
    begin, end = (mark.row(0, named=True) for mark in marks)
    mine = objects.filter(
        pl.col("process") == begin["process"],
        pl.col("id").is_between(begin["id"], end["id"], closed="none"),
    )
    number, clock = begin["process"], end["birth_bytes"]
    # Moments beyond its end are taken to be at its end.
    process = Process(number, 0, 0, end["birth_instructions"], 0, clock, True, "")
    freed = pl.when(pl.col("free_bytes") <= clock).then("free_bytes")
    at = moments(process, "bytes")

    def held_since(moment: str) -> pl.Expr:
        times = (at["end"] - at[moment]).cast(pl.Float64)
        return times * pl.col("size").cast(pl.Float64)

    table = (
        mine.with_columns(freed.alias("free_bytes"), pl.col("site").fill_null(0))
        .select(
            "process",
            "site",
            held=held_since("birth"),
            drag=pl.when(is_void(process)).then(0.0).otherwise(held_since("need")),
        )
        .group_by("process", "site")
        .agg(pl.col("held", "drag").sum())
        .collect()
    )
    table = table.with_columns(drag=pl.col("drag") / max(table["held"].sum(), 1.0))
    return {"drag": float(table["drag"].sum())}, {"drag": _largest(table, "drag", trace)}


def _largest(table: pl.DataFrame, name: str, trace: Trace) -> list[tuple[str, float]]:
    """The places with most of a column of a table by process and site."""
    rows = table.filter(pl.col(name) > 0).sort([name, "process", "site"], descending=True)
    sites = rows.head(MOST_NAMED).select("process", "site", name).to_dicts()
    named_sites(sites, trace)
    ranked = sorted(merged(sites, [name]), key=lambda site: -site[name])
    return [(site_text(site["frames"]), site[name]) for site in ranked[:MOST_SITES]]


if __name__ == "__main__":
    main()
