"""What a replay costs by itself, beside the same calls made by plain C; and how fast traces are
compiled, and in how much memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from bench.row import Row
from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.memory_managers import mmtk
from tests.support.traces import many_objects, write_trace_folder

OBJECTS = 2_000_000
TRIES = 7
BATCH = 1 << 15
"""Rows that the compiler is handed at once."""
BIRTH_SIZE_ABOUT_FREE = 0b100111
"""The columns of the rows; the free is a distance from the birth."""
LIFE = np.uint64(100_000)
"""How many births an object lives, where the memory of compiling is measured."""
MOST_NULL_NANOSECONDS = 6.0
MOST_RATIO_TO_C = 1.25
LEAST_OBJECTS_A_SECOND = 10e6
MOST_RATIO_TO_GLIBC = 2.0
PLANS = ("immix", "semispace")
HEAP_IN_LIVE = 8
"""What collectors have, in the most bytes that live."""


def rows() -> list[Row]:
    """Processor time of the loops, interleaved; medians."""
    try:
        replayer = str(native_file("bin/tare-replay"))
    except MissingError as error:
        return [Row("replay", error.message)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = write_trace_folder(folder / "made.tare", many_objects(OBJECTS), observed=["free"])
        schedule = folder / "schedule"
        took, busy, counted = [], [], {}
        for _ in range(3):
            begun, before = time.monotonic(), sum(os.times()[:4])
            counted = compile_trace(open_trace(trace), How(), schedule)
            took.append(time.monotonic() - begun)
            busy.append(sum(os.times()[:4]) - before)
        rate = OBJECTS / statistics.median(took)
        plain = folder / "plain"
        source = Path(__file__).with_name("replay.c")
        subprocess.run(["cc", "-O2", "-o", plain, source], check=True)

        def replayed(*options: str) -> float:
            report = folder / "report"
            command = [replayer, "run", "--report", str(report), *options, str(schedule)]
            subprocess.run(command, check=True, capture_output=True)
            return float(json.loads(report.read_text())["processor_seconds"])

        def mutator_under(plan: str) -> float:
            heap = HEAP_IN_LIVE * counted["peak_bytes"]
            report = folder / "report"
            words = mmtk.command(plan, {"heap": str(heap)})
            command = [*words, "--report", str(report), str(schedule)]
            subprocess.run(command, check=True, capture_output=True)
            # Of the thread that replays: collections have threads of their own.
            return float(json.loads(report.read_text())["processor_seconds"])

        def in_c() -> float:
            done = subprocess.run([plain, schedule], check=True, capture_output=True, text=True)
            return float(done.stdout)

        contenders: dict[str, Callable[[], float]] = {
            "null": lambda: replayed("--heap", "null"),
            "glibc": replayed,
            "c": in_c,
            **{plan: partial(mutator_under, plan) for plan in PLANS if _is_built(plan)},
        }
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(TRIES):
            for name, measure in contenders.items():
                times[name].append(measure())
        median = {name: statistics.median(values) for name, values in times.items()}
        memory = _compiling_bytes(folder, replayer)
    null = median["null"] / counted["events"] * 1e9
    ratio = median["glibc"] / median["c"]
    return [
        Row(
            "replay, the loop with a heap that costs nothing",
            f"{null:.1f} ns an event",
            f"at most {MOST_NULL_NANOSECONDS:.0f} ns",
            null <= MOST_NULL_NANOSECONDS,
        ),
        Row(
            "replay under glibc, beside a C loop with the same calls",
            f"{ratio:.2f}x ({median['glibc'] / counted['events'] * 1e9:.1f} ns an event)",
            f"at most {MOST_RATIO_TO_C}x",
            ratio <= MOST_RATIO_TO_C,
        ),
        *(
            Row(
                f"mutator time under {plan}, beside the replay under glibc",
                f"{(beside := median[plan] / median['glibc']):.2f}x",
                f"at most {MOST_RATIO_TO_GLIBC:.0f}x",
                beside <= MOST_RATIO_TO_GLIBC,
            )
            for plan in PLANS
            if plan in median
        ),
        Row(
            f"compiling a trace of {OBJECTS / 1e6:.0f} million objects",
            f"{rate / 1e6:.1f} million objects a second "
            f"({statistics.median(busy) / OBJECTS * 1e9:.0f} ns of processor time each)",
            f"at least {LEAST_OBJECTS_A_SECOND / 1e6:.0f} million",
            rate >= LEAST_OBJECTS_A_SECOND,
        ),
        *memory,
    ]


def _is_built(plan: str) -> bool:
    try:
        mmtk.command(plan, {})
    except MissingError:
        return False
    return True


def _compiling_bytes(folder: Path, replayer: str) -> list[Row]:
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
