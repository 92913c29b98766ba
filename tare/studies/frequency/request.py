"""`tare frequency`: how often a collector should trace, and how often reclaim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.errors import UsageError
from tare.heap_traces.schedule import How
from tare.studykit import options
from tare.studykit.request import (
    OfPrograms,
    OfTrace,
    Request,
    managers_option,
    option,
    packed,
    runs_option,
    warmup_option,
)
from tare.studykit.sweeps import MOST_VALUES, sizes_of

MOST_RECLAIM = 1_000_000
_MANAGERS = (
    "An allocator to put the collector over; for a trace, a collector; for a java command, "
    "jvm.serial, jvm.parallel or jvm.mmtk; can be repeated. Default: glibc; for a trace, immix and "
    "genimmix."
)


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or len(parts) > MOST_VALUES or not all(part.isdecimal() for part in parts):
        raise UsageError(f"'{text}' is not a list of numbers", "write it like 1,4,16")
    numbers = tuple(sorted({int(part) for part in parts}))
    if numbers[-1] > MOST_RECLAIM:
        raise UsageError(f"{numbers[-1]} is too large", f"give at most {MOST_RECLAIM}")
    return numbers


@dataclass(frozen=True, kw_only=True)
class Varied(Request):
    """What is asked of programs and of traces."""

    periods: Sequence[int] = option(
        (),
        "--every",
        parse=sizes_of,
        metavar="SIZE,SIZE…",
        help="Bytes allocated between two collections. Default: 256KiB,1MiB,4MiB,16MiB; for a "
        "trace 8MiB,16MiB,32MiB,64MiB, or less where it allocates little; under a JVM "
        "4MiB,8MiB,16MiB,32MiB.",
        asked=False,
    )
    reclaim: Sequence[int] = option(
        (),
        parse=_numbers,
        metavar="N,N…",
        help="Free only at every Nth collection, trace at the others. Default: 1,4,16; 1 and 0, "
        "which never frees, always take part. For a trace: 1,4, and 1 always takes part.",
        asked=False,
    )
    runs: int = runs_option(
        12, "Runs with each setting; twice as many of the bare allocator and of no collection."
    )
    warmup: int = warmup_option()


@dataclass(frozen=True)
class Frequency(Varied, OfPrograms):
    """Mutator time of PROGRAM, or of a recorded T.tare, when a collector traces and reclaims more
    or less often.

    A conservative mark-sweep collector is put over each allocator, and the program's own frees have
    no effect. What is compared is mutator time: wall time without the collections. Traces that
    reclaim nothing are shown apart from reclamation. Runs that free nothing hold all that the
    program ever allocates: without --memory-limit, half of the machine's memory is the limit.

    A T.tare is replayed instead, under collectors of MMTk that know all pointers, in a heap so
    large that nothing but the period makes them collect it.

    Under jvm.serial or jvm.parallel the JVM's own collector does young and full collections at the
    periods given, under jvm.mmtk those that its plan chooses.
    """

    ANSWERED_BY: ClassVar[str] = "question.frequency"
    EXAMPLES: ClassVar[str] = """\
  tare frequency -- gawk -f report.awk words.txt
  tare frequency -m mimalloc -m tcmalloc --every 1MiB,8MiB,32MiB -- perl job.pl
  tare frequency --every 8MiB --reclaim 1,2,4,8,16 -n 20 -- lua script.lua
  tare frequency -m immix -m semispace recorded.tare
  tare frequency -m jvm.serial --every 8MiB,32MiB --full 64MiB -- java -cp classes Main
"""

    managers: Sequence[str] = managers_option(help=_MANAGERS)
    _: KW_ONLY
    full: Sequence[int] = option(
        (),
        parse=sizes_of,
        metavar="SIZE,SIZE…",
        help="Under a JVM: bytes allocated between two full collections, multiples of the others. "
        "Default: 64MiB; never always takes part.",
        asked=False,
    )


@dataclass(frozen=True)
class FrequencyReplayed(Varied, OfTrace):
    """As ``Frequency``, of the allocations of a heap trace."""

    ANSWERED_BY: ClassVar[str] = "replayed.frequency_replayed"

    managers: Sequence[str] = managers_option(help=_MANAGERS)
    _: KW_ONLY
    how: How = packed(How(), options.replay_options("touch", "regions", "threads"))


REQUESTS = (Frequency, FrequencyReplayed)
