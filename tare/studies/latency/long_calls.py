"""Where long calls come from: the lines that timed processes leave beside their histograms, read.

observers/latency/long_calls.hpp describes them. A program may have written over them, and a full
disk cuts them off: a line that is none of these is left out, and so are those beyond what is read.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec import to_builtins

from tare.base.text import writable
from tare.heap_traces.frames import RecordedFrame
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import LONGEST_NAME, unfold
from tare.studies.latency.details import OfSite
from tare.studies.latency.histograms import FAULTED, OPERATIONS, PREEMPTED, WAITED

ENDING = ".calls"
MOST_SITES = 100
"""That are kept, those whose calls took longest together."""
_MOST_BYTES = 8 << 20
"""Of one process, as the object's."""
_MOST_STACKS = 50_000
_OBJECT = re.compile(rb"M (\d{1,19}) (\d{1,19}) (\d{1,19}) (/.*)")
_CALL = re.compile(rb"C ([0-4]) ([0-7]) (\d{1,19}) (\d{1,19})((?: \d{1,19}){0,32})")

_Place = tuple[str, int]
"""A file and an offset in it; empty where it is not known."""


@dataclass
class _Sum:
    calls: int = 0
    ticks: int = 0
    longest: int = 0
    bytes: int = 0
    faulted: int = 0
    waited: int = 0
    preempted: int = 0

    def add(self, causes: int, size: int, ticks: int) -> None:
        self.calls += 1
        self.ticks += ticks
        if ticks > self.longest:
            self.longest, self.bytes = ticks, size
        self.faulted += bool(causes & FAULTED)
        self.waited += bool(causes & WAITED)
        self.preempted += bool(causes & PREEMPTED)


def read_sites(folder: Path, seconds: Callable[[float], float]) -> tuple[OfSite, ...]:
    """By operation and stack the long calls of all processes, those that took longest together
    first, MOST_SITES at most. ``seconds`` is what so many ticks are."""
    sums: dict[tuple[str, tuple[_Place, ...]], _Sum] = {}
    for path in sorted(folder.glob(f"*{ENDING}")):
        for operation, causes, size, ticks, stack in _calls(path):
            key = operation, stack
            if key in sums or len(sums) < _MOST_STACKS:
                sums.setdefault(key, _Sum()).add(causes, size, ticks)
    kept = sorted(sums.items(), key=lambda each: -each[1].ticks)[:MOST_SITES]
    places = list({place for (_, stack), _ in kept for place in stack})
    unfolded = unfold([Frame(object=name, offset=offset) for name, offset in places])
    frames = {
        place: [_recorded(frame) for frame in each]
        for place, each in zip(places, unfolded, strict=True)
    }
    return tuple(
        OfSite(
            operation=operation,
            frames=tuple(frame for place in stack for frame in frames[place]),
            calls=one.calls,
            seconds=seconds(one.ticks / one.calls) * one.calls,
            max_seconds=seconds(one.longest),
            bytes=one.bytes,
            faulted=one.faulted,
            waited=one.waited,
            preempted=one.preempted,
        )
        for (operation, stack), one in kept
    )


def _recorded(frame: Frame) -> RecordedFrame:
    found: RecordedFrame = to_builtins(frame)
    return found


def _calls(path: Path) -> Iterator[tuple[str, int, int, int, tuple[_Place, ...]]]:
    """Operation, causes, bytes, ticks and stack of each."""
    objects: dict[int, tuple[int, int, str]] = {}
    starts: list[int] = []
    with path.open("rb") as file:
        lines = file.read(_MOST_BYTES).split(b"\n")[:-1]
    known: dict[int, _Place] = {}
    for line in lines:
        if match := _OBJECT.fullmatch(line):
            start, end, bias = (int(match[number]) for number in (1, 2, 3))
            objects[start] = (end, bias, writable(os.fsdecode(match[4]))[:LONGEST_NAME])
            starts, known = sorted(objects), {}
        elif match := _CALL.fullmatch(line):
            stack = [int(call) for call in match[5].split()]
            for call in stack:
                if call not in known:
                    known[call] = _place(call, starts, objects)
            operation, causes, size, ticks = (int(match[number]) for number in (1, 2, 3, 4))
            yield OPERATIONS[operation], causes, size, ticks, tuple(known[call] for call in stack)


def _place(
    call: int, starts: list[int], objects: dict[int, tuple[int, int, str]]
) -> tuple[str, int]:
    """Of the byte before a return address."""
    if (at := bisect_right(starts, call - 1)) == 0:
        return "", 0
    end, bias, name = objects[starts[at - 1]]
    return (name, max(call - 1 - bias, 0)) if call <= end else ("", 0)
