"""The memory system of a breakdown: stall cycles by component, simulated while the code is counted.

What happens in a phase or an operation is charged to its component. Elsewhere the simulator says at
which instruction it happened, and it is charged to the component of that instruction. Each model is
simulated a second time with its caches of data doubled, for one of the paper's upper bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.base.libraries import NDArray, np
from tare.observers import memory_system
from tare.observers.memory_details import KINDS, PROGRAM
from tare.observers.memory_model import MemoryModel
from tare.records.components import COMPONENTS, IN_COLLECTIONS, OTHER
from tare.studies.breakdown.tables import read_columns

if TYPE_CHECKING:  # loads readers of executables
    from tare.studies.breakdown.descriptor import Descriptor

DEFAULT_MODEL = "decstation-5000-200"
_DOUBLED = "+"
"""Behind a model's name, where no name of a file can have it: its caches of data are doubled."""
_COLLECTING = tuple(name for name in IN_COLLECTIONS if name != "gc_entry")
_STALLS = ("context", "model", "address", "length", "event", "count")
_SMALLEST_OBJECT_WORDS = 2
_DEFAULT_WORD = 8
_COUNTS = len(KINDS) * 4 + 1

ComponentOf = Callable[[Mapping[str, Any]], str | None]
"""Of a context with ``phases`` and ``operation``; None: it is judged by instructions."""


@dataclass(frozen=True)
class Judged:
    """One process. ``charged``: by address in the process, the component of instructions outside of
    phases and operations that are surely its own."""

    descriptor: Descriptor
    component_of: ComponentOf
    charged: Mapping[int, str]


def load(names: Sequence[str]) -> tuple[MemoryModel, ...]:
    """The models to simulate, by their names; UsageError where one is not right."""
    return memory_system.how(names, curves=False).models if names else ()


def describe(models: Sequence[MemoryModel]) -> list[dict[str, Any]]:
    """The models, for run.json."""
    return [asdict(model) for model in models]


def doubled(model: MemoryModel) -> MemoryModel:
    """With twice the sets in each cache that holds data."""
    caches = tuple(
        cache if cache.holds == "instructions" else replace(cache, sets=2 * cache.sets)
        for cache in model.caches
    )
    return replace(model, name=model.name + _DOUBLED, caches=caches)


def simulated(models: Sequence[MemoryModel]) -> tuple[MemoryModel, ...]:
    """All that one run simulates: each model, and behind it the doubled one."""
    return tuple(each for model in models for each in (model, doubled(model)))


def simulator_text(models: Sequence[MemoryModel], descriptors: Sequence[Descriptor]) -> str:
    """What the tool's option --memsys reads."""
    phases = {
        f"{descriptor.family}:{phase.name}": phase.component
        for descriptor in descriptors
        for phase in descriptor.phases
    }
    collecting = [name for name, component in phases.items() if component in _COLLECTING]
    collector = [name for name, component in phases.items() if component in IN_COLLECTIONS]
    lines = [
        "by-instruction",
        *(f"collecting {name}" for name in collecting or ["-"]),
        *(f"collector {name}" for name in collector),
    ]
    return (
        memory_system.simulator_text(memory_system.How(simulated(models))) + "\n".join(lines) + "\n"
    )


@dataclass
class Memory:
    """What all processes of a run met. ``counts``: of each model that was simulated, by component,
    as in ``memory_system.Events.counts``."""

    folder: Path
    models: tuple[MemoryModel, ...]
    counts: list[dict[str, list[int]]] = field(default_factory=list)
    totals: memory_system.Events = field(default_factory=memory_system.Events)
    before: memory_system.Events = field(default_factory=memory_system.Events)
    after: memory_system.Events = field(default_factory=memory_system.Events)
    collections: int = 0
    word: int = _DEFAULT_WORD

    def __post_init__(self) -> None:
        self.counts = [{name: [0] * _COUNTS for name in COMPONENTS} for _ in simulated(self.models)]

    def add_process(self, name: str, judged: Judged) -> None:
        """The process whose file of code has this name."""
        path = self.folder / name
        found = memory_system.read_file(path, memory_system.How(simulated(self.models)))
        by_instruction = [self._add_context(context, judged) for context in found["contexts"]]
        self._move_to_instructions(path.with_suffix(".stalls"), by_instruction, judged.charged)
        self.before.add(found["before_collections"])
        self.after.add(found["after_collections"])
        self.collections += found["collections"]
        if judged.descriptor.allocation is not None:
            self.word = min(self.word, judged.descriptor.allocation.word)

    def _add_context(self, context: Mapping[str, Any], judged: Judged) -> bool:
        """Whether it is judged by instructions; so far all of it is ``other``."""
        operation = context["operation"]
        if operation == memory_system.PROOF:
            return False
        self.totals.add(context)
        phases = {
            "phases": context["phase"],
            "operation": "" if operation == PROGRAM else operation,
        }
        component = judged.component_of(phases)
        for mine, more in zip(self.counts, context["models"], strict=True):
            _add(mine[component or OTHER], more)
        return component is None

    def _move_to_instructions(
        self, path: Path, by_instruction: Sequence[bool], charged: Mapping[int, str]
    ) -> None:
        """What happened at instructions of a component is taken from ``other``."""
        if not charged:
            return
        rows = read_columns(path, "stalls", _STALLS)
        chosen = np.array(by_instruction, bool)[rows["context"].astype(np.int64)]
        addresses = rows["address"][chosen]
        models, events, counts = (
            rows[name][chosen].astype(np.int64) for name in ("model", "event", "count")
        )
        for component, its_addresses in _by_component(charged).items():
            here = np.isin(addresses, its_addresses)
            for number, mine in enumerate(self.counts):
                of_model = here & (models == number)
                moved = np.zeros(_COUNTS, np.int64)
                np.add.at(moved, events[of_model], counts[of_model])
                _add(mine[component], moved.tolist())
                _add(mine[OTHER], (-moved).tolist())

    def details(
        self, instructions: Mapping[str, int], allocated_bytes: int
    ) -> list[dict[str, Any]]:
        """Of each model; ``instructions`` are those that are surely of a component.

        ``components``: by name ``instructions``, ``cycles`` of instructions that wait for nothing,
        and ``stalls`` by what is waited for. ``doubled_stalls``: the same with larger caches of
        data. ``reads``, ``writes``: of all. ``allocated_words``: taken in line. ``before``,
        ``after``: ``reads`` of the program around ``collections``, and those that the first level
        did not hold. ``objects_in_a_read``: how many of the smallest objects, without headers, a
        read miss can bring in.
        """
        return [
            {
                "name": model.name,
                "title": model.title,
                "components": {
                    name: {
                        "instructions": instructions[name],
                        "cycles": instructions[name] * model.cycles_per_instruction,
                        "stalls": memory_system.stalls(model, self.counts[2 * number][name]),
                    }
                    for name in COMPONENTS
                },
                "doubled_stalls": {
                    name: memory_system.stalls(model, self.counts[2 * number + 1][name])
                    for name in COMPONENTS
                },
                "reads": self.totals.reads,
                "writes": self.totals.writes,
                "allocated_words": allocated_bytes // self.word,
                "collections": self.collections,
                "before": _read_misses(self.before, 2 * number),
                "after": _read_misses(self.after, 2 * number),
                "objects_in_a_read": max(
                    _SMALLEST_OBJECT_WORDS,
                    model.cache(1, "data").read_fetch // (_SMALLEST_OBJECT_WORDS * self.word),
                ),
            }
            for number, model in enumerate(self.models)
        ]


def _add(to: list[int], more: Sequence[int]) -> None:
    to[:] = [a + b for a, b in zip(to, more, strict=True)]


def _by_component(charged: Mapping[int, str]) -> dict[str, NDArray[np.uint64]]:
    addresses: dict[str, list[int]] = {}
    for address, component in charged.items():
        addresses.setdefault(component, []).append(address)
    return {component: np.array(many, np.uint64) for component, many in addresses.items()}


def _read_misses(events: memory_system.Events, model: int) -> dict[str, int]:
    missed = memory_system.misses(events.counts[model], "read", 1) if events.counts else 0
    return {"reads": events.reads, "misses": missed}
