"""Traces for tests of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.heap_traces.trace import Trace
from tare.observers import tracing
from tests.support.recordings import numbers, write_process
from tests.unit.heap_traces.recorded import Recorder, births, converted, deaths


@pytest.fixture
def small(tmp_path: Path) -> Trace:
    """Three objects: one used and freed, one void, one resized and kept."""
    write_process(
        tmp_path / "recording",
        births=births(
            *(10, 20, 30),
            size=[100, 8, 16],
            operation=[0, 1, 2],
            site=[2, 1, 0],
            alignment=[0, 0, 64],
            usable_size=[104, 0, 24],
            resized_from=[0, 0, 1],
        ),
        deaths=deaths((1, 12, 25, 30, 124), (3, 31, 40, 0, 0), (2, 0, 0, 35, 124)),
        sites={"caller": numbers(0, 1), "frame": numbers(1, 0), "address": numbers(64, 99)},
        frames=[
            {"function": "inner", "object": "/bin/x", "file": "x.c", "line": 7, "offset": 5},
            {"function": "main", "object": "/bin/x", "file": "", "line": 0, "offset": 9},
        ],
        marks={name: numbers(20) for name in ("instructions", "bytes", "live_objects")},
        pointers={"instructions": numbers(15), "source": numbers(0), "target": numbers(1)},
    )
    return converted(tmp_path / "recording")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "Instrument", Recorder)
    monkeypatch.setattr("tare.observers.instrument.launcher", lambda: Path("/bin/true"))
