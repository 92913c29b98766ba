"""`tare minheap`: the smallest heap that a program runs in, by collector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.heap_traces.schedule import How
from tare.studykit import options
from tare.studykit.least_heap.request import MANAGERS_HELP, MinheapExecuted, Narrowed
from tare.studykit.request import OfTrace, managers_option, packed


@dataclass(frozen=True)
class Minheap(Narrowed, OfTrace):
    """As ``MinheapExecuted``, of the allocations of a heap trace."""

    ANSWERED_BY: ClassVar[str] = "question.minheap"

    managers: Sequence[str] = managers_option(help=MANAGERS_HELP)
    _: KW_ONLY
    how: How = packed(How(), options.replay_options("touch", "regions", "threads"))


REQUESTS = (MinheapExecuted, Minheap)
