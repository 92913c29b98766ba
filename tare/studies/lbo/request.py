"""`tare lbo`: what a collector costs at least, by the size of the heap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.units import parse_size
from tare.heap_traces.schedule import How
from tare.studykit import options
from tare.studykit.request import (
    OfProgram,
    OfTrace,
    Request,
    heaps_option,
    managers_option,
    option,
    packed,
    runs_option,
    warmup_option,
)

_MANAGERS = (
    "A collector, without heap=, or another manager; can be repeated. Default: those of the JVM, "
    "or settings of Go, Node, CPython or OCaml for a program of these; for a trace, immix, "
    "genimmix, semispace and glibc."
)


@dataclass(frozen=True, kw_only=True)
class Varied(Request):
    """What is asked of a program and of a trace."""

    heaps: Sequence[float] = heaps_option(
        "the minimum heap; of a trace, of the most bytes alive", (1.5, 2.0, 3.0, 4.0, 6.0)
    )
    runs: int = runs_option(6, "Runs in each heap.")
    warmup: int = warmup_option()


@dataclass(frozen=True)
class Lbo(Varied, OfProgram):
    """The lower-bound overhead of collectors for PROGRAM, or for a recorded T.tare.

    Each collector runs in heaps of several sizes. The least cost of any run without its pauses is
    the distilled baseline, and what a collector costs beyond it is a lower bound of its overhead.
    Heaps that are too small are shown as such.
    """

    ANSWERED_BY: ClassVar[str] = "question.lbo"
    EXAMPLES: ClassVar[str] = """\
  tare lbo -- java -cp classes Main
  tare lbo -m jvm.g1 -m jvm.parallel --heaps 2,4 --least-heap 64MiB -- java -jar app.jar
  tare lbo -m immix -m genimmix -m glibc gawk.tare
"""

    managers: Sequence[str] = managers_option(help=_MANAGERS)
    _: KW_ONLY
    least_heap: int | None = option(
        None,
        parse=parse_size,
        metavar="SIZE",
        help="What heaps are multiples of. Default: the minimum heap of the runtime's collector "
        "that needs least, sought first.",
    )


@dataclass(frozen=True)
class LboReplayed(Varied, OfTrace):
    """As ``Lbo``, of the allocations of a heap trace; ``heaps`` are multiples of the most bytes
    that it has alive at one moment."""

    ANSWERED_BY: ClassVar[str] = "question.lbo_replayed"

    managers: Sequence[str] = managers_option(help=_MANAGERS)
    _: KW_ONLY
    how: How = packed(How(), options.replay_options("touch", "regions", "threads"))


REQUESTS = (Lbo, LboReplayed)
