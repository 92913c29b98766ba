"""What watches a run of `tare lbo`: what the work cost, without the pauses."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tare.memory_managers import runtimes
from tare.memory_managers.manager import Manager
from tare.memory_managers.runtimes import Pause
from tare.observers import runner
from tare.observers.protocol import Observed, Observer
from tare.programs import iterations
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studykit import replayer


@dataclass(frozen=True)
class Work:
    """The cost of what was done, and of it that while a collector had stopped the program; seconds.
    Processor times are None where they are not known."""

    wall: float
    stopped_wall: float
    cpu: float | None
    stopped_cpu: float | None

    def values(self) -> dict[str, float]:
        found = {
            "work_wall_seconds": self.wall,
            "stopped_wall_seconds": self.stopped_wall,
            "work_cpu_seconds": self.cpu,
            "stopped_cpu_seconds": self.stopped_cpu,
        }
        return {name: value for name, value in found.items() if value is not None}


def whole_run(values: Any) -> Work:
    """Of a run without iterations. A manager that stops nothing costs nothing by that."""
    stopped = values.get("collector_seconds", 0.0)
    cpu = values["user_seconds"] + values["system_seconds"]
    stopped_cpu = values.get("pause_cpu_seconds", None if stopped else 0.0)
    known = stopped_cpu is not None
    return Work(values["wall_seconds"], stopped, cpu if known else None, stopped_cpu)


def steady_work(
    reported: Sequence[iterations.Iteration], pauses: Sequence[Pause]
) -> tuple[Work, int | None]:
    """The median steady iteration, and the number of the first; without a steady part, of the last
    few. What was stopped is taken from each iteration before the median is."""
    first = iterations.steady_from([each.wall_seconds for each in reported])
    chosen = reported[first:] if first is not None else reported[-iterations.WINDOW :]
    stopped = [_stopped_in(each, pauses) for each in chosen]
    walls = [each.wall_seconds for each in chosen]
    cpus = [each.cpu_seconds for each in chosen]
    wall, cpu = median(walls), median(cpus)
    rest_wall = median(w - s[0] for w, s in zip(walls, stopped, strict=True))
    rest_cpu = median(c - s[1] for c, s in zip(cpus, stopped, strict=True))
    return Work(wall, max(wall - rest_wall, 0.0), cpu, max(cpu - rest_cpu, 0.0)), first


def _stopped_in(iteration: iterations.Iteration, pauses: Sequence[Pause]) -> tuple[float, float]:
    """Wall and processor seconds of the collector's pauses within an iteration."""
    wall = cpu = 0.0
    for pause in pauses:
        inside = min(pause.end_ns, iteration.end_ns) - max(pause.start_ns, iteration.start_ns)
        if pause.collection != -1 and inside > 0:
            wall += inside / 1e9
            cpu += (pause.cpu_ns or 0) * inside / (pause.end_ns - pause.start_ns) / 1e9
    return wall, cpu


@dataclass(frozen=True)
class _WorkObserver(Observer):
    """Adds what the work cost; ``reported`` is where a program may report its iterations."""

    reported: Path
    runtime: str

    def complete(self, folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        reported = iterations.read_iterations(self.reported) if self.reported.exists() else []
        if not reported or not self.runtime:
            # A runtime that does not tell what its pauses cost leaves that in the baseline.
            unknown = {"pause_cpu_seconds": 0.0} if self.runtime else {}
            work = whole_run({**unknown, **outcome.values})
            return replace(outcome, values={**outcome.values, **work.values()})
        processes = runtimes.runtime(self.runtime).read_processes(folder / runtimes.FOLDER)
        pauses = [pause for process in processes for pause in process.pauses]
        work, first = steady_work(reported, pauses)
        facts = {"iterations": len(reported), "steady_from": first}
        return replace(
            outcome,
            values={**outcome.values, **work.values()},
            details={**outcome.details, "work": facts},
        )


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """As ``runner.run_once``, with what the work cost."""
    with tempfile.TemporaryDirectory(prefix="iterations-", dir=workspace) as folder:
        reported = Path(folder).resolve() / "iterations.csv"
        environment = {**program.environment, iterations.VARIABLE: str(reported)}
        observer = _WorkObserver(reported, manager.runtime.runtime if manager.runtime else "")
        return runner.run_once(
            replace(program, environment=environment),
            manager,
            limits,
            workspace,
            keep_output,
            observer,
        )


def replay_once(*observed: *Observed) -> Outcome:
    """As ``replayer.run_once``, with what the allocations cost."""
    outcome = replayer.run_once(*observed)
    if outcome.status is not Status.OK:
        return outcome
    stopped = outcome.values.get("collector_seconds", 0.0)
    work = Work(outcome.values["mutator_seconds"] + stopped, stopped, None, None)
    return replace(outcome, values={**outcome.values, **work.values()})
