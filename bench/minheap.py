"""How long the minimum heaps of all collectors take to find."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.programs import Times
from bench.row import Row, seconds_row
from tare.base.errors import MissingError
from tare.memory_managers.mmtk import command
from tare.studies.minheap.question import minheap
from tests.support.traces import many_objects, write_trace_folder

OBJECTS = 5_000_000
TRIES = 3
MOST_SECONDS = 240.0


def rows() -> list[Row]:
    """Whole studies, one after the other, with the defaults: as many trials side by side as there
    are processors, up to four."""
    try:
        command("immix", {})
    except MissingError as error:
        return [Row("minimum heaps", error.message)]
    took = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        objects = many_objects(OBJECTS)
        trace = write_trace_folder(folder / "searched.tare", objects, observed=["free"])
        for number in range(TRIES):
            begun = time.monotonic()
            minheap(trace, folder=folder / f"out-{number}")
            took.append(time.monotonic() - begun)
    what = f"minimum heaps of all collectors, {OBJECTS:,} objects"
    return [seconds_row(what, Times({"study": took}).each("study", 1), MOST_SECONDS)]
