"""One run whose instructions are charged to the components of storage management."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.event_files import Events
from tare.observers.instrument import Instrument
from tare.observers.memory_model import MemoryModel
from tare.observers.protocol import Observe, Observed
from tare.programs.program import Program
from tare.records.components import cycles_metric
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.breakdown import perf_map
from tare.studies.breakdown.descriptor import Descriptor
from tare.studies.breakdown.found import Found
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.memory import Memory, simulator_text
from tare.studies.breakdown.perf_map import Pieces
from tare.studies.breakdown.processes import read_folder
from tare.studies.breakdown.runtime_of import choose, executable_image, telling_of_code


@dataclass(frozen=True)
class How:
    """``runtime`` names the descriptor to go by; "" lets that be found out."""

    runtime: str
    models: tuple[MemoryModel, ...]


def observer(runtime: str = "", models: tuple[MemoryModel, ...] = ()) -> Observe:
    """What the executor starts for a run."""
    return functools.partial(run_once, how=How(runtime, models))


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    how: How | None = None,
) -> Outcome:
    """Run ``program`` under ``manager`` and charge its instructions; see ``runner.run_once``.

    ``values`` of a good outcome have a metric for each component, which sum to ``instructions``,
    and ``integer_tag_high_instructions``. ``details`` is what ``Found.details`` says, with
    ``wall_seconds``, ``processes`` and ``uncounted_processes``.

    With models the memory system is simulated in the same run: ``values`` also have
    ``stall_cycles``, ``simulated_cycles`` and the cycles of each component, which sum to these, in
    the first model; ``memory`` in ``details`` is what ``Memory.details`` says of all.
    """
    runtime, models = (how.runtime, how.models) if how else ("", ())
    image = executable_image(program)
    descriptors = choose(program, image, runtime)
    given = descriptors[0] if runtime else None
    started = telling_of_code(program, descriptors)
    text = simulator_text(models, descriptors) if models else ""
    workspace.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="code-", dir=workspace) as folder:
        code = Path(folder).resolve()
        counter = _Counter(_events(descriptors, image), given, code, models, text)
        try:
            return runner.run_once(started, manager, limits, workspace, keep_output, counter)
        finally:
            counter.take_made_code()


def count_pages(*observed: *Observed) -> Outcome:
    """Run a program by itself, for what the kernel does: see ``runner.run_once``.

    ``values`` of a good outcome are page faults; ``details`` the ``user_seconds`` and
    ``system_seconds``, of this one run.
    """
    outcome = runner.run_once(*observed)
    if outcome.status is not Status.OK:
        return outcome
    return replace(
        outcome,
        values={name: outcome.values[name] for name in ("minor_faults", "major_faults")},
        details={name: outcome.values[name] for name in ("user_seconds", "system_seconds")},
    )


class _Counter(Instrument):
    """``code``: where the tool writes what was executed."""

    def __init__(
        self,
        events: Events,
        given: Descriptor | None,
        code: Path,
        models: tuple[MemoryModel, ...],
        simulator_text: str,
    ) -> None:
        super().__init__(events=events)
        self._given = given
        self._code = code
        self._models = models
        self._simulator_text = simulator_text
        self._since = time.time()

    def prefix(self, folder: Path) -> Sequence[str]:
        asked = [*super().prefix(folder), f"--code-folder={self._code}"]
        if self._models:
            memsys, description = folder / "memsys", folder / "models"
            memsys.mkdir()
            description.write_text(self._simulator_text)
            asked += [f"--memsys={description.resolve()}", f"--memsys-folder={memsys.resolve()}"]
        return asked

    def complete(self, folder: Path, pids: Collection[int], outcome: Outcome) -> Outcome:
        counted = super().complete(folder, pids, outcome)
        if counted.status is not Status.OK:
            return counted
        memory = Memory(folder / "memsys", self._models) if self._models else None
        found = read_folder(self._code, self._given, self.take_made_code(), memory)
        return add_up(found, counted)

    def take_made_code(self) -> dict[int, Pieces]:
        """What processes that have ended told of the code that they made; their files are removed,
        also those of runs that failed."""
        pids = {int(path.name.partition(".")[0]) for path in self._code.glob("*.json")}
        return {pid: perf_map.take(pid, self._since) for pid in pids}


def _events(descriptors: Sequence[Descriptor], image: Image | None) -> Events:
    named = (
        replace(event, name=f"{descriptor.family}:{event.name}")
        for descriptor in descriptors
        for event in descriptor.events(image)
    )
    return tuple(dict.fromkeys(named))


def add_up(found: Found, counted: Outcome) -> Outcome:
    """``counted``, the outcome of a count, with the components as its values."""
    instructions = int(counted.values["instructions"])
    if found.instructions != instructions:
        reason = (
            f"the components sum to {found.instructions:,} of {instructions:,} instructions: "
            "a process was killed while it wrote its counts, or Tare has a fault"
        )
        return replace(counted, status=Status.FAILED, reason=reason, values={}, details={})
    kept = ("wall_seconds", "processes", "uncounted_processes")
    values, details = found.values(), found.details()
    if found.memory is not None:
        details["memory"] = found.memory.details(found.sure(), found.allocated_bytes)
        values |= _cycles(details["memory"][0])
    return replace(
        counted,
        values={"instructions": instructions, **values, "processes": counted.values["processes"]},
        details={**{name: counted.details[name] for name in kept}, **details},
    )


def _cycles(model: Mapping[str, Any]) -> dict[str, float]:
    stalls = {name: sum(one["stalls"].values()) for name, one in model["components"].items()}
    cycles = {name: one["cycles"] + stalls[name] for name, one in model["components"].items()}
    return {
        "simulated_cycles": sum(cycles.values()),
        "stall_cycles": sum(stalls.values()),
        **{cycles_metric(name): spent for name, spent in cycles.items()},
    }
