"""Processor cycles of a program outside of the kernel, as `perf stat` counts them: less of what
else the machine does is in them than in times. And its processor time.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

EVENTS = ("cycles:u", "task-clock")


@dataclass(frozen=True)
class Counts:
    cycles: float
    seconds: float
    """Of processor time, by the program and for it."""


def prefix(file: Path) -> tuple[str, ...]:
    """The words before a program's command; the counts go to ``file``."""
    return ("perf", "stat", "-x,", "-e", ",".join(EVENTS), "-o", str(file), "--")


def read(file: Path) -> Counts:
    rows = [line.split(",") for line in file.read_text().splitlines()]
    counted = {row[2]: row[0] for row in rows if len(row) > 2}
    cycles, milliseconds = (float(counted[event]) for event in EVENTS)
    return Counts(cycles, milliseconds / 1e3)


@cache
def are_counted() -> bool:
    """Whether this machine has perf, and lets it count."""
    if shutil.which("perf") is None:
        return False
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "counts"
        done = subprocess.run([*prefix(file), "true"], capture_output=True)
        try:
            return done.returncode == 0 and read(file).cycles > 0
        except (KeyError, OSError, ValueError):
            return False
