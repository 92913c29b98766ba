"""Makes raw recordings, as the instrument leaves them, for tests."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare.heap_traces.recording import TABLES

Columns = Mapping[str, NDArray[np.uint64]]
BLOCK_ROWS = 4096


def numbers(*values: int) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


def encode_block(columns: Sequence[NDArray[np.uint64]]) -> bytes:
    """A block whose columns are as narrow as they can be."""
    head, body = b"", b""
    for column in columns:
        base, most = int(column.min()), int(column.max())
        width = ((most - base).bit_length() + 7) // 8
        head += struct.pack("<QQ", base, width)
        stored = (column - np.uint64(base)).astype("<u8").view(np.uint8).reshape(-1, 8)
        body += stored[:, :width].tobytes()
    payload = head + body
    return (
        struct.pack("<IIII", 0x324B4C42, len(columns[0]), len(payload), checksum(payload)) + payload
    )


def checksum(payload: bytes) -> int:
    words = np.frombuffer(payload + bytes(-len(payload) % 8), "<u8")
    low, high = (int(np.sum(half, dtype=np.uint64)) for half in (words & 0xFFFFFFFF, words >> 32))
    total = (low + (high << 32)) % (1 << 64)
    return (total ^ total >> 32) & 0xFFFFFFFF


def write_table(path: Path, name: str, columns: Columns, block_rows: int = BLOCK_ROWS) -> None:
    """A whole table file. Columns that are not given are 0."""
    rows = len(next(iter(columns.values())))
    every = [columns.get(column, np.zeros(rows, np.uint64)) for column in TABLES[name]]
    with path.open("wb") as file:
        file.write(f"tare-table 1 {name} {' '.join(TABLES[name])}\n".encode())
        for start in range(0, rows, block_rows):
            file.write(encode_block([column[start : start + block_rows] for column in every]))


def write_process(
    folder: Path,
    *,
    pid: int = 100,
    serial: int = 0,
    parent: int = 1,
    end: str = "exit",
    program: str = "/bin/program",
    frames: Sequence[Mapping[str, Any]] = (),
    numbers_at_end: Mapping[str, int] | None = None,
    block_rows: int = BLOCK_ROWS,
    **tables: Columns,
) -> Path:
    """The files of one process image; returns the path of its JSON file."""
    folder.mkdir(exist_ok=True)
    stem = f"{pid}.{serial}"
    for name in TABLES:
        columns = tables.get(name) or dict.fromkeys(TABLES[name], numbers())
        write_table(folder / f"{stem}.{name}", name, columns, block_rows)
    (folder / f"{stem}.frames").write_text("".join(json.dumps(frame) + "\n" for frame in frames))
    births = tables.get("births")
    rows = 0 if births is None else len(births["size"])
    counts = {
        "instructions": 0 if births is None or not rows else int(births["instructions"][-1]) + 1000,
        "allocated_bytes": 0 if births is None or not rows else int(births["bytes"][-1]),
        "objects": rows,
        "threads": 1,
        "unknown_frees": 0,
        "inherited_frees": 0,
    }
    if end == "running":
        counts = dict.fromkeys(counts, 0)
    path = folder / f"{stem}.json"
    description = {
        "format": "tare-recording",
        "version": 1,
        "valgrind": "3.19.0",
        "pid": pid,
        "parent": parent,
        "program": program,
        "end": end,
        **counts,
        **(numbers_at_end or {}),
        "last_use": True,
        "sites": True,
        "pointers": False,
        "reachability_bytes": 0,
        "usable_size": "glibc",
    }
    path.write_text(json.dumps(description))
    return path


def lively_program(objects: int, seed: int = 1, sites: int = 300) -> dict[str, Any]:
    """Births, deaths, sites and frames of a program such as many are: call sites with sizes and
    lifetimes of their own, most objects young when they die, some never used, some never freed."""
    random = np.random.default_rng(seed)
    u64 = np.uint64
    site = np.minimum(random.zipf(1.3, objects), sites)
    sizes = random.choice([16, 24, 32, 40, 48, 64, 100, 256, 1024, 4096], sites)
    size = sizes[site - 1] + 8 * random.integers(0, 2, objects) * (site % 3 == 0)
    paces = random.integers(60, 1500, sites)
    birth = np.cumsum(paces[site - 1] + random.integers(0, 40, objects))
    lives = np.exp(random.normal(7, 1.5, sites)).astype(np.int64)
    long_lived = random.random(objects) < 0.1
    life = lives[site - 1] + random.integers(0, 60, objects)
    life = np.where(long_lived, (random.random(objects) * (birth[-1] - birth)).astype(int), life)
    first_after, left_over = random.integers(2, 60, sites), random.integers(5, 500, sites)
    last = birth + np.maximum(life, first_after[site - 1])
    used = random.random(objects) >= 0.08
    free = last + left_over[site - 1]
    kept = (random.random(objects) < 0.02) | (free > birth[-1])
    allocated = np.cumsum(size)
    free_bytes = allocated[np.searchsorted(birth, free, side="right") - 1]
    births = {
        "instructions": birth.astype(u64),
        "bytes": allocated.astype(u64),
        "size": size.astype(u64),
        "usable_size": ((size + 23) // 16 * 16 - 8).astype(u64),
        "operation": (site % 5).astype(u64),
        "site": site.astype(u64),
    }
    deaths = {
        "id": np.arange(1, objects + 1, dtype=u64),
        "first_use": (used * (birth + first_after[site - 1])).astype(u64),
        "last_use": (used * np.minimum(last, birth[-1] + 10)).astype(u64),
        "free_instructions": np.where(kept, 0, free).astype(u64),
        "free_bytes": np.where(kept, 0, free_bytes).astype(u64),
    }
    deaths["last_use"] = np.where(used, np.maximum(deaths["last_use"], deaths["first_use"]), 0)
    order = np.argsort(np.where(kept, birth[-1] + birth, free), kind="stable")
    places = np.arange(sites, dtype=u64)
    return {
        "births": births,
        "deaths": {name: values[order] for name, values in deaths.items()},
        "sites": {"caller": places // u64(2), "frame": places, "address": 4096 + places * u64(7)},
        "frames": [
            {
                "function": f"function_{place}",
                "object": "/usr/bin/program",
                "file": f"part{place % 20}.c",
                "line": int(place) + 1,
                "offset": 4096 + int(place),
            }
            for place in range(sites)
        ],
    }
