"""How slow this machine is, beside those that the bars in seconds were set on."""

from __future__ import annotations

import statistics
import sys

from bench.programs import seconds

PASS = (sys.executable, "-c", "pass")
PASS_SECONDS = 0.015
"""What ``python -c pass`` takes where the bars hold."""
CALM = 1.25
"""A slower machine does not tell how bad a miss is."""
TRIES = 21

_readings: list[float] = []


def begin() -> None:
    """A benchmark begins: the pace of those before it does not count."""
    _readings.clear()
    slowness()


def slowness() -> float:
    """Of processor time, the most that was seen since the benchmark began, for the pace of a shared
    machine changes within it; never below 1, for a bar in seconds is as low on a faster machine."""
    took = statistics.median(seconds(PASS) for _ in range(TRIES))
    _readings.append(took / PASS_SECONDS)
    return max(1.0, *_readings)
