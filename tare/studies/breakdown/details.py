"""What the record of a breakdown holds beyond its values; ``observe`` and ``memory`` say how."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, structs

from tare.records.components import COMPONENTS, OTHER
from tare.records.header import Amount
from tare.records.runs import Number


class Spent(Struct, frozen=True):
    """Of one component."""

    instructions: Number
    cycles: Amount
    stalls: Mapping[str, Amount]


class ReadMisses(Struct, frozen=True):
    reads: Number
    misses: Number


class Model(Struct, frozen=True):
    """What happened in one model of a memory system."""

    name: str
    components: Mapping[str, Spent]
    doubled_stalls: Mapping[str, Mapping[str, Amount]]
    reads: Number
    writes: Number
    allocated_words: Number
    collections: Number
    before: ReadMisses
    after: ReadMisses
    objects_in_a_read: Number

    def __post_init__(self) -> None:
        """Of components that an earlier Tare did not know, nothing."""
        none = dict.fromkeys(self.components[OTHER].stalls, 0) if OTHER in self.components else {}
        components = {**dict.fromkeys(COMPONENTS, Spent(0, 0, none)), **self.components}
        structs.force_setattr(self, "components", components)
        doubled = {**dict.fromkeys(COMPONENTS, none), **self.doubled_stalls}
        structs.force_setattr(self, "doubled_stalls", doubled)


class Sites(Struct, frozen=True):
    all: Number = 0
    tiled: Number = 0
    checked: Number = 0
    agreeing: Number = 0


class Updates(Struct, frozen=True):
    """How often counts of references were written."""

    all: Number
    atomic: Number


class Details(Struct, frozen=True, kw_only=True):
    components: Mapping[str, Mapping[str, Number]] = {}
    unexplained: Mapping[str, Number] = {}
    titles: tuple[str, ...] = ()
    calls: Mapping[str, Mapping[str, Amount]] = {}
    updates: Mapping[str, Updates] = {}
    sites: Sites = Sites()
    uncounted_processes: Number = 0
    memory: tuple[Model, ...] = ()
