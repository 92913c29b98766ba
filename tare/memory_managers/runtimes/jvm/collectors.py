"""The collectors of JVMs, and the options that each has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tare.memory_managers.catalogue import Option
from tare.memory_managers.mmtk import HEAP

MMTK = "mmtk"
OWN = "own"
"""The collector that runs when none is asked for."""


@dataclass(frozen=True)
class Collector:
    """``uses`` is how the JVM's log calls it. ``unit`` is the grain of its young generation in
    bytes, 0 where that has no fixed size. ``stops`` says that it does all its work in pauses."""

    title: str
    flag: str
    uses: str
    stops: bool
    threads: str = ""
    young: bool = False
    unit: int = 0
    extra: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """What a JVM is told to use it."""
        return (*self.extra, *([f"-XX:+{self.flag}"] if self.flag else []))


COLLECTORS: Mapping[str, Collector] = {
    "serial": Collector(
        "single-threaded, generational, all work in pauses",
        "UseSerialGC",
        "Serial",
        stops=True,
        young=True,
        unit=64 << 10,
    ),
    "parallel": Collector(
        "parallel, generational, all work in pauses",
        "UseParallelGC",
        "Parallel",
        stops=True,
        threads="ParallelGCThreads",
        young=True,
        unit=512 << 10,
    ),
    "g1": Collector(
        "in regions, marks concurrently, moves objects in short pauses",
        "UseG1GC",
        "G1",
        stops=True,
        threads="ParallelGCThreads",
        young=True,
    ),
    "shenandoah": Collector(
        "in regions, marks and moves objects concurrently",
        "UseShenandoahGC",
        "Shenandoah",
        stops=False,
        threads="ConcGCThreads",
    ),
    "zgc": Collector(
        "coloured pointers, marks and moves objects concurrently",
        "UseZGC",
        "The Z Garbage Collector",
        stops=False,
        threads="ConcGCThreads",
    ),
    "epsilon": Collector(
        "never collects: the program runs until the heap is full",
        "UseEpsilonGC",
        "Epsilon",
        stops=True,
        extra=("-XX:+UnlockExperimentalVMOptions",),
    ),
    MMTK: Collector(
        "a collector of MMTk, for a JVM that was built with it",
        "UseThirdPartyHeap",
        "MMTk",
        stops=False,
    ),
    OWN: Collector("as the program's command or the JVM chooses", "", "", stops=False),
}

_HEAP = Option(
    HEAP,
    "fixed size of the heap in bytes, or a multiple of the minimum heap, like 2x; if not set, as "
    "the JVM chooses",
    "size",
    "",
    tried=("128MiB", "512MiB", "64MiB", "256MiB", "1GiB", "32MiB"),
)
_YOUNG = Option(
    "young",
    "bytes of the young generation; if not set, as the JVM chooses",
    "size",
    "",
    tried=("64MiB", "16MiB", "256MiB"),
)
_THREADS = Option(
    "threads",
    "threads of the collector; if not set, as the JVM chooses",
    "int",
    "",
    tried=("1",),
)
_PERIOD = Option("period", "bytes allocated between young collections", "size", "")
_PERIOD_OF_MMTK = Option("period", "bytes allocated between collections", "size", "")
_FULL_PERIOD = Option("full-period", "bytes allocated between full collections", "size", "")
_PLANS = (
    "Compressor",
    "ConcurrentImmix",
    "GenCopy",
    "GenImmix",
    "Immix",
    "MarkCompact",
    "MarkSweep",
    "NoGC",
    "PageProtect",
    "SemiSpace",
    "StickyImmix",
)
PLAN = Option(
    "plan",
    "the collector of MMTk; if not set, the one that the JVM was built with",
    "choice",
    "MMTK_PLAN",
    {plan: plan for plan in _PLANS},
)


def options_of(collector: str) -> tuple[Option, ...]:
    facts = COLLECTORS[collector]
    return (
        _HEAP,
        *([_YOUNG] if facts.young else []),
        *([_THREADS] if facts.threads else []),
        *([_PERIOD, _FULL_PERIOD] if facts.unit else []),
        *([_PERIOD_OF_MMTK, PLAN] if collector == MMTK else []),
    )
