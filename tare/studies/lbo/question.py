"""What collectors cost at least: a program, or a replay of its heap trace, under each collector in
heaps of several sizes, against a baseline distilled from all of them.

After Cai, Blackburn, Bond and Maas, "Distilling the Real Cost of Production Garbage Collectors",
ISPASS 2022.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tare.base.errors import UsageError
from tare.campaign.executor import OBSERVERS
from tare.campaign.session import (
    Command,
    Where,
    check_counts,
    in_rounds,
    managers_of,
    measure,
    programs_of,
)
from tare.campaign.watching import Watcher
from tare.heap_traces.schedule import How
from tare.heap_traces.trace import open_trace
from tare.memory_managers import runtimes, suitable
from tare.memory_managers.manager import Manager, parse_name, resolve
from tare.memory_managers.mmtk import HEAP
from tare.memory_managers.runtimes import Pause, jvm
from tare.observers import runner
from tare.programs import iterations
from tare.programs.program import Program
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.results import Results, default_folder
from tare.records.runs import Limits, Outcome
from tare.studies.lbo import report as study
from tare.studies.tradeoff.question import in_heap as replayed_in_heap
from tare.studies.tradeoff.question import slow
from tare.studykit import replayer as replay
from tare.studykit.least_heap.executed import HIGH, UNIT, in_heap, minheap_executed
from tare.studykit.replays import measure_replays, prepare
from tare.studykit.sweeps import checked_heaps

DEFAULT_HEAPS = (1.5, 2.0, 3.0, 4.0, 6.0)
DEFAULT_REPLAYED = ("immix", "genimmix", "semispace", "glibc")
SLOW = 10.0
"""A run that takes so many times the wall time of the least heap is ended."""
_LEAST_TIMEOUT_SECONDS = 30.0
REFERENCE = f"{jvm.NAME}.{jvm.REFERENCE}"
"""Of JVMs, the collector whose least heap is the unit of heaps."""
_EPSILON = f"{jvm.NAME}.{jvm.OFF}"
"""Is given a heap for all that is allocated. Other collectors that never collect need none."""
_EPSILON_SPARE = 1.25
"""Of the bytes allocated under the reference: some differ from run to run."""
_STEPS_IN_LEAST_HEAP = 2
"""Trials at each end of the reference's least heap."""


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
class _WorkObserver:
    """Adds what the work cost; ``reported`` is where a program may report its iterations."""

    reported: Path
    runtime: str

    def prefix(self, _folder: Path) -> Sequence[str]:
        return ()

    def hosts(self, _executable: str) -> bool:
        return False

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


def replay_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """As ``replay.run_once``, with what the allocations cost."""
    outcome = replay.run_once(program, manager, limits, workspace, keep_output)
    if outcome.status is not Status.OK:
        return outcome
    stopped = outcome.values.get("collector_seconds", 0.0)
    work = Work(outcome.values["mutator_seconds"] + stopped, stopped, None, None)
    return replace(outcome, values={**outcome.values, **work.values()})


def lbo(
    program: Command,
    managers: Sequence[str] = (),
    *,
    heaps: Sequence[float] = DEFAULT_HEAPS,
    least_heap: int | None = None,
    runs: int = 6,
    warmup: int = 1,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """What collectors cost a program at least, in ``heaps``, multiples of ``least_heap`` bytes.

    Without ``least_heap`` that of the runtime's collector that needs least is sought first, in a
    results folder beside.
    Managers whose heap cannot be set take part as they are. ``folder`` is as for ``tare.compare``.
    """
    check_counts(runs, warmup)
    heaps = checked_heaps(heaps, "the least heap")
    (chosen,) = programs_of(program)
    names = list(dict.fromkeys(managers or runtimes.running(chosen).SWEEP))
    varied = [name for name in names if _has_heap(resolve(name))]
    suitable.check([chosen], [resolve(in_heap(name, UNIT)) for name in varied])
    where = Path(folder) if folder else default_folder(study.STUDY, Path(chosen.argv[0]).name)
    limits = limits or Limits()
    found: dict[str, float] = {}
    reference = _reference(varied)
    if varied and least_heap is None:
        found = _least_heap(chosen, reference, where, seed, limits, watcher)
        least_heap = round(found[HIGH])
    points = [
        study.Point(in_heap(name, _whole(heap * (least_heap or 0))), name, heap)
        for name in varied
        for heap in heaps
    ]
    points += [study.Point(name, name, None) for name in names if name not in varied]
    if epsilon := _epsilon(found) if reference == REFERENCE and not managers else "":
        points.append(study.Point(epsilon, _EPSILON, None))
    resolved, baseline = managers_of([point.manager for point in points], points[0].manager)
    if limits.timeout_seconds is None and found:
        seconds = max(_LEAST_TIMEOUT_SECONDS, SLOW * found["wall_seconds"])
        limits = replace(limits, timeout_seconds=seconds)

    return measure(
        study.STUDY,
        "costs of collectors",
        [chosen],
        resolved,
        baseline,
        {"heaps": list(heaps), "least_heap": least_heap, "runs": runs, "warmup": warmup},
        in_rounds(study, [chosen], resolved, baseline, runs, warmup),
        Where(seed, limits, where, watcher),
        {**OBSERVERS, study.OBSERVER: run_once},
        points=[asdict(point) for point in points],
        unit=f"the least heap of {reference}" if found else "the least heap given",
        least_heap_bytes=least_heap,
    )


def _has_heap(manager: Manager) -> bool:
    """Whether the heap of the manager is one that the study varies."""
    if manager.runtime is None or not runtimes.has_heap(manager.runtime):
        return False
    if HEAP in manager.runtime.options:
        raise UsageError(f"{manager.name}: the heap is what varies", "leave out heap=, see --heaps")
    return True


def _reference(varied: Sequence[str]) -> str:
    """The collector whose least heap is the unit of heaps: the one of the runtime that needs least.
    "" where no heap varies."""
    setting = resolve(varied[0]).runtime if varied else None
    if setting is None:
        return ""
    return f"{setting.runtime}.{runtimes.runtime(setting.runtime).REFERENCE}"


def _least_heap(
    program: Program,
    reference: str,
    where: Path,
    seed: int | None,
    limits: Limits,
    watcher: Watcher | None,
) -> dict[str, float]:
    """What the run in the least heap of the reference showed."""
    from tare.records.results import read_records

    results = minheap_executed(
        program,
        [reference],
        repeats=_STEPS_IN_LEAST_HEAP,
        seed=seed,
        limits=limits,
        folder=where.with_name(f"{where.name}-least-heap"),
        watcher=watcher,
    )
    (record,) = read_records(results.folder)
    if record.outcome.status is not Status.OK:
        raise UsageError(
            f"no least heap of {reference} was found: {record.outcome.reason}",
            f"see {results.folder}; or give one: --least-heap 64MiB",
        )
    return dict(record.outcome.values)


def _whole(size: float) -> int:
    return math.ceil(size / UNIT) * UNIT


def _epsilon(found: dict[str, float]) -> str:
    """The manager that never collects, where what is allocated fits into a quarter of memory."""
    allocated = found.get("heap_allocated_bytes")
    if allocated is None:
        return ""
    rounded_off = found["collections"] * UNIT  # logs of the JVM are in whole MiB
    size = _whole((allocated + rounded_off) * _EPSILON_SPARE + UNIT)
    if size > describe_machine()["memory_bytes"] // 4:
        return ""
    return in_heap(_EPSILON, size)


def lbo_replayed(
    trace: Path | str,
    managers: Sequence[str] = (),
    *,
    heaps: Sequence[float] = DEFAULT_HEAPS,
    how: How | None = None,
    runs: int = 6,
    warmup: int = 1,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """As ``lbo``, of the allocations of a heap trace; ``heaps`` are multiples of the most bytes
    that it has alive at one moment. Only wall time is known."""
    check_counts(runs, warmup)
    heaps = checked_heaps(heaps, "the most bytes alive")
    prepared = prepare(open_trace(trace), how or How(), study.STUDY, folder, watcher)
    live = prepared.counted["peak_bytes"]
    points = []
    for name in dict.fromkeys(managers or DEFAULT_REPLAYED):
        if not resolve(name, replays=True).replayer:
            points.append(study.Point(name, name, None))
            continue
        if "heap" in parse_name(name)[1]:
            raise UsageError(f"{name}: the heap is what varies", "leave out heap=, see --heaps")
        points += [
            study.Point(replayed_in_heap(name, int(heap * live)), name, heap) for heap in heaps
        ]
    resolved, baseline = replay.managers_of([point.manager for point in points], points[0].manager)
    limits = limits or Limits()
    if limits.timeout_seconds is None:
        limits = replace(limits, timeout_seconds=slow(prepared.counted))
    return measure_replays(
        prepared,
        study,
        "replaying",
        resolved,
        baseline,
        runs,
        warmup,
        seed,
        limits,
        replay_once,
        points=[asdict(point) for point in points],
        unit="the most bytes alive at one moment",
        least_heap_bytes=live,
    )


__all__ = ["DEFAULT_HEAPS", "Work", "lbo", "lbo_replayed", "run_once", "steady_work", "whole_run"]
