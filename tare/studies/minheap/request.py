"""`tare minheap`: the smallest heap that a program runs in, by collector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.heap_traces.schedule import How
from tare.studykit import options
from tare.studykit.least_heap.request import MANAGERS_HELP, MinheapExecuted, Narrowed
from tare.studykit.request import OfTrace, managers_option, option, packed


@dataclass(frozen=True)
class MinheapOfProgram(MinheapExecuted):
    """Find the minimum heap in which each collector of its runtime can run PROGRAM, or in which
    each collector can serve the allocations recorded in T.tare; or the least memory limit of a
    container for PROGRAM under each manager.

    The program runs, or the trace is replayed, in heaps of fixed sizes; bisection narrows the
    minimum to an interval. For a trace, managers without a limit for their heap are replayed once,
    for their peak.
    """

    ANSWERED_BY: ClassVar[str] = "question.minheap_of_program"
    EXAMPLES: ClassVar[str] = """\
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare minheap gawk.tare
  tare minheap -m immix -m semispace -m 'marksweep(mimalloc, every=64KiB)' gawk.tare
  tare minheap -m jvm.serial -m jvm.g1 -- java -cp classes Main
  tare minheap --container -m glibc -m mimalloc --quota 0.5 -- ./report input.txt
"""

    _: KW_ONLY
    container: bool = option(
        False,
        help="Search for the least memory limit of a container instead, without swap, and measure "
        "the time near it.",
    )
    quota: float | None = option(
        None,
        type=float,
        metavar="N",
        help="Processors whose time the container may use, like 0.5; the program still sees all of "
        "the machine's.",
    )


@dataclass(frozen=True)
class Minheap(Narrowed, OfTrace):
    """As ``MinheapExecuted``, of the allocations of a heap trace."""

    ANSWERED_BY: ClassVar[str] = "question.minheap"

    managers: Sequence[str] = managers_option(help=MANAGERS_HELP)
    _: KW_ONLY
    how: How = packed(How(), options.replay_options("touch", "regions", "threads"))


REQUESTS = (MinheapOfProgram, Minheap)
