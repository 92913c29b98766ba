"""The collectors of MMTk that serve replays: `immix(heap=64MiB)` and the like.

They are plans of the crate mmtk in programs of replay/mmtk, each of which replays a schedule in
place of ``tare-replay``. They serve no program: a real one has no roots and no write barriers to
tell them of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.native import native_file
from tare.memory_managers.catalogue import Option, Recipe

VERSION = "0.33.0"
"""Of the crate mmtk, as in replay/mmtk/Cargo.toml."""
_MOVING, _NONMOVING = "bin/tare-replay-mmtk", "bin/tare-replay-mmtk-nonmoving"


@dataclass(frozen=True)
class Plan:
    """``collector`` is what the replayer must say that ran; ``program`` is the one that has it."""

    title: str
    plan: str
    collector: str = ""
    program: str = _MOVING
    has_nursery: bool = False

    @property
    def proof(self) -> str:
        return self.collector or self.plan


PLANS = {
    "semispace": Plan("copies all live objects into the other half of the heap", "SemiSpace"),
    "gencopy": Plan(
        "a copying nursery before two halves as in semispace", "GenCopy", has_nursery=True
    ),
    "genimmix": Plan("a copying nursery before immix", "GenImmix", has_nursery=True),
    "immix": Plan("marks lines in blocks, and moves objects where blocks are sparse", "Immix"),
    "immix-nonmoving": Plan(
        "immix that never moves an object", "Immix", "Immix-nonmoving", _NONMOVING
    ),
    "stickyimmix": Plan(
        "immix with sticky marks, so that young objects are collected alone",
        "StickyImmix",
        has_nursery=True,
    ),
    "freelist-marksweep": Plan("marks, and sweeps blocks of size classes", "MarkSweep"),
    "markcompact": Plan("slides all live objects together, by Lisp 2", "MarkCompact"),
    "compressor": Plan("slides all live objects together, by tables of offsets", "Compressor"),
    "concurrent-immix": Plan("immix that marks while the program runs", "ConcurrentImmix"),
}

HEAP = "heap"
_LEAST_MULTIPLE, _MOST_MULTIPLE = 1.0, 64.0
_HEAP = Option(
    HEAP,
    "bytes of the heap, or a multiple of the minimum heap, like 2x; if not set, 4 times the "
    "trace's peak of live bytes",
    "size",
    "",
)
_NURSERY = Option("nursery", "bytes of the nursery; if not set, as MMTk chooses", "size", "")
_THREADS = Option("threads", "threads of the collector", "int", "", default="1")
_PERIOD = Option("period", "bytes requested between full collections", "size", "")
_RECLAIM = Option(
    "reclaim", "every Nth collection reclaims; the others only trace", "int", "", default="1"
)


def options_of(name: str) -> tuple[Option, ...]:
    return (_HEAP, *([_NURSERY] if PLANS[name].has_nursery else []), _THREADS, _PERIOD, _RECLAIM)


def recipes() -> dict[str, Recipe]:
    """The collectors as entries of the catalogue."""
    return {
        name: Recipe(
            name=name,
            title=plan.title,
            version=VERSION,
            licence="MIT OR Apache-2.0",
            homepage="https://www.mmtk.io",
            kind="collector",
            default_weigh=False,
            build="package",
            folder=Path(__file__).parent,
            options=options_of(name),
            note=f"MMTk's plan {plan.plan}; serves replays of heap traces only",
        )
        for name, plan in PLANS.items()
    }


def multiple_of(heap: str) -> float:
    """Of how many minimum heaps ``heap`` is a multiple; 0 where it is given in bytes. Raises
    UsageError for one that no heap can be."""
    if not re.fullmatch(r"\d+(\.\d+)?x", heap):
        return 0.0
    multiple = float(heap[:-1])
    if not _LEAST_MULTIPLE <= multiple <= _MOST_MULTIPLE:
        raise UsageError(
            f"heap={heap}: give a multiple from {_LEAST_MULTIPLE:g}x to {_MOST_MULTIPLE:g}x"
        )
    return multiple


def command(name: str, given: Mapping[str, str]) -> tuple[str, ...]:
    """What replays under the collector ``name`` with these options, without the schedule.

    Raises UsageError for an option that cannot be, and MissingError where it is not built.
    """
    found = numbers(name, given, options_of(name))
    words = ["--plan", PLANS[name].plan]
    for key, value in given.items():
        # tare.studykit.least_heap.multiples puts bytes in the place of a multiple.
        words += [f"--{key}", str(found.get(key, value))]
    return (str(native_file(PLANS[name].program)), *words)


def numbers(name: str, given: Mapping[str, str], options: Sequence[Option]) -> dict[str, int]:
    """The options of the collector ``name`` as numbers, but for a heap that is a multiple. Raises
    UsageError."""
    known = {option.name: option for option in options}
    found = {}
    for key, value in given.items():
        if key not in known:
            has = f"its options: {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{name} has no option '{key}'", has)
        if key == HEAP and multiple_of(value):
            continue
        try:
            found[key] = int(known[key].carried(value))
        except ValueError as error:
            raise UsageError(f"{name}({key}={value}): {error}") from None
        if found[key] < 1:
            raise UsageError(f"{name}({key}={value}): must be above 0")
    return found
