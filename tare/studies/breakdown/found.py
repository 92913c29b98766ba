"""What the processes of a run did, by component."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from tare.observers.instrument import Operation
from tare.records.components import COMPONENTS, COUNTING, MALLOC, OTHER, Certainty, metric
from tare.studies.breakdown.descriptor import shipped
from tare.studies.breakdown.memory import Memory

QUICKEST = 0.1
"""Of the calls of an operation, the share by which it is judged how quick one can be."""
_MOST_OBJECTS_SHOWN = 8


@dataclass(frozen=True)
class Calls:
    """Of one operation of malloc's family. ``quick``: the instructions of its calls, but of none
    more than the quickest tenth of those that served an object take; ``slow``: all others."""

    calls: int = 0
    quick: int = 0
    slow: int = 0

    @staticmethod
    def of(operation: Operation, instructions: int) -> Calls:
        """``instructions`` are those of all calls, as they were counted one by one."""
        quickest = _quickest(operation)
        quick = sum(calls * min(low, quickest) for low, calls in operation["histogram"])
        quick = min(quick, instructions)
        return Calls(operation["calls"], quick, instructions - quick)

    def __add__(self, other: Calls) -> Calls:
        return Calls(self.calls + other.calls, self.quick + other.quick, self.slow + other.slow)


def _quickest(operation: Operation) -> int:
    """What the quickest tenth of the calls that served an object do not exceed. free(NULL), which
    serves none, is quicker than any of them."""
    without_object = operation["no_object"]
    wanted = without_object + (operation["calls"] - without_object) * QUICKEST
    seen = 0
    for low, calls in operation["histogram"]:
        seen += calls
        if seen >= wanted:
            return int(low)
    return 0


@dataclass
class Found:
    """What all processes of a run did. Numbers are of instructions.

    ``components`` by name and certainty; ``unexplained`` are those in code that no rule is about,
    by object file; ``runtimes`` the instructions of processes by the runtime in them; ``calls`` by
    operation, where quick and slow ones are told apart; ``allocated_bytes`` what was taken in line;
    ``updates`` how often counts of references were written, by component and whether atomically.
    """

    components: Counter[tuple[str, Certainty]] = field(default_factory=Counter)
    own: int = 0
    unexplained: Counter[str] = field(default_factory=Counter)
    runtimes: Counter[str] = field(default_factory=Counter)
    calls: dict[str, Calls] = field(default_factory=dict)
    updates: Counter[tuple[str, bool]] = field(default_factory=Counter)
    sites: int = 0
    tiled_sites: int = 0
    checked_sites: int = 0
    agreeing_sites: int = 0
    allocated_bytes: int = 0
    memory: Memory | None = None

    @property
    def instructions(self) -> int:
        return self.components.total() + self.own + self.unexplained.total()

    def of(self, component: str, *certainties: Certainty) -> int:
        return sum(self.components[component, certainty] for certainty in certainties)

    def sure(self) -> dict[str, int]:
        """By component, its low bound; ``other`` has the rest."""
        sure = {name: self.of(name, Certainty.SURE) for name in COMPONENTS if name != OTHER}
        return {**sure, OTHER: self.instructions - sum(sure.values())}

    def values(self) -> dict[str, float]:
        return {
            **{metric(name): instructions for name, instructions in self.sure().items()},
            "unexplained_instructions": self.unexplained.total(),
            "integer_tag_high_instructions": self.of("integer_tag", *Certainty),
        }

    def details(self) -> dict[str, Any]:
        """``components``: by name, instructions that are ``sure``, ``ambiguous`` and ``folded``;
        ``own``: those of the language's code that are no storage management; ``unexplained``: by
        object file; ``runtimes``, and the ``titles`` of those but malloc; ``calls``: of malloc's
        operations, with their ``quick`` and ``slow`` instructions; ``updates``: of counts of
        references, ``all`` and the ``atomic`` ones; ``sites``: places that
        allocate, how many of them have headers that tile what they take, how many the runtime's own
        tables tell of, and how many agree."""
        return {
            "components": {
                name: {str(certainty): self.of(name, certainty) for certainty in Certainty}
                for name in COMPONENTS
                if name != OTHER
            },
            "own": self.own,
            "unexplained": dict(self.unexplained.most_common(_MOST_OBJECTS_SHOWN)),
            "runtimes": dict(self.runtimes),
            "titles": [shipped()[name].title for name in self.runtimes if name != MALLOC],
            "calls": {name: asdict(calls) for name, calls in self.calls.items()},
            "updates": {
                name: {"all": plain + atomic, "atomic": atomic}
                for name in COUNTING
                if (plain := self.updates[name, False]) + (atomic := self.updates[name, True])
            },
            "sites": {
                "all": self.sites,
                "tiled": self.tiled_sites,
                "checked": self.checked_sites,
                "agreeing": self.agreeing_sites,
            },
        }
