"""Latency of events against the distance to the preceding collection.

An invocation is two runs of the program under one collector: one as it is, and one in which pauses
as long as the collections' were put in, which are controls. Both times an agent in the JVM times
each call of a chosen method. ``tare.proximity_events`` holds the analysis.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tare import iterations, jvm_command, measuring, runner, runtimes
from tare.errors import UsageError
from tare.event_agent import MOST_EVENTS, agent_jar, agent_option
from tare.manager import Manager
from tare.measurement import Status
from tare.planning import Plan, planned_runs
from tare.program import Program, hash_file
from tare.proximity_events import (
    APART,
    COLLECTION,
    CONTROLS,
    KINDS,
    OTHER,
    RANKS,
    Bools,
    Events,
    Halts,
    Ints,
    Recorded,
    after,
    distances,
    extremes,
    fakes,
    groups,
    halts,
    interrupted,
    medians,
    read_recorded,
    relative,
)
from tare.runner import Limits, Outcome
from tare.runtimes import Process
from tare.runtimes.jvm import read_processes
from tare.studies import proximity as study

if TYPE_CHECKING:
    from tare.executor import Observe
    from tare.results import Results

DEFAULT_MANAGERS = ("jvm.serial", "jvm.g1")
MOST_METHODS = 20
_NAME = r"[A-Za-z_$][\w$]*"
_EVENT = re.compile(rf"(@{_NAME}|{_NAME}\.{_NAME})(\.{_NAME})*")
_CONTROLS_OF_A_KIND = 300
"""Pauses of each kind that are put into the steady part of a run, where it has room for them."""
_MOST_FAKES = 5000
_FEWEST_COLLECTIONS = 5
_FEWEST_EVENTS = 200


def proximity(
    program: measuring.Command,
    events: Sequence[str],
    managers: Sequence[str] = (),
    *,
    runs: int = 3,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: measuring.Watcher | None = None,
) -> Results:
    """How long calls of the methods ``events`` take, by how far they are from the collection before
    them; ``managers`` are collectors of a JVM. ``folder`` is as for ``tare.compare``.

    A method is ``package.Class.method``, or ``@package.Annotation`` for all that have it.
    """
    from tare.executor import OBSERVERS

    measuring.check_counts(runs, 0)
    _check_events(events)
    programs = measuring.programs_of(program)
    names = list(managers) or list(DEFAULT_MANAGERS)
    resolved, baseline = measuring.managers_of(names, names[0])
    for manager in resolved.values():
        if manager.runtime is None:
            raise UsageError(
                f"{manager.name} is no collector of a JVM",
                "give one that is, like -m jvm.serial or -m 'jvm.parallel(period=16MiB)'",
            )
    watcher = watcher or measuring.Watcher()
    jar = agent_jar(watcher.note)
    plan = Plan(tuple(each.name for each in programs), tuple(resolved), runs)
    planned = measuring.Planned(lambda records: study.next_round(plan, records), planned_runs(plan))
    return measuring.measure(
        study.STUDY,
        "pairs of runs",
        programs,
        resolved,
        baseline,
        {"events": list(events), "runs": runs, "agent_sha256": hash_file(jar)},
        lambda _seed: planned,
        measuring.Where(seed, limits, folder, watcher),
        {**OBSERVERS, study.OBSERVER: observe(jar, tuple(events))},
    )


def _check_events(events: Sequence[str]) -> None:
    if not 1 <= len(events) <= MOST_METHODS:
        raise UsageError(
            f"give 1 to {MOST_METHODS} methods that are events",
            "like --event org.example.Search.query",
        )
    for event in events:
        if not _EVENT.fullmatch(event):
            raise UsageError(
                f"'{event}' is no method",
                "write it like org.example.Search.query, or @org.example.Timed for an annotation",
            )


def observe(jar: Path, events: tuple[str, ...]) -> Observe:
    """What does the two runs of an invocation, as an observer of the executor."""

    def run_once(
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        plain = _Timed(jar, events)
        outcome = plain.run(program, manager, limits, workspace, keep_output)
        if outcome.status is not Status.OK:
            return replace(outcome, values={}, details={})
        try:
            seen = plain.seen()
            every, length = _controls(seen)
            paused = _Timed(jar, events, every, length)
            second = paused.run(program, manager, limits, workspace, keep_output)
            if second.status is not Status.OK:
                return replace(second, values={}, details={})
            values, details = _analysed(seen, paused.seen())
        except UsageError as error:
            hint = f"; {error.hint}" if error.hint else ""
            reason = f"{error.message}{hint}"
            return replace(outcome, status=Status.FAILED, reason=reason, values={}, details={})
        return replace(outcome, values=values, details={**details, "every": every})

    return run_once


@dataclass(frozen=True)
class _Seen:
    """The steady part of a run. ``stops`` is all that stopped a thread."""

    events: Events
    stops: Halts
    dropped: int
    steady: str


@dataclass
class _Timed:
    """One run with the agent: the runner's observer, which keeps what the JVM left."""

    jar: Path
    methods: tuple[str, ...]
    every: int = 0
    length_ns: int = 0
    _processes: list[Process] = field(default_factory=list)
    _recorded: dict[int, Recorded] = field(default_factory=dict)
    _iterations: list[iterations.Iteration] = field(default_factory=list)

    def run(
        self,
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None,
    ) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="events-", dir=workspace) as name:
            folder = Path(name).resolve()
            option = agent_option(
                self.jar, self.methods, folder / "events-%p", self.every, self.length_ns
            )
            told = folder / "iterations"
            timed = jvm_command.with_options(program, [option])
            variables = {**timed.environment, iterations.VARIABLE: str(told)}
            timed = replace(timed, environment=variables)
            outcome = runner.run_once(timed, manager, limits, workspace, keep_output, self)
            if outcome.status is Status.OK:
                for path in folder.glob("events-*"):
                    process = int(path.name.partition("-")[2])
                    self._recorded[process] = read_recorded(path, MOST_EVENTS)
                if told.exists():
                    self._iterations = iterations.read_iterations(told)
        return outcome

    def prefix(self, folder: Path) -> Sequence[str]:  # noqa: ARG002
        return ()

    def hosts(self, executable: str) -> bool:  # noqa: ARG002
        return False

    def complete(self, folder: Path, pids: Collection[int], outcome: Outcome) -> Outcome:  # noqa: ARG002
        self._processes = read_processes(folder / runtimes.FOLDER)
        return outcome

    def seen(self) -> _Seen:
        """UsageError where there is nothing to analyse."""
        if not any(each.methods for each in self._recorded.values()):
            raise UsageError(
                f"no class of the program has the method {' or '.join(self.methods)}",
                "check the name: a class inside another is written Outer$Inner",
            )
        pid, recorded = max(self._recorded.items(), key=lambda each: len(each[1].events))
        process = next((each for each in self._processes if each.pid == pid), None)
        if process is None:
            raise UsageError("the JVM of the events did not show its collections")
        own = recorded.halts
        first, steady = self._steady(recorded.events)
        pauses = halts(
            [
                (each.start_ns, each.end_ns, COLLECTION if each.collection != -1 else OTHER)
                for each in process.pauses
                if each.collection != -1 or not _is_inside(own, each.start_ns, each.end_ns)
            ]
        )
        stops = pauses.joined(own)
        events = recorded.events.where(recorded.events.start >= first)
        if len(events) < _FEWEST_EVENTS:
            raise UsageError(
                f"only {len(events)} events after the warm-up",
                "let the program do more, in more iterations if it has such",
            )
        return _Seen(events, stops.where(stops.end >= first), recorded.dropped, steady)

    def _steady(self, events: Events) -> tuple[int, str]:
        """From when on the program is steady, and how that is known."""
        walls = [each.wall_seconds for each in self._iterations]
        place = iterations.steady_from(walls)
        if place is not None:
            return self._iterations[place].start_ns, (
                f"the program was steady from iteration {place + 1} of {len(walls)} on"
            )
        half = int(events.start[len(events) // 2]) if len(events) else 0
        return half, "the first half of the events was taken for warm-up"


def _is_inside(own: Halts, start: int, end: int) -> bool:
    """Whether a pause was put in on purpose at that time: a safepoint is seen by the JVM, too."""
    place = int(np.searchsorted(own.end, start))
    return place < len(own) and int(own.start[place]) <= end


def _controls(seen: _Seen) -> tuple[int, int]:
    """After how many events of a thread there is to be a pause, and of how many ns."""
    collections = seen.stops.of(COLLECTION)
    if len(collections) < _FEWEST_COLLECTIONS:
        raise UsageError(
            f"only {len(collections)} pauses for collections after the warm-up",
            "give a smaller heap or young generation, or a period: -m 'jvm.serial(period=16MiB)'",
        )
    busiest = int(np.unique(seen.events.thread, return_counts=True)[1].max())
    every = max(busiest // (len(CONTROLS) * _CONTROLS_OF_A_KIND), APART + RANKS + 1)
    return every | 1, int(np.median(collections.end - collections.start))


def _analysed(plain: _Seen, paused: _Seen) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics, and what the study shows beside them."""
    curves = {
        study.NULL: _null(plain),
        study.COLLECTION: _curves(plain, COLLECTION),
        **{kind: _curves(paused, kind) for kind in CONTROLS},
        study.AGAIN: _curves(paused, COLLECTION),
    }
    cut = interrupted(plain.events, plain.stops)
    collections = plain.stops.of(COLLECTION)
    values: dict[str, float] = {
        "events": len(plain.events),
        "interrupted_events": int(cut.sum()),
        "pauses": len(collections),
    }
    for clock, suffix in (("wall", ""), ("cpu", "_cpu")):
        for rank in study.RANKS:
            point = curves[study.COLLECTION][clock][rank - 1]
            if point is not None:
                values[f"after_{rank}{suffix}_ratio"] = point[0]
    details = {
        "curves": curves,
        **_by_distance(plain),
        **_survivors(plain.events, cut),
        "pause_ns": {
            COLLECTION: _lengths(collections),
            **{kind: _lengths(paused.stops.of(kind)) for kind in CONTROLS},
        },
        "kinds": dict(Counter(KINDS[kind] for kind in plain.stops.kind.tolist())),
        "threads": int(np.unique(plain.events.thread).size),
        "keys": int(np.unique(plain.events.key).size),
        "steady": plain.steady,
        "dropped": plain.dropped + paused.dropped,
        "events_ns": float(np.median(plain.events.wall)),
    }
    return values, details


_Curves = dict[str, list[list[float] | None]]
"""By clock."""


def _curves(seen: _Seen, kind: str) -> _Curves:
    """Of the events that follow stops of a kind."""
    return _curves_at(seen, after(seen.events, seen.stops).of(kind))


def _null(seen: _Seen) -> _Curves:
    return _curves_at(seen, fakes(seen.events, seen.stops, _MOST_FAKES))


def _curves_at(seen: _Seen, places: Ints) -> _Curves:
    events = seen.events
    kept = ~interrupted(events, seen.stops)
    return {
        clock: medians(relative(values, events.key, kept), places, 0)
        for clock, values in (("wall", events.wall), ("cpu", events.cpu))
    }


def _by_distance(seen: _Seen) -> dict[str, Any]:
    """What the papers show."""
    events = seen.events
    cut = interrupted(events, seen.stops)
    ratios = relative(events.wall, events.key, ~cut)
    far = distances(events, seen.stops.of(COLLECTION), cut, ratios)
    grouped, most = groups(far, 0), extremes(far, 0)
    return {
        "groups": None if grouped is None else _plain(asdict(grouped)),
        "extremes": None if most is None else _plain(asdict(most)),
    }


def _survivors(events: Events, cut: Bools) -> dict[str, float]:
    """Mean processor times of the events that are kept, and of those that were interrupted."""
    return {
        "kept_cpu_ns": float(events.cpu[~cut].mean()) if (~cut).any() else 0.0,
        "interrupted_cpu_ns": float(events.cpu[cut].mean()) if cut.any() else 0.0,
    }


def _lengths(stops: Halts) -> list[float]:
    """The median length and how many there were."""
    return [float(np.median(stops.end - stops.start)) if len(stops) else 0.0, len(stops)]


def _plain(value: Any) -> Any:
    """Arrays as lists of numbers with few digits: what is kept of a run stays small."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        return [float(f"{each:.5g}") for each in value.tolist()]
    return value


__all__ = ["DEFAULT_MANAGERS", "observe", "proximity"]
