"""What the record of a simulated memory system holds beyond its values; ``memory_system`` says
how."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tare.records.header import Amount
from tare.records.runs import Number

PROGRAM = "program"
KINDS = ("fetch", "read", "write")


class Seen(Struct, frozen=True, kw_only=True):
    """What happened to somebody's accesses. ``misses`` are by kind, of each level; ``stalls`` are
    cycles by what is waited for."""

    calls: Number = 0
    instructions: Number = 0
    reads: Number = 0
    writes: Number = 0
    misses: Mapping[str, tuple[Number, ...]] = {}
    translation_misses: Number = 0
    stalls: Mapping[str, Amount] = {}
    stall_cycles: Amount = 0
    cycles: Amount = 0

    @property
    def memory_misses(self) -> int:
        """Accesses that no level held."""
        return sum(found[-1] for found in self.misses.values())

    @property
    def data_misses(self) -> int:
        """Reads and writes that the first level did not hold."""
        return self.misses["read"][0] + self.misses["write"][0]


class Site(Seen, frozen=True, kw_only=True):
    """Calls of an operation from one place."""

    operation: str
    function: str
    object: str
    offset: int
    file: str = ""
    line: int = 0


class Simulated(Struct, frozen=True, kw_only=True):
    """In one model. ``before`` and ``after`` are the program's events around collections."""

    name: str
    levels: Number = 1
    operations: Mapping[str, Seen] = {}
    sites: tuple[Site, ...] = ()
    all_sites: Number = 0
    collections: Number = 0
    phases: Mapping[str, Seen] = {}
    before: Seen | None = None
    after: Seen | None = None

    def whole(self, manager: bool | None = None) -> Seen:
        """The sum over the operations: over the manager's, over the program's own, or over all
        where ``manager`` is None."""
        chosen = [
            seen
            for name, seen in self.operations.items()
            if manager is None or (name != PROGRAM) is manager
        ]
        return Seen(
            calls=sum(one.calls for one in chosen),
            instructions=sum(one.instructions for one in chosen),
            reads=sum(one.reads for one in chosen),
            writes=sum(one.writes for one in chosen),
            misses={
                kind: tuple(
                    sum(one.misses[kind][level] for one in chosen) for level in range(self.levels)
                )
                for kind in KINDS
            },
            translation_misses=sum(one.translation_misses for one in chosen),
            stalls={
                name: sum(one.stalls.get(name, 0) for one in chosen)
                for name in dict.fromkeys(name for one in chosen for name in one.stalls)
            },
            stall_cycles=sum(one.stall_cycles for one in chosen),
            cycles=sum(one.cycles for one in chosen),
        )


Points = tuple[tuple[Number, Number], ...]
"""Sizes in bytes, and the misses of caches so large."""


class Side(Struct, frozen=True):
    accesses: Number
    misses: Points


class Curve(Struct, frozen=True):
    """Of caches of all sizes, for data or for instructions."""

    of: str
    line_bytes: Number
    program: Side
    manager: Side
    associative: Mapping[str, Points]


class Details(Struct, frozen=True):
    models: tuple[Simulated, ...] = ()
    curves: tuple[Curve, ...] = ()
    uncounted_processes: Number = 0
