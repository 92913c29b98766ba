"""How long processors stay away from a thread that always wants to run: for interrupts, for other
programs, and for the host of a virtual machine, which need not count that as steal. A request that
comes meanwhile waits, whatever the server does."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

MUCH = 0.001
LEAST_SECONDS = 1e-4
"""The ticks of kernels are shorter."""
_MOST_PROCESSORS = 4


@dataclass(frozen=True)
class Stalls:
    """``share`` is of the time."""

    share: float
    longest_seconds: float


def measure_stalls(seconds: float = 1.0) -> Stalls:
    """On some of the processors that this process may use, in turn, for ``seconds`` in all."""
    usable = sorted(os.sched_getaffinity(0))
    chosen = usable[:: -(-len(usable) // _MOST_PROCESSORS)]
    try:
        found = [stall for each in chosen for stall in _stalls(each, seconds / len(chosen))]
    finally:
        os.sched_setaffinity(0, usable)
    return Stalls(sum(found) / seconds, max(found, default=0.0))


def _stalls(processor: int, seconds: float) -> list[float]:
    os.sched_setaffinity(0, {processor})
    found = []
    start = before = time.perf_counter()
    while before - start < seconds:
        now = time.perf_counter()
        if now - before >= LEAST_SECONDS:
            found.append(now - before)
        before = now
    return found
