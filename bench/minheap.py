"""What a collector's replay costs beside glibc's, and how long minimum heaps take to find."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.row import Row
from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.memory_managers.mmtk import command
from tare.studies.minheap.question import minheap
from tests.support.traces import many_objects, write_trace_folder

OBJECTS = 2_000_000
TRIES = 5
SEARCHED_OBJECTS = 5_000_000
MOST_RATIO_TO_GLIBC = 2.0
MOST_SECONDS = 600.0


def rows() -> list[Row]:
    """Processor time of the program's thread, interleaved; medians. Then one search for all."""
    try:
        glibc = [str(native_file("bin/tare-replay")), "run"]
        commands = {name: list(command(name, {})) for name in ("immix", "semispace")}
    except MissingError as error:
        return [Row("replay under collectors", error.message)]
    commands["glibc"] = glibc
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*_mutators(commands, folder), _search(folder)]


def _mutators(commands: dict[str, list[str]], folder: Path) -> list[Row]:
    trace = write_trace_folder(folder / "made.tare", many_objects(OBJECTS), observed=["free"])
    schedule = folder / "schedule"
    events = compile_trace(open_trace(trace), How(), schedule)["events"]
    report = folder / "report"
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TRIES):
        for name, words in commands.items():
            done = [*words, "--report", str(report), str(schedule)]
            subprocess.run(done, check=True, capture_output=True)
            times[name].append(float(json.loads(report.read_text())["processor_seconds"]))
    median = {name: statistics.median(values) for name, values in times.items()}
    found = []
    for name in ("immix", "semispace"):
        ratio = median[name] / median["glibc"]
        found.append(
            Row(
                f"replay under {name}, its mutator beside glibc's replay",
                f"{ratio:.2f}x ({median[name] / events * 1e9:.1f} ns an event)",
                f"at most {MOST_RATIO_TO_GLIBC:.0f}x",
                ratio <= MOST_RATIO_TO_GLIBC,
            )
        )
    return found


def _search(folder: Path) -> Row:
    objects = many_objects(SEARCHED_OBJECTS)
    trace = write_trace_folder(folder / "searched.tare", objects, observed=["free"])
    begun = time.monotonic()
    minheap(trace, folder=folder / "out")
    took = time.monotonic() - begun
    return Row(
        f"minimum heaps of all collectors, {SEARCHED_OBJECTS:,} objects",
        f"{took:.0f} s",
        f"at most {MOST_SECONDS:.0f} s",
        took <= MOST_SECONDS,
    )
