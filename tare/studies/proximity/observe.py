"""One run of a program whose events are timed: what happened to it, and when.

There are two ways to events. In a JVM an agent times each call of the methods that are events. Any
other program tells its events itself, by ``tare/events.h``; what stopped it is then known from the
layer `marksweep`, or from its runtime.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tare.base.errors import UsageError
from tare.base.libraries import np
from tare.memory_managers import layers, runtimes
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.event_agent import MOST_EVENTS, agent_option
from tare.observers.protocol import Observer
from tare.programs import iterations, java_command
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.proximity.analysis import (
    COLLECTION,
    EVERYWHERE,
    KINDS,
    OTHER,
    Events,
    Halts,
    Ints,
    Recorded,
    halts,
    joined_events,
    read_recorded,
)

EVENTS_VARIABLE = "TARE_EVENTS"
_COUNTERS_FOLDER = "counters"
_FEWEST_EVENTS = 200
_MOST_FILES = 1000

Process = runtimes.Process | marksweep.Process


@dataclass(frozen=True)
class Pauses:
    """Pauses to put in, of ``length_ns``, 0 for none: after so many events of a thread as ``every``
    says, or midway between collections where the layer puts them in."""

    every: int = 0
    length_ns: int = 0


@dataclass
class Left:
    """What a good run left: events by process, iterations, and what stopped its processes."""

    recorded: dict[int, Recorded] = field(default_factory=dict)
    iterations: list[iterations.Iteration] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """The steady part of a run. ``stops`` is all that stopped a thread."""

    events: Events
    stops: Halts
    dropped: int
    steady: str


class Way(Protocol):
    """How the events of a program become known."""

    def prepared(self, program: Program, folder: Path, pauses: Pauses) -> Program:
        """The program as one that leaves its events in ``folder``."""

    def seen(self, left: Left) -> Seen:
        """UsageError where there is nothing to analyse."""


def timed_run(
    prepared: Callable[[Program, Path], Program],
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None,
) -> tuple[Outcome, Left]:
    """As ``runner.run_once`` of what is ``prepared``, and what the run left if it is good."""
    observer = _Observer(manager)
    with tempfile.TemporaryDirectory(prefix="events-", dir=workspace) as name:
        folder = Path(name).resolve()
        reported = folder / "iterations"
        telling = prepared(program, folder)
        variables = {**telling.environment, iterations.VARIABLE: str(reported)}
        telling = replace(telling, environment=variables)
        outcome = runner.run_once(telling, manager, limits, workspace, keep_output, observer)
        left = Left(processes=observer.processes)
        if outcome.status is Status.OK:
            left.recorded = _read_events(folder)
            if reported.exists():
                left.iterations = iterations.read_iterations(reported)
    return outcome, left


@dataclass
class _Observer(Observer):
    """Keeps what the processes of a good run showed of their collections."""

    manager: Manager
    processes: list[Process] = field(default_factory=list)

    def complete(self, folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        if self.manager.runtime is not None:
            runtime = runtimes.runtime(self.manager.runtime.runtime)
            self.processes = [*runtime.read_processes(folder / runtimes.FOLDER)]
        else:
            layer = layers.layers()[marksweep.NAME]
            self.processes = layers.read_folder(layer, folder / _COUNTERS_FOLDER)
        return outcome


def _read_events(folder: Path) -> dict[int, Recorded]:
    paths = sorted(folder.glob("events-*"))
    if len(paths) > _MOST_FILES:
        raise UsageError(f"more than {_MOST_FILES} processes wrote events")
    found = {}
    for path in paths:
        process = path.name.partition("-")[2]
        if not process.isdecimal():
            raise UsageError(f"{path.name} is not a file of events: a process writes events-PID")
        found[int(process)] = read_recorded(path, MOST_EVENTS)
    return found


def _steady_part(events: Events, stops: Halts, dropped: int, left: Left) -> Seen:
    first, steady = _steady_start(events, left.iterations)
    chosen = events.where(events.start >= first)
    if len(chosen) < _FEWEST_EVENTS:
        raise UsageError(
            f"only {len(chosen)} events after the warm-up",
            "let the program do more, or more iterations",
        )
    return Seen(chosen, stops.where(stops.end >= first), dropped, steady)


def _steady_start(events: Events, reported: Sequence[iterations.Iteration]) -> tuple[int, str]:
    """From when on the program is steady, and how that is known."""
    place = iterations.steady_from([each.wall_seconds for each in reported])
    if place is not None:
        return reported[place].start_ns, (
            f"the program was steady from iteration {place + 1} of {len(reported)} on"
        )
    half = int(events.start[len(events) // 2]) if len(events) else 0
    return half, "the first half of the events was taken for warm-up"


@dataclass(frozen=True)
class InJvm:
    """The agent times the calls of ``methods``, and puts in the pauses."""

    jar: Path
    methods: tuple[str, ...]

    def prepared(self, program: Program, folder: Path, pauses: Pauses) -> Program:
        file = folder / "events-%p"
        option = agent_option(self.jar, self.methods, file, pauses.every, pauses.length_ns)
        return java_command.with_options(program, [option])

    def seen(self, left: Left) -> Seen:
        if not any(each.methods for each in left.recorded.values()):
            raise UsageError(
                f"no class of the program has the method {' or '.join(self.methods)}",
                "check the name: a class inside another is written Outer$Inner",
            )
        pid, recorded = max(left.recorded.items(), key=lambda each: len(each[1].events))
        own = recorded.halts
        pauses = [
            pause
            for pause in _pauses_of(left, pid)
            if pause.collection != -1 or not _is_inside(own, pause.start_ns, pause.end_ns)
        ]
        stops = _halts_of_pauses(pauses).joined(own)
        return _steady_part(recorded.events, stops, recorded.dropped, left)


def _pauses_of(left: Left, pid: int) -> Sequence[runtimes.Pause]:
    for process in left.processes:
        if process.pid == pid and isinstance(process, runtimes.Process):
            return process.pauses
    raise UsageError(f"process {pid} wrote the events, but did not report its collections")


def _halts_of_pauses(pauses: Sequence[runtimes.Pause]) -> Halts:
    return halts(
        [
            (each.start_ns, each.end_ns, COLLECTION if each.collection != -1 else OTHER)
            for each in pauses
        ]
    )


def _is_inside(own: Halts, start: int, end: int) -> bool:
    """Whether a pause was put in on purpose at that time: the JVM sees a stop of all threads,
    too."""
    place = int(np.searchsorted(own.end, start))
    return place < len(own) and int(own.start[place]) <= end


@dataclass(frozen=True)
class Told:
    """The program tells its events itself. Pauses are put in by the layer `marksweep`."""

    def prepared(self, program: Program, folder: Path, pauses: Pauses) -> Program:
        variables = {**program.environment, EVENTS_VARIABLE: str(folder)}
        if pauses.length_ns:
            variables[marksweep.PAUSE_VARIABLE] = str(pauses.length_ns)
        return replace(program, environment=variables)

    def seen(self, left: Left) -> Seen:
        """Of the process that served most events."""
        writers: dict[int, list[int]] = {}
        for pid, recorded in left.recorded.items():
            writers.setdefault(recorded.server or pid, []).append(pid)
        if not writers:
            raise UsageError(
                "the program wrote no events",
                "include tare/events.h in it, or name methods of a Java program with --event",
            )
        server, telling = max(
            writers.items(), key=lambda each: sum(len(left.recorded[p].events) for p in each[1])
        )
        stops = _stops_of(left, server, serves=server not in telling)
        for pid in telling:
            if pid != server and any(process.pid == pid for process in left.processes):
                others = _stops_of(left, pid, serves=True)
                other = np.full(len(others), KINDS.index(OTHER), dtype=np.int64)
                stops = stops.joined(replace(others, kind=other))
        mine = [left.recorded[pid] for pid in telling]
        events = joined_events([each.events for each in mine])
        return _steady_part(events, stops, sum(each.dropped for each in mine), left)


def _stops_of(left: Left, pid: int, *, serves: bool) -> Halts:
    """What stopped a process; it ``serves`` events that others tell."""
    mine = [
        each for each in left.processes if each.pid == pid and isinstance(each, marksweep.Process)
    ]
    return halts_of_layer(mine, serves=serves) if mine else _halts_of_pauses(_pauses_of(left, pid))


def halts_of_layer(processes: Sequence[marksweep.Process], *, serves: bool) -> Halts:
    """What stopped a process under the layer, which may have run several programs.

    For other threads a collection is over at the end of its pause, for the one that collected when
    what was found is released. That one comes to no other event before. So the release counts only
    where the process ``serves`` events of others, or has but one thread.
    """
    stops = halts([])
    for process in processes:
        rows = np.concatenate((process.first_pauses, process.collections))
        alone = serves or process.counts.most_threads == 0
        end = np.maximum(rows["released"], rows["end"]) if alone else rows["end"]
        everywhere = np.full(len(rows), EVERYWHERE, dtype=np.int64)
        stops = stops.joined(_halts(rows["begin"], end, COLLECTION, everywhere))
        for kind, bit in marksweep.PAUSES.items():
            rows = process.pauses[process.pauses["kind"] == bit]
            everywhere = np.full(len(rows), EVERYWHERE, dtype=np.int64)
            thread = everywhere if serves or kind == "stop" else rows["thread"]
            stops = stops.joined(_halts(rows["begin"], rows["end"], kind, thread))
    return stops


def _halts(start: Ints, end: Ints, kind: str, thread: Ints) -> Halts:
    return Halts(start, end, np.full(start.size, KINDS.index(kind), dtype=np.int64), thread)


__all__ = ["InJvm", "Left", "Pauses", "Seen", "Told", "Way", "halts_of_layer", "timed_run"]
