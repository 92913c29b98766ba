"""Heap traces for tests: objects as frames, and whole folders of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from tare.base.files import hash_file
from tare.heap_traces.trace import TABLES, VERSION, arrow_schema

KINDS: dict[str, Any] = {"u32": pl.UInt32, "u64": pl.UInt64, "text": pl.String}
OBJECTS, SITES = (
    {column: KINDS[kind.rstrip("?")] for column, kind in TABLES[name].items()}
    for name in ("objects", "sites")
)
Row = Mapping[str, Any]
FRAMES = (("main", "prog.c", 3), ("work", "prog.c", 20), ("make", "list.c", 7))


def objects_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows of ``birth``, ``size`` and, each optional, ``first``, ``last``, ``gone``, ``free``,
    ``touched``, ``torn`` (the last use before teardown), ``thread``, ``free_thread``,
    ``free_site``, ``site`` and ``process``, with times in instructions; the bytes clock follows
    from the births, in their order."""
    made: list[dict[str, Any]] = []
    for process in sorted({row.get("process", 0) for row in rows}):
        mine = [row for row in rows if row.get("process", 0) == process]
        mine.sort(key=lambda row: int(row["birth"]))
        births = np.array([row["birth"] for row in mine])
        clock = np.cumsum([row["size"] for row in mine])
        for number, row in enumerate(mine, 1):
            one: dict[str, Any] = {
                "process": process,
                "id": number,
                "operation": "malloc",
                "thread": row.get("thread", 1),
                "free_thread": row.get("free_thread"),
                "free_site": row.get("free_site"),
                "site": row.get("site"),
                "size": row["size"],
                "touched": row.get("touched"),
            }
            times = {
                "birth": row["birth"],
                "first_use": row.get("first"),
                "last_use": row.get("last"),
                "unreachable": row.get("gone"),
                "free": row.get("free"),
                "before_teardown": row.get("torn"),
            }
            for moment, time in times.items():
                one[f"{moment}_instructions"] = time
                at = None if time is None else int(np.searchsorted(births, time, "right"))
                one[f"{moment}_bytes"] = None if at is None else int(clock[at - 1])
            one["birth_bytes"] = int(clock[number - 1])
            made.append(one)
    return pl.DataFrame(made, schema=OBJECTS)


def sites_frame(processes: Sequence[int] = (0,), sites: int = len(FRAMES)) -> pl.DataFrame:
    """A chain of call sites in each process: site 1 is called by none, 2 by 1, and so on."""
    rows = []
    for process in processes:
        for site in range(1, sites + 1):
            function, file, line = FRAMES[(site - 1) % len(FRAMES)]
            rows.append(
                (
                    *(process, site, site - 1 or None, function, "/bin/prog", file, line),
                    *(site * 16, 0, None, None),
                )
            )
    return pl.DataFrame(rows, schema=SITES, orient="row")


def put_table(folder: Path, name: str, table: Any, *, statistics: bool = True) -> None:
    """Another content of a table, a pyarrow.Table, with its digest."""
    pq.write_table(table, folder / f"{name}.parquet", write_statistics=statistics)
    meta = json.loads((folder / "meta.json").read_text())
    meta["files"][name] = hash_file(folder / f"{name}.parquet")
    (folder / "meta.json").write_text(json.dumps(meta))


def write_trace_folder(
    folder: Path,
    objects: pl.DataFrame,
    sites: pl.DataFrame | None = None,
    *,
    observed: Sequence[str] = ("last_use", "sites"),
    complete: bool = True,
    end_instructions: int = 0,
    **more: Any,
) -> Path:
    """A trace folder as docs/trace.md describes it; ``more`` goes into meta.json."""
    folder.mkdir(parents=True)
    if sites is None:
        sites = sites_frame(objects["process"].unique().sort().to_list() or [0])
    tables = {"objects": objects, "sites": sites}
    for name, columns in TABLES.items():
        schema = arrow_schema(columns)
        table = tables[name].to_arrow().cast(schema) if name in tables else schema.empty_table()
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=1 << 18)
    processes = []
    for number in objects["process"].unique().sort() if objects.height else [0]:
        mine = objects.filter(pl.col("process") == number)
        processes.append(
            {
                "process": int(number),
                "pid": 100 + int(number),
                "parent": 1,
                "program": "/bin/prog",
                "end": "exit" if complete else "running",
                "instructions": end_instructions,
                "allocated_bytes": int(mine["birth_bytes"].max() or 0),  # type: ignore[arg-type]
                "objects": mine.height,
                "complete": complete,
            }
        )
    meta = {
        "format": "tare-trace",
        "version": VERSION,
        "tare": "0.1.0",
        "observer": "instrument",
        "observed": list(observed),
        "program": {"name": "prog", "argv": ["prog"], "executable": "/bin/prog"},
        "manager": "glibc",
        "complete": complete,
        "reason": "" if complete else "it was killed by SIGKILL",
        "processes": processes,
        "objects": objects.height,
        **more,
    }
    meta["files"] = {name: hash_file(folder / f"{name}.parquet") for name in TABLES}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def many_objects(count: int, seed: int = 1) -> pl.DataFrame:
    """Objects as real programs make them: skewed sizes, most of them dead soon, some never used,
    some never freed."""
    random = np.random.default_rng(seed)
    births = np.cumsum(random.integers(50, 1500, count)).astype(np.uint64)
    sizes = (random.pareto(1.5, count) * 16 + 8).astype(np.uint64)
    clock = np.cumsum(sizes)
    lives = (random.pareto(0.8, count) * 2000 + 40).clip(max=1e12).astype(np.uint64)
    frees = births + lives
    firsts = births + (lives * 0.1).astype(np.uint64) + 1
    lasts = np.minimum(firsts + (lives * random.random(count)).astype(np.uint64), frees)
    end = births[-1] + np.uint64(1000)
    used = random.random(count) > 0.05
    freed = (frees < end) & (random.random(count) > 0.02)
    lasts = np.minimum(lasts, end)
    firsts = np.minimum(firsts, lasts)

    def on_bytes(times: Any) -> Any:
        return clock[np.minimum(np.searchsorted(births, times, "right"), count) - 1]

    columns: dict[str, Any] = {
        "process": np.zeros(count, np.uint32),
        "id": np.arange(1, count + 1, dtype=np.uint64),
        "operation": pl.repeat("malloc", count, eager=True),
        "thread": np.ones(count, np.uint32),
        "site": random.integers(1, 4, count).astype(np.uint32),
        "size": sizes,
        "birth_instructions": births,
        "birth_bytes": clock,
    }
    frame = pl.DataFrame(columns)
    for moment, times, there in (
        ("first_use", firsts, used),
        ("last_use", lasts, used),
        ("free", frees, freed),
    ):
        for name, values in (("instructions", times), ("bytes", on_bytes(times))):
            frame = frame.with_columns(
                pl.when(pl.Series(there)).then(pl.Series(values)).alias(f"{moment}_{name}")
            )
    missing = [
        pl.lit(None, kind).alias(name)
        for name, kind in OBJECTS.items()
        if name not in frame.columns
    ]
    return frame.with_columns(missing).select(
        pl.col(name).cast(kind) for name, kind in OBJECTS.items()
    )


# ---- a trace of any length ----

_WARM_UP = 64 * 50
"""No object of a regular trace lives longer, in births."""


def regular_objects(start: int, stop: int, count: int) -> pl.DataFrame:
    """Rows ``start`` to ``stop`` of a trace of ``count`` objects: sizes, lives and uses follow from
    the row's number, so the whole repeats itself, and every sum is known."""
    number = np.arange(start, stop, dtype=np.int64)
    lives = number % 64 * 50
    columns: dict[str, Any] = {
        "process": np.zeros(len(number), np.uint32),
        "id": number + 1,
        "operation": pl.repeat("malloc", len(number), eager=True),
        "thread": np.ones(len(number), np.uint32),
        "site": number % 3 + 1,
        "size": 16 * (1 + number % 7),
    }
    frame = pl.DataFrame(columns)
    used, freed = number % 10 != 9, number + lives < count
    for moment, at, there in (
        ("birth", number, number >= 0),
        ("first_use", number, used),
        ("last_use", np.minimum(number + lives // 2, count - 1), used),
        ("free", number + lives, freed),
    ):
        for clock, times in (("instructions", 100 * (at + 1)), ("bytes", regular_clock(at))):
            known = pl.when(pl.Series(there)).then(pl.Series(times))
            frame = frame.with_columns(known.alias(f"{moment}_{clock}"))
    missing = [pl.lit(None, kind).alias(n) for n, kind in OBJECTS.items() if n not in frame.columns]
    return frame.with_columns(missing).select(
        pl.col(name).cast(kind) for name, kind in OBJECTS.items()
    )


def regular_clock(number: Any) -> Any:
    """Bytes allocated up to these rows of a regular trace, with them."""
    within = number % 7 + 1
    return number // 7 * (16 * 28) + 8 * within * (within + 1)


def regular_totals(count: int) -> dict[str, int]:
    """What an analysis of a regular trace of ``count`` objects has to find."""
    last = np.arange(max(count - _WARM_UP, 0), count)
    unfreed = last[last + last % 64 * 50 >= count]
    return {
        "objects": count,
        "bytes": int(regular_clock(count - 1)),
        "never_used_objects": count // 10,
        "never_freed_objects": len(unfreed),
        "never_freed_bytes": int((16 * (1 + unfreed % 7)).sum()),
    }


def write_regular_trace(folder: Path, count: int, rows_at_once: int = 1 << 20) -> Path:
    """A regular trace, in little memory, and little on the disk however long it is."""
    write_trace_folder(folder, regular_objects(0, 1, count))
    schema = arrow_schema(TABLES["objects"])
    numbers = [field.name for field in schema if str(field.type).startswith("uint")]
    with pq.ParquetWriter(
        folder / "objects.parquet",
        schema,
        compression="zstd",
        use_dictionary=["operation"],
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    ) as writer:
        for start in range(0, count, rows_at_once):
            part = regular_objects(start, min(start + rows_at_once, count), count)
            writer.write_table(part.to_arrow().cast(schema))
    meta = json.loads((folder / "meta.json").read_text())
    meta["objects"] = count
    (process,) = meta["processes"]
    process |= {
        "objects": count,
        "allocated_bytes": int(regular_clock(count - 1)),
        "instructions": 100 * count + 1,
    }
    meta["files"] = {name: hash_file(folder / f"{name}.parquet") for name in TABLES}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder
