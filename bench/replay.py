"""What a replay costs by itself, beside the same calls made by plain C; and how fast traces are
compiled, and in how much memory."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.programs import Times, in_turns
from bench.reading import write_trace
from bench.row import Row, in_seconds, ratio_row, seconds_row
from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.memory_managers import mmtk
from tests.support.traces import many_objects, write_trace_folder

OBJECTS = 2_000_000
COMPILED = 7
"""How often, after once to warm up."""
BATCH = 1 << 15
"""Rows that the compiler is handed at once."""
BIRTH_SIZE_ABOUT_FREE = 0b100111
"""The columns of the rows; the free is a distance from the birth."""
LIFE = np.uint64(100_000)
"""How many births an object lives, where the memory of compiling is measured."""
MOST_NULL_SECONDS = 4e-9
MOST_RATIO_TO_C = 1.25
LEAST_OBJECTS_A_SECOND = 25e6
"""On two processors that nobody else uses."""
MOST_RATIO_TO_GLIBC = 2.0
PLANS = ("immix", "semispace")
HEAP_IN_LIVE = 8
"""What collectors have, in the most bytes that live."""


def rows() -> list[Row]:
    """Processor time of the loops, in turns. Then the compiler by itself."""
    try:
        replayer = str(native_file("bin/tare-replay"))
    except MissingError as error:
        return [Row("replay", error.message)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*_replaying(folder, replayer), *_compiling(folder), *_memory(folder, replayer)]


def _replaying(folder: Path, replayer: str) -> list[Row]:
    trace = write_trace_folder(folder / "made.tare", many_objects(OBJECTS), observed=["free"])
    schedule, report = folder / "schedule", folder / "report"
    counted = compile_trace(open_trace(trace), How(), schedule)
    plain = folder / "plain"
    source = Path(__file__).with_name("replay.c")
    subprocess.run(["cc", "-O2", "-o", plain, source], check=True)

    def replayed(*command: str) -> float:
        words = [*command, "--report", str(report), str(schedule)]
        subprocess.run(words, check=True, capture_output=True)
        # Of the thread that replays: collections have threads of their own.
        return float(json.loads(report.read_text())["processor_seconds"])

    def in_c() -> float:
        done = subprocess.run([plain, schedule], check=True, capture_output=True, text=True)
        return float(done.stdout)

    heap = {"heap": str(HEAP_IN_LIVE * counted["peak_bytes"])}
    plans = [plan for plan in PLANS if _is_built(plan)]
    contenders: dict[str, Callable[[], float]] = {
        "null": partial(replayed, replayer, "run", "--heap", "null"),
        "glibc": partial(replayed, replayer, "run"),
        "c": in_c,
        **{plan: partial(replayed, *mmtk.command(plan, heap)) for plan in plans},
    }
    took = in_turns(contenders)
    events = counted["events"]
    return [
        seconds_row(
            "replay, the loop with a heap that costs nothing, an event",
            took.each("null", events),
            MOST_NULL_SECONDS,
        ),
        ratio_row(
            "replay under glibc, beside a C loop with the same calls",
            took.ratio("glibc", "c"),
            MOST_RATIO_TO_C,
            f"{in_seconds(took.each('glibc', events))} an event",
        ),
        *(
            ratio_row(
                f"mutator time under {plan}, beside the replay under glibc",
                took.ratio(plan, "glibc"),
                MOST_RATIO_TO_GLIBC,
                f"{in_seconds(took.each(plan, events))} an event",
            )
            for plan in plans
        ),
    ]


def _is_built(plan: str) -> bool:
    try:
        mmtk.command(plan, {})
    except MissingError:
        return False
    return True


def _compiling(folder: Path) -> list[Row]:
    """Of a trace as the recorder writes it."""
    trace = open_trace(write_trace(folder / "recorded.tare", OBJECTS))
    objects = trace.header.processes[0].objects
    took: dict[str, list[float]] = {"elapsed": [], "reading": [], "compiling": [], "busier": []}
    for number in range(1 + COMPILED):
        begun, before = time.monotonic(), _processor_seconds()
        compile_trace(trace, How(), folder / "recorded")
        elapsed, after = time.monotonic() - begun, _processor_seconds()
        busy = [then - now for then, now in zip(after, before, strict=True)]
        if number > 0:
            for name, seconds in zip(took, (elapsed, *busy, max(busy)), strict=True):
                took[name].append(seconds)
    times = Times(took)
    each = {name: times.each(name, objects) for name in took}
    what = f"compiling a trace of {objects / 1e6:.1f} million objects, an object"
    most = 1 / LEAST_OBJECTS_A_SECOND
    row = seconds_row(what, each["elapsed"], most)
    if row.met is False and each["busier"].high <= most:
        row = replace(row, measured=f"cannot tell, others were at work: {row.measured}", met=None)
    parts = f"reading {in_seconds(each['reading'])}, compiling {in_seconds(each['compiling'])}"
    return [row, Row(f"{what}, processor time", parts)]


def _processor_seconds() -> tuple[float, float]:
    """Of this process, which reads, and of those that it waited for."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


def _memory(folder: Path, replayer: str) -> list[Row]:
    """Peak memory of the compiler for a program that runs on, with as many objects alive."""
    peaks = []
    for number in (1, 8):
        count = number * 8 * BATCH
        rows = folder / "rows"
        with rows.open("wb") as file:
            for start in range(1, count, BATCH):
                births = np.arange(start, start + BATCH, dtype=np.uint64)
                file.write(
                    BATCH.to_bytes(8, "little") + BIRTH_SIZE_ABOUT_FREE.to_bytes(8, "little")
                )
                for column in (births, births % 100, births * 0, births * 0 + LIFE):
                    file.write(column.astype(np.uint64).tobytes())
        target = folder / f"of-{number}"
        with rows.open("rb") as file:
            done = subprocess.run(
                [replayer, "compile", target], stdin=file, capture_output=True, check=True
            )
        peaks.append(int(json.loads(done.stdout)["compiler_bytes"]))
    return [
        Row(
            "memory of compiling 8 times as many objects, as many alive",
            f"{peaks[1] / peaks[0]:.2f}x ({peaks[1] >> 20} MiB)",
        )
    ]
