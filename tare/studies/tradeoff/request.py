"""`tare tradeoff`: what collectors cost by the size of the heap, against malloc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.heap_traces.schedule import How
from tare.studykit import options
from tare.studykit.request import (
    OfTrace,
    baseline_option,
    heaps_option,
    managers_option,
    packed,
    runs_option,
    warmup_option,
)


@dataclass(frozen=True)
class Tradeoff(OfTrace):
    """What the allocations recorded in T.tare cost under each collector, by the size of its heap.

    The trace is replayed under each collector in heaps of several sizes, and under managers with
    malloc and free: how much time a collector takes for how much space, and from which heap on it
    costs no more than malloc and free.
    """

    ANSWERED_BY: ClassVar[str] = "question.tradeoff"
    EXAMPLES: ClassVar[str] = """\
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare tradeoff gawk.tare
  tare tradeoff -m immix -m genimmix -m glibc --heaps 1.5,2,3,4 gawk.tare
"""

    managers: Sequence[str] = managers_option(
        help="A collector, without heap=, or another manager; can be repeated. Default: the "
        "collectors of MMTk, glibc and mimalloc."
    )
    _: KW_ONLY
    baseline: str = baseline_option(
        "Baseline allocator, which ratios refer to. Default: glibc if it takes part."
    )
    heaps: Sequence[float] = heaps_option("the most bytes alive", (1.25, 1.5, 2.0, 3.0, 4.0, 6.0))
    runs: int = runs_option(6, "Runs in each heap.")
    warmup: int = warmup_option()
    how: How = packed(How(), options.replay_options("regions", "threads"))


REQUESTS = (Tradeoff,)
