"""What the record of a count holds beyond its values; ``tare.observers.instrument`` says how."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tare.observers.call_sites import CallSites
from tare.records.header import Amount
from tare.records.runs import Number


class Took(Struct, frozen=True, kw_only=True):
    """Of runs that failed, too."""

    wall_seconds: Amount = 0.0


class Operation(Struct, frozen=True, kw_only=True):
    """``histogram`` has the least number of instructions of each bin, and how many calls took so
    many; ``fewest`` and ``most`` are those of a call."""

    calls: Number = 0
    instructions: Number = 0
    fewest: Number = 0
    most: Number = 0
    histogram: tuple[tuple[Number, Number], ...] = ()

    def quantile(self, fraction: float) -> int:
        """The least number of instructions which that share of the calls did not exceed.

        Exact below 1,024 instructions; above, the lower end of a bin at most 1/32 wide.
        """
        wanted = fraction * self.calls
        seen = 0
        for low, calls in self.histogram:
            seen += calls
            if seen >= wanted:
                return max(low, self.fewest)
        return self.most


class Phase(Struct, frozen=True, kw_only=True):
    times: Number
    instructions: Number
    by_operation: Mapping[str, Number]

    @property
    def in_manager(self) -> int:
        """Instructions that were part of an operation of the manager."""
        return sum(self.by_operation.values())


class Details(Took, frozen=True, kw_only=True):
    operations: Mapping[str, Operation]
    events: Mapping[str, Number] = {}
    phases: Mapping[str, Phase] = {}
    collector: Phase | None = None
    processes: Number = 1
    uncounted_processes: Number = 0
    call_sites: CallSites | None = None
