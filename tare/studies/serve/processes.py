"""What the processes of a running server use, as the kernel tells."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGESIZE")
_TICK = os.sysconf("SC_CLK_TCK")
_PROPORTIONAL = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_MOST_PROCESSES = 4096


@dataclass(frozen=True)
class Used:
    """Since the processes started; what has ended between two looks at it is missing."""

    processor_seconds: float
    minor_faults: int


def tree_below(parent: int) -> list[int]:
    """The processes that descend from ``parent``, its own child first."""
    found: list[int] = []
    pending = _children(parent)
    while pending and len(found) < _MOST_PROCESSES:
        pid = pending.pop(0)
        found.append(pid)
        pending += _children(pid)
    return found


def resident_bytes(pids: Sequence[int]) -> int:
    """Of one process its resident memory; of several, shared pages divided among those that share
    them."""
    if len(pids) == 1:
        fields = _read(pids[0], "statm").split()
        return int(fields[1]) * _PAGE if len(fields) > 1 else 0
    return sum(
        int(match[1]) << 10
        for pid in pids
        if (match := _PROPORTIONAL.search(_read(pid, "smaps_rollup")))
    )


def used_by(pids: Sequence[int]) -> Used:
    """Processor time in seconds and minor faults, with those of children that were waited for."""
    ticks = faults = 0
    for pid in pids:
        # The name stands in brackets and can hold anything.
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        if len(fields) > 14:
            ticks += sum(map(int, fields[11:15]))
            faults += int(fields[7]) + int(fields[8])
    return Used(ticks / _TICK, faults)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    for thread in threads:
        try:
            found += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return found


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
