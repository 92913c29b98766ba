"""Programs that do the same work again and again: how long each iteration took, and from which one
on they are steady.

A program reports its iterations in the file that the variable ``TARE_ITERATIONS`` names: CSV with
the columns ``iteration,start_ns,end_ns,cpu_ns``, the times of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.base.errors import UsageError

VARIABLE = "TARE_ITERATIONS"
HEADER = "iteration,start_ns,end_ns,cpu_ns"
MOST_BYTES = 64 << 20
WINDOW = 3
"""Iterations whose median stands for all of them."""
STILL_FALLING = 0.02
"""A later window that is faster by more than this says that the program was still warming up."""


@dataclass(frozen=True)
class Iteration:
    start_ns: int
    end_ns: int
    cpu_ns: int

    @property
    def wall_seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def cpu_seconds(self) -> float:
        return self.cpu_ns / 1e9


def read_iterations(path: Path) -> list[Iteration]:
    """What a program reported. UsageError where the file is damaged; a last line that was cut off
    by the end of the program is left out."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES} bytes of iterations")
    header, *lines = content.decode("ascii", errors="replace").split("\n")
    if header != HEADER:
        raise UsageError(f"{path}: does not begin with {HEADER}")
    return [_iteration(path, number, line) for number, line in enumerate(lines[:-1])]


def _iteration(path: Path, number: int, line: str) -> Iteration:
    try:
        found, start, end, cpu = map(int, line.split(","))
    except ValueError:
        raise UsageError(f"{path}: iteration {number} is not a line of four numbers") from None
    if found != number or end < start or cpu < 0:
        raise UsageError(f"{path}: iteration {number} is out of order: {line[:80]!r}")
    return Iteration(start, end, cpu)


def steady_from(seconds: Sequence[float]) -> int | None:
    """The first iteration of the steady part; None where the times were still falling at the end.

    The program is steady from the first window of ``WINDOW`` iterations on whose median no later
    window beats by more than ``STILL_FALLING``. There has to be a later window without an
    iteration in common, or nothing could have shown that the times stopped falling.
    """
    medians = [
        statistics.median(seconds[first : first + WINDOW])
        for first in range(len(seconds) - WINDOW + 1)
    ]
    for first, median in enumerate(medians[:-WINDOW] if len(medians) > WINDOW else []):
        if min(medians[first + 1 :]) >= median * (1 - STILL_FALLING):
            return first
    return None
