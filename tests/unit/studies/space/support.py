"""Snapshots, objects and pages as tests of `tare space` make them up."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tare.heap_traces.residence import Process
from tare.studies.space.ranges import from_pairs, nothing
from tare.studies.space.snapshot import PAGE, Mapping, Snapshot
from tare.studies.space.split import HeapPages, Known, Objects
from tests.support.traces import OBJECTS

BASE = 0x10000
NOBODY = Known(frozenset(), frozenset())


def as_set(rows: Any) -> set[int]:
    return {byte for start, end in rows.tolist() for byte in range(start, end)}


def snapshot(
    mappings: list[Mapping],
    runs: list[tuple[int, int]],
    **more: Any,
) -> Snapshot:
    resident = sum(end - start for start, end in runs)
    empty = {name: nothing() for name in ("own", "held", "start", "guards")}
    values: dict[str, Any] = {
        "name": "peak",
        "origin": 0,
        "time": 100,
        "forked": False,
        "spent_seconds": 0.0,
        "lowest_ratio": 1.02,
        "mappings": mappings,
        "rss_bytes": resident,
        "swapped_bytes": 0,
        "huge_bytes": 0,
        "runs": from_pairs(runs),
        "mapped": np.zeros((0, 3), np.int64),
        "threads": np.zeros(0, np.int64),
        **empty,
    }
    return Snapshot(**values | more)


def some_objects(rows: list[tuple[int, int, int]], sites: list[int] | None = None) -> Objects:
    """``rows`` are (address, size, usable)."""
    addresses, sizes, usable = np.array(sorted(rows), np.int64).reshape(-1, 3).T
    return Objects(addresses, sizes, usable, np.array(sites or [0] * len(rows), np.int64))


def heap_pages(*rows: tuple[int, int, int]) -> HeapPages:
    """``rows`` are (page, live, free)."""
    page, live, free = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return HeapPages(page * PAGE, live, free, live + free > 0)


def trace_rows(objects: list[tuple[int, int, int | None, int]]) -> pl.DataFrame:
    """``objects`` are (birth, address, free, size) in nanoseconds, by birth."""
    clock = np.cumsum([size for *_, size in objects]).tolist()
    rows = [
        {
            "process": 0,
            "id": number,
            "operation": "malloc",
            "thread": 1,
            "site": 1 + number % 2,
            "size": size,
            "usable_size": size + 8,
            "address": address,
            "birth_nanoseconds": birth,
            "birth_bytes": clock[number],
            "free_nanoseconds": free,
            "free_bytes": None if free is None else clock[-1],
        }
        for number, (birth, address, free, size) in enumerate(objects)
    ]
    return pl.DataFrame(rows, schema=OBJECTS)


def one_process(rows: int, allocated: int) -> Process:
    return Process(0, 0, rows, 0, 1000, allocated, True, "p")
