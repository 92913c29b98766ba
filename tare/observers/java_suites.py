"""Benchmark suites of Java that come as one jar of the user's own: which benchmarks it has, how one
is run, and how long its iterations took.

The jar lists its benchmarks itself, and tells the time of each iteration in a line of its output.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from tare.base.errors import TareError, UsageError
from tare.observers import runner
from tare.observers.protocol import Observe, Observer
from tare.programs import iterations
from tare.programs.program import Program, find_executable
from tare.records.runs import Outcome

LIST_SECONDS = 60.0
MOST_BENCHMARKS = 1000
_MOST_LIST_BYTES = 1 << 20
_MOST_OUTPUT_BYTES = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Harness:
    """``listing`` are the arguments that make it list its benchmarks; ``repeating`` is the option
    for the number of iterations. ``completed`` finds the milliseconds of an iteration in its
    ``stream``."""

    listing: tuple[str, ...]
    repeating: str
    stream: str
    completed: re.Pattern[str]


HARNESSES: Mapping[str, Harness] = {
    "dacapo": Harness(
        ("-l",),
        "-n",
        "stderr",
        re.compile(
            r"^===== DaCapo \S+ \S+ (?:completed warmup \d+|PASSED) in (\d+) msec =====$", re.M
        ),
    ),
    "renaissance": Harness(
        ("--raw-list",),
        "-r",
        "stdout",
        re.compile(
            r"^====== \S+ \(.*\) \[.*\], iteration \d+ completed \((\d+\.\d+) ms\) ======$", re.M
        ),
    ),
}


def programs(
    suite: str, jar: Path, only: Sequence[str], repetitions: int, java: str = "java"
) -> list[Program]:
    """The benchmarks of a jar as programs; ``only`` names some of them. Raises UsageError for a jar
    that lists none."""
    harness = HARNESSES[suite]
    if not jar.is_file():
        raise UsageError(f"{jar} is not a file", f"--jar names the jar of {suite}")
    if not 1 <= repetitions <= 1000:
        raise UsageError(f"{repetitions} iterations: give a number from 1 to 1000")
    jar = jar.resolve()
    listing = Program(suite, (java, "-jar", str(jar), *harness.listing))
    find_executable(listing)
    names = _listed(suite, listing)
    if unknown := sorted(set(only) - set(names)):
        raise UsageError(
            f"{jar} has no benchmark {', '.join(unknown)}", f"it has: {', '.join(names)}"
        )
    return [
        Program(
            name,
            (java, "-jar", str(jar), name, harness.repeating, str(repetitions)),
            scratch=True,
            # Both check their results themselves, and what they print holds times.
            ignore_output=True,
        )
        for name in names
        if not only or name in only
    ]


def _listed(suite: str, listing: Program) -> list[str]:
    command = " ".join(listing.argv)
    try:
        done = subprocess.run(
            listing.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            timeout=LIST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TareError(f"{command} did not list its benchmarks in {LIST_SECONDS:.0f} s") from None
    names = done.stdout[:_MOST_LIST_BYTES].decode(errors="replace").split()
    is_list = 0 < len(names) <= MOST_BENCHMARKS and all(map(_NAME.fullmatch, names))
    if done.returncode == 0 and is_list and len(set(names)) == len(names):
        return names
    said = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
    raise UsageError(
        f"this is not a jar of {suite}: {command} listed no benchmarks (status "
        f"{done.returncode})" + (f": {said}" if said else ""),
        f"--jar names the jar of {suite}",
    )


@dataclass(frozen=True)
class _IterationObserver(Observer):
    harness: Harness

    def complete(self, folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        with (folder / self.harness.stream).open("rb") as file:
            text = file.read(_MOST_OUTPUT_BYTES).decode(errors="replace")
        seconds = [float(found) / 1e3 for found in self.harness.completed.findall(text)]
        if not seconds:
            return outcome
        first = iterations.steady_from(seconds)
        steady = seconds[first:] if first is not None else seconds[-iterations.WINDOW :]
        facts = {"seconds": seconds, "steady_from": first}
        return replace(
            outcome,
            values={**outcome.values, "iteration_seconds": median(steady)},
            details={**outcome.details, "iterations": facts},
        )


def observe(suite: str) -> Observe:
    """As ``runner.run_once``, with how long an iteration took."""
    return partial(runner.run_once, observer=_IterationObserver(HARNESSES[suite]))
