"""Starts what studies plan, one run at a time, and keeps every outcome as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tare.base.interrupts import termination_as_interrupt
from tare.base.text import plain
from tare.campaign import canary
from tare.memory_managers.manager import Manager
from tare.observers import instrument, runner
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.results import OUTPUTS_FOLDER, Store
from tare.records.runs import Limits, Record, Run, now

OBSERVERS: dict[str, Observe] = {"runner": runner.run_once, "instrument": instrument.run_once}
"""What can watch a run of any study; studies bring others. ``Run.observer`` names one."""

Planner = Callable[[Sequence[Record]], list[Run]]
Watcher = Callable[[Run, Record | None], None]
"""Called with a run before it starts (None) and with its record once it has ended."""


@dataclass(frozen=True)
class Rig:
    """Programs, managers and observers by the names that runs have for them, and the bounds of each
    run."""

    programs: Mapping[str, Program]
    managers: Mapping[str, Manager]
    limits: Limits
    observers: Mapping[str, Observe] = field(default_factory=lambda: OBSERVERS)


def execute(
    planner: Planner, rig: Rig, store: Store, watch: Watcher, clock: canary.Clock | None = None
) -> None:
    """Do rounds of runs until ``planner`` has no more. ``clock`` says when the canary is visited
    between them.

    On Ctrl-C or SIGTERM the running program's whole tree is ended and KeyboardInterrupt goes on;
    what had finished is in the store.
    """
    with termination_as_interrupt():
        while runs := planner(store.records):
            for run in runs:
                watch(run, None)
                record = _execute_one(run, rig, store)
                store.append(record)
                watch(run, record)
                if clock is not None:
                    for visited in canary.visits(store.workspace, store.records, clock):
                        store.append(visited)


def _execute_one(run: Run, rig: Rig, store: Store) -> Record:
    program = rig.programs[run.program]
    started = now()
    outcome = rig.observers[run.observer](
        program,
        rig.managers[run.manager],
        rig.limits,
        store.workspace,
        None if program.ignore_output else kept_output(store, run),
    )
    return Record(run, outcome, started)


def kept_output(store: Store, run: Run) -> Path:
    """One kept output per program and manager."""
    name = f"{plain(run.program)}.{plain(run.manager)}.stdout"
    return store.folder / OUTPUTS_FOLDER / name
