"""Fixtures of tests of replays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tests.native.replay.schedules import Compiled
from tests.support.traces import Row, objects_frame, write_trace_folder


@pytest.fixture
def compiled(tmp_path: Path) -> Compiled:
    """Compile rows of objects, as ``objects_frame`` takes them; the schedule and its counts."""

    def compile_rows(
        rows: Sequence[Row] | pl.DataFrame, how: How | None = None, **meta: Any
    ) -> tuple[Path, dict[str, int]]:
        frame = rows if isinstance(rows, pl.DataFrame) else objects_frame(rows)
        number = len(list(tmp_path.iterdir()))
        folder = write_trace_folder(tmp_path / f"{number}.tare", frame, **meta)
        schedule = tmp_path / f"{number}.schedule"
        return schedule, compile_trace(open_trace(folder), how or How(), schedule)

    return compile_rows
