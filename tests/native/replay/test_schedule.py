"""Schedules of traces that nobody wrote by hand, against what a plain reading of them gives."""

from __future__ import annotations

import os
import subprocess
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import STORED, arrow_schema, open_trace, with_distances
from tests.native.replay.schedules import shown
from tests.support import ROOT
from tests.support.traces import OBJECTS, objects_frame, put_table, write_trace_folder

FIRST_SIZE = 1_000
KINDS = {"W": "Write", "R": "Read", "F": "Free"}


def crowded(count: int, seed: int) -> list[dict[str, int]]:
    """Objects with a size of their own, many of which are born, used or freed at one moment."""
    random = np.random.default_rng(seed)
    births = 1 + np.cumsum(random.integers(0, 4, count))
    rows = []
    for number, birth in enumerate(births.tolist()):
        row = {"birth": birth, "size": FIRST_SIZE + number}
        life = int(random.choice([0, 1, 3, 40, 3_000, 100_000]))
        if random.random() < 0.9:
            first = birth + int(random.integers(0, life + 1))
            row |= {"first": first, "last": int(random.integers(first, birth + life + 1))}
        if random.random() < 0.9:
            row["free"] = birth + life
        rows.append(row)
    return rows


def plain_reading(rows: list[dict[str, int]], how: How) -> dict[int, list[str]]:
    """By the number of births before them, the events that are none, sorted."""
    births = [row["birth"] for row in rows]
    events: dict[int, list[str]] = defaultdict(list)
    for number, row in enumerate(rows):
        end = row.get("free") if how.death == "free" else row.get("last", row["birth"])
        moments = {"F": end}
        if how.touch == "uses":
            moments |= {"W": row.get("first"), "R": row.get("last")}
        for kind, time in moments.items():
            if time is not None:
                before = max(bisect_left(births, time), number + 1)
                events[before].append(f"{KINDS[kind]} {row['size']}")
    return {before: sorted(found) for before, found in events.items()}


def store_distances(folder: Path) -> None:
    """Write the objects as Tare's own recordings have them."""
    table = pq.read_table(folder / "objects.parquet")
    columns = with_distances({name: table[name].combine_chunks() for name in table.column_names})
    put_table(folder, "objects", pa.table(columns, schema=arrow_schema(STORED["objects"])))


@pytest.mark.parametrize("clocks", [False, True], ids=["distances", "clocks"])
@pytest.mark.parametrize(
    "how", [How("free"), How("last-use"), How("free", "uses"), How("last-use", "uses")], ids=str
)
def test_all_happens_between_the_births_where_it_did(
    tmp_path: Path, how: How, clocks: bool
) -> None:
    rows = crowded(6_000, seed=len(str(how)))
    frame = objects_frame(rows)
    folder = tmp_path / "t.tare"
    observed = ("free", "first_use", "last_use")
    write_trace_folder(folder, frame, observed=observed)
    if not clocks:
        store_distances(folder)
    trace = open_trace(folder)
    assert trace.clocks_are_stored is clocks
    schedule = tmp_path / "schedule"
    compile_trace(trace, how, schedule)
    sizes: dict[str, str] = {}
    found: dict[int, list[str]] = defaultdict(list)
    births = 0
    for event in shown(schedule):
        kind, slot, *rest = event.split()
        if kind == "Allocate":
            births += 1
            sizes[slot] = rest[0]
        else:
            found[births].append(f"{kind} {sizes[slot]}")
    assert births == len(rows)
    assert {before: sorted(events) for before, events in found.items()} == plain_reading(rows, how)


def test_what_a_file_does_not_tell_of_its_columns_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "t.tare"
    write_trace_folder(folder, objects_frame(crowded(2_000, seed=1)), observed=("free",))
    table = pq.read_table(folder / "objects.parquet")
    schedules = []
    for statistics in (True, False):
        put_table(folder, "objects", table, statistics=statistics)
        compile_trace(open_trace(folder), How(), tmp_path / "schedule")
        schedules.append((tmp_path / "schedule").read_bytes())
    assert schedules[0] == schedules[1]


def steady(count: int, live: int) -> pl.DataFrame:
    """Objects of which so many live at one moment, but for the beginning."""
    known: dict[str, pl.Expr] = {
        "process": pl.lit(0),
        "id": pl.col("id"),
        "operation": pl.lit("malloc"),
        "thread": pl.lit(1),
        "size": pl.col("id") % 97,
        "birth_instructions": pl.col("id") * 10,
        "birth_bytes": pl.col("id") * 10,
        "free_instructions": (pl.col("id") + live) * 10,
    }
    return pl.DataFrame({"id": np.arange(1, count + 1)}).select(
        known.get(name, pl.lit(None)).cast(kind).alias(name) for name, kind in OBJECTS.items()
    )


def test_memory_of_compiling_is_bounded_by_what_lives(tmp_path: Path) -> None:
    live, few, many = 20_000, 300_000, 3_000_000
    taken = {}
    for count in (few, many):
        folder = write_trace_folder(
            tmp_path / f"{count}.tare", steady(count, live), observed=["free"]
        )
        counted = compile_trace(open_trace(folder), How(), tmp_path / "schedule")
        assert counted["peak_objects"] == live
        taken[count] = counted["compiler_bytes"]
    # Anything that is kept of each object would take more.
    assert taken[many] - taken[few] < many - few
    assert taken[many] < 1.3 * taken[few]


@pytest.mark.soak
def test_the_compiler_of_schedules_under_miri(tmp_path: Path) -> None:
    cargo = ["cargo", "+nightly", "miri"]
    if subprocess.run([*cargo, "--version"], capture_output=True).returncode != 0:
        pytest.skip("Miri is missing (rustup component add --toolchain nightly miri)")
    done = subprocess.run(
        [*cargo, "test", "--quiet", "--locked", "--package", "tare-schedule"],
        cwd=ROOT / "replay",
        env={**os.environ, "CARGO_TARGET_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
