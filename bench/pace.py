"""How slow this machine is, beside those that the bars in seconds were set on."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

PASS = (sys.executable, "-c", "pass")
PASS_SECONDS = 0.015
"""What ``python -c pass`` takes where the bars hold."""
CALM = 1.25
"""A slower machine does not tell how bad a miss is."""
TRIES, FEW_TRIES = 21, 7

_readings: list[float] = []


def begin() -> None:
    """A benchmark begins: the pace of those before it does not count."""
    _readings.clear()
    slowness()


def slowness(tries: int = TRIES) -> float:
    """Of processor time, the most that was seen since the benchmark began, for the pace of a shared
    machine changes within it; never below 1, for a bar in seconds is as low on a faster machine."""
    took = statistics.median(seconds(PASS) for _ in range(tries))
    _readings.append(took / PASS_SECONDS)
    return max(1.0, *_readings)


def seconds(command: Sequence[str]) -> float:
    """Of processor time, which other programs disturb less than wall time."""
    environment = {**os.environ, "VALGRIND_LIB": "/usr/libexec/valgrind"}
    streams = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    streams += [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawnp(command[0], list(command), environment, file_actions=streams)
    _, status, used = os.wait4(process, 0)
    if status != 0:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return used.ru_utime + used.ru_stime
