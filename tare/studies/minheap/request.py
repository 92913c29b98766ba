"""What `tare minheap` asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.heap_traces.schedule import How
from tare.studykit import options
from tare.studykit.least_heap.request import (
    MANAGERS_HELP,
    MinheapExecuted,
    repeats_option,
    step_option,
)
from tare.studykit.request import OfTrace, managers_option, packed


@dataclass(frozen=True)
class Minheap(OfTrace):
    """As ``MinheapExecuted``, of the allocations of a heap trace."""

    ANSWERED_BY: ClassVar[str] = "question.minheap"

    managers: Sequence[str] = managers_option(help=MANAGERS_HELP)
    _: KW_ONLY
    step: int | None = step_option()
    repeats: int = repeats_option()
    how: How = packed(How(), options.replay_options("touch", "regions", "threads"))


REQUESTS = (MinheapExecuted, Minheap)
