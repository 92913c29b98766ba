"""How fast a heap trace is read, in how much memory, and how fast it is analysed for drag. The
objects are synthetic."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.programs import in_turns
from bench.row import Row, seconds_row
from tare.base.statistics import Interval
from tare.heap_traces.trace import FORMAT, META_FILE, OPERATIONS, VERSION
from tare.heap_traces.writing import TableWriter, constant, known, numbers, words

OBJECTS = 24 << 20
BATCH = 1 << 17
SITES = 300
TRIES = 3
MOST_SECONDS = 50e-9
MOST_DRAG_SECONDS = 8 * 60 / 500e6
"""Of wall time, by a command on two processors: 500 million objects in eight minutes."""
MOST_MORE_MEMORY = 1.25
"""Of ten times as many objects."""
SEED = 1

OWN_PEAK_BYTES = (
    "(int(next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))"
    ".split()[1]) << 10)"
)
"""In a Python script. ru_maxrss would begin with the peak of the process that started it."""

SCAN = f"""
import sys, time
import polars as pl
from tare.heap_traces.trace import open_trace

trace = open_trace(sys.argv[1])
life = (pl.col("free_bytes") - pl.col("birth_bytes")).cast(pl.Float64)
begun = time.process_time()
held = (life * pl.col("size")).sum().alias("held")
sums = trace.objects().group_by("site").agg(pl.len().alias("objects"), pl.col("size").sum(), held)
sums = sums.collect(engine="streaming")
took = time.process_time() - begun
assert sums["objects"].sum() == trace.meta["objects"]
print(took, {OWN_PEAK_BYTES})
"""
"""By call site, the sum of the sizes and of the sizes times the lifetimes; on one core."""


def rows() -> list[Row]:
    """Traces with and without last uses, and one of a tenth of the objects."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        for what, uses in (("births and frees", False), ("last uses as well", True)):
            folder = write_trace(Path(name) / "trace", OBJECTS, uses=uses)
            seconds, memory = scan(folder)
            found.append(
                seconds_row(f"reading a trace with {what}, an object", seconds, MOST_SECONDS)
            )
        found.append(_drag(folder))
        _, less = scan(write_trace(Path(name) / "tenth", OBJECTS // 10, uses=True))
        found.append(
            Row(
                f"memory to read a trace of {OBJECTS / 1e6:.0f} M objects",
                f"{memory / 2**20:.0f} MiB, {memory / less:.2f}x that of a tenth of it",
                f"at most {MOST_MORE_MEMORY}x",
                memory <= MOST_MORE_MEMORY * less,
            )
        )
    return found


def scan(folder: Path) -> tuple[Interval, int]:
    """Processor seconds an object, and the most resident bytes."""
    environment = os.environ | {"POLARS_MAX_THREADS": "1"}
    peaks = []

    def seconds() -> float:
        words_ = [sys.executable, "-c", SCAN, str(folder)]
        answer = subprocess.run(words_, env=environment, capture_output=True, text=True, check=True)
        took, peak = map(float, answer.stdout.split())
        peaks.append(peak)
        return took

    took = in_turns({"reading": seconds}, TRIES)
    return took.each("reading", OBJECTS), int(max(peaks))


def _drag(folder: Path) -> Row:
    results = folder.with_name("results")
    tare = [sys.executable, "-m", "tare"]
    command = [*tare, "drag", "--quiet", "--no-page", "-o", str(results), str(folder)]

    def seconds() -> float:
        begun = time.monotonic()
        subprocess.run(command, capture_output=True, check=True)
        took = time.monotonic() - begun
        shutil.rmtree(results)
        return took

    took = in_turns({"drag": seconds}, TRIES).each("drag", OBJECTS)
    return seconds_row("drag of a trace, an object, in wall time", took, MOST_DRAG_SECONDS)


def write_trace(folder: Path, objects: int, *, uses: bool = False) -> Path:
    """A trace of that many objects, in whole batches: those of one batch again and again. Replaces
    what is there."""
    folder.mkdir(exist_ok=True)
    batch = lively(BATCH)
    batches = max(1, objects // BATCH)
    with TableWriter(folder, "objects") as table:
        for number in range(batches):
            table.write(_columns(batch, number, uses))
    sites = np.arange(1, SITES + 1, dtype=np.uint64)
    with TableWriter(folder, "sites") as table:
        table.write(_sites(sites))
    for name in ("pointers", "regions", "events"):
        with TableWriter(folder, name):
            pass
    end = {"nanoseconds": 0, "allocated_bytes": 0} | {
        "instructions": batches * int(batch["birth_instructions"][-1] + 1),
        "allocated_bytes": batches * int(batch["birth_bytes"][-1]),
    }
    process = {"process": 0, "pid": 1, "parent": 0, "program": "", "end": "exit", **end}
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "observer": "none",
        "observed": ["free", "sites", *["first_use", "last_use"] * uses],
        "program": {"name": "synthetic"},
        "manager": "none",
        "complete": True,
        "reason": "",
        "objects": batches * BATCH,
        "sites": SITES,
        "allocating_sites": SITES,
        "processes": [process | {"objects": batches * BATCH, "complete": True}],
    }
    (folder / META_FILE).write_text(json.dumps(meta))
    return folder


def lively(objects: int) -> dict[str, Any]:
    """Objects as programs make them: few sites make most, most die young, some stay; 0 is none."""
    random = np.random.default_rng(SEED)
    site = np.minimum(random.zipf(1.3, objects), SITES)
    sizes = random.choice([16, 24, 32, 48, 64, 100, 256, 1024], SITES)[site - 1]
    birth = np.cumsum(random.integers(60, 1500, SITES)[site - 1])
    life = np.exp(random.normal(7, 1.5, SITES)).astype(np.int64)[site - 1]
    life += random.integers(0, 60, objects)
    clock = np.cumsum(sizes)

    def in_bytes(at: Any) -> Any:
        return np.where(at, clock[np.searchsorted(birth, at, side="right") - 1], 0)

    kept = (random.random(objects) < 0.02) | (birth + life > birth[-1])
    moments = {
        "birth": birth,
        "first_use": birth + 1,
        "last_use": birth + life // 2 + 1,
        "free": np.where(kept, 0, birth + life + 2),
    }
    columns = {"site": site, "size": sizes}
    for name, at in moments.items():
        columns |= {f"{name}_instructions": at, f"{name}_bytes": in_bytes(at)}
    return {name: column.astype(np.uint64) for name, column in columns.items()}


def _columns(batch: Mapping[str, Any], number: int, uses: bool) -> dict[str, Any]:
    """The objects of a batch, as they are when so many batches come before it."""
    first = number * BATCH
    columns = {
        "process": constant(0, BATCH),
        "id": numbers(np.arange(first + 1, first + BATCH + 1, dtype=np.uint64)),
        "operation": words(np.zeros(BATCH, np.uint64), OPERATIONS),
        "thread": constant(1, BATCH),
        "site": known(batch["site"], kind="u32"),
        "size": numbers(batch["size"]),
        "usable_size": known((batch["size"] + np.uint64(23)) // np.uint64(16) * np.uint64(16)),
    }
    for name, values in batch.items():
        moment, _, clock = name.rpartition("_")
        if moment and (uses or not moment.endswith("use")):
            later = np.uint64(number) * (batch[f"birth_{clock}"][-1] + np.uint64(clock != "bytes"))
            columns[name] = known(np.where(values != 0, values + later, values))
    return columns


def _sites(sites: Any) -> dict[str, Any]:
    nowhere = words(np.zeros(SITES, np.uint64), ("",))
    return {
        "process": constant(0, SITES),
        "site": numbers(sites, kind="u32"),
        **dict.fromkeys(("function", "object", "file"), nowhere),
        "address": numbers(sites),
        "offset": numbers(sites),
    }
