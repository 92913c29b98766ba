"""Recordings for tests, and heap traces that are made of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tare.heap_traces.conversion import convert
from tare.heap_traces.trace import Trace, open_trace
from tare.observers.protocol import Observer
from tare.records.runs import Outcome
from tests.support.recordings import lively_program, numbers, write_process

FACTS = {
    "tare": "0",
    "observer": "instrument",
    "observed": ["free"],
    "program": {"name": "program"},
    "manager": "glibc",
}


def converted(recording: Path, reason: str = "") -> Trace:
    folder = recording.with_name("t.tare")
    folder.mkdir()
    convert(recording, folder, FACTS, reason)
    assert not [path for path in recording.iterdir() if path.name.startswith("tmp")]
    return open_trace(folder)


def births(*instructions: int, **columns: Sequence[int]) -> dict[str, Any]:
    sizes = columns.pop("size", [8] * len(instructions))
    given = {name: numbers(*values) for name, values in columns.items()}
    bytes_ = np.cumsum(numbers(*sizes), dtype=np.uint64)
    return {
        "instructions": numbers(*instructions),
        "bytes": bytes_,
        "size": numbers(*sizes),
    } | given


def deaths(*rows: tuple[int, int, int, int, int]) -> dict[str, Any]:
    """Of (id, first use, last use, free, free in bytes)."""
    names = ("id", "first_use", "last_use", "free_instructions", "free_bytes")
    return dict(zip(names, np.array(rows, np.uint64).reshape(-1, 5).T, strict=True))


def lively(tmp_path: Path, objects: int) -> dict[str, Any]:
    tables = lively_program(objects)
    write_process(tmp_path / "recording", **tables)
    return tables


def edit_meta(trace: Trace, **fields: Any) -> None:
    path = trace.folder / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


class Recorder(Observer):
    """Stands for the instrument: leaves the recording of a lively program when a run begins."""

    def __init__(self, *options: str) -> None:
        (folder,) = (o for o in options if o.startswith("--trace-folder="))
        self.recording = Path(folder.partition("=")[2])
        self.options = options

    objects = 500

    def prefix(self, _folder: Path) -> Sequence[str]:
        if self.objects:
            write_process(self.recording, **lively_program(self.objects))
        return ()

    def hosts(self, _executable: str) -> bool:
        return False

    def complete(self, _folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        counted = {"allocated_bytes": 4096.0, "max_live_bytes": 77.0}
        return replace(outcome, values=counted, details={"wall_seconds": 1.5})
