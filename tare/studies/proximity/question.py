"""Latency of events against the distance to the preceding collection.

An invocation is two runs of the program under one collector: one as it is, and one in which pauses
as long as the collections' were put in, which are controls. ``tare.studies.proximity.observe`` does
a run, ``tare.studies.proximity.analysis`` holds the analysis.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.base.files import hash_file
from tare.base.libraries import np
from tare.campaign import session, watching
from tare.campaign.planning import Plan, planned_runs
from tare.memory_managers import runtimes
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import Manager, resolve
from tare.memory_managers.runtimes.jvm import NAME as JVM
from tare.observers.event_agent import agent_jar
from tare.observers.protocol import Observe
from tare.programs import java_command
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Limits, Outcome
from tare.studies.proximity import report as study
from tare.studies.proximity.analysis import (
    APART,
    COLLECTION,
    CONTROLS,
    KINDS,
    RANKS,
    Bools,
    Events,
    Halts,
    Ints,
    after,
    distances,
    extremes,
    fakes,
    groups,
    interrupted,
    medians,
    relative,
    typical,
)
from tare.studies.proximity.observe import InJvm, Pauses, Seen, Told, Way, timed_run
from tare.studies.proximity.periods import chosen_periods
from tare.studies.proximity.request import Proximity
from tare.studykit.request import answers

DEFAULT_MANAGERS = ("jvm.serial", "jvm.g1")
"""Of methods in a JVM."""
DEFAULT_NATIVE = ("marksweep(glibc)",)
MOST_METHODS = 20
_NAME = r"[A-Za-z_$][\w$]*"
_EVENT = re.compile(rf"(@{_NAME}|{_NAME}\.{_NAME})(\.{_NAME})*")
_CONTROLS_OF_A_KIND = 300
"""Pauses of each kind that are put into the steady part of a run, where it has room for them."""
_MOST_FAKES = 5000
TIMELINE_EVENTS = 5000
"""So many are kept to be drawn on a timeline."""
_FEWEST_COLLECTIONS = 5


@answers(Proximity)
def proximity(request: Proximity) -> Results:
    """How long events of a program take, by how far they are from the collection before them.

    ``events`` are methods of a Java program, ``package.Class.method``, or ``@package.Annotation``
    for all that have it; then ``managers`` are collectors of a JVM. Without any the program tells
    its events itself, and ``managers`` are `marksweep(…)` or collectors of other runtimes.
    ``collections`` asks for so many of them after the warm-up, each number by itself; how much the
    program allocates is found out first. ``folder`` is as for ``tare.compare``.
    """
    events = request.events
    session.check_counts(request.runs, 0)
    programs = session.programs_of(request.program)
    names = list(request.managers) or list(DEFAULT_MANAGERS if events else DEFAULT_NATIVE)
    _check(programs, events, names)
    watcher = request.watcher or watching.Watcher()
    points = [study.Variant(resolve(name).name, name, None) for name in names]
    folder = request.folder
    if request.collections:
        if len(programs) != 1:
            raise UsageError("--collections takes one program", "measure them one by one")
        (chosen,) = programs
        kept = request.folder_or_new(study.STUDY, Path(chosen.argv[0]).name)

        def pilot(names: Sequence[str]) -> Results:
            beside = kept.with_name(f"{kept.name}-periods")
            return proximity(
                chosen,
                events,
                names,
                runs=1,
                seed=request.seed,
                limits=request.limits,
                folder=beside,
                watcher=watcher,
            )

        points = chosen_periods(names, request.collections, pilot)
        folder = kept
    resolved, baseline = session.managers_of([point.manager for point in points], points[0].manager)
    jar = agent_jar(watcher.note) if events else None
    way: Way = InJvm(jar, tuple(events)) if jar else Told()
    asked = {"events": list(events), "agent_sha256": hash_file(jar)} if jar else {}
    plan = Plan(tuple(each.name for each in programs), tuple(resolved), request.runs)
    planned = session.Planned(lambda records: study.next_round(plan, records), planned_runs(plan))
    question = session.Question(
        study.STUDY,
        "pairs of runs",
        session.Compared(programs, resolved, baseline),
        {**asked, "runs": request.runs, "collections": list(request.collections)},
        {study.OBSERVER: observe(way)},
        {"variants": [asdict(point) for point in points]},
    )
    where = request.where(folder=folder, watcher=watcher)
    return session.measure(question, lambda _seed: planned, where)


def _check(programs: Sequence[Program], events: Sequence[str], names: Sequence[str]) -> None:
    """Whether the managers can show the collections of such events."""
    if events:
        _check_events(events)
    elif any(java_command.is_java(program) for program in programs):
        raise UsageError(
            "no method of the Java program is named as an event",
            "name one: --event org.example.Search.query",
        )
    for name in names:
        manager = resolve(name)
        in_jvm = manager.runtime is not None and manager.runtime.runtime == JVM
        if events and not in_jvm:
            raise UsageError(
                f"{manager.name} is not a collector of a JVM, but --event names Java methods",
                "give one, like -m jvm.serial or -m 'jvm.parallel(period=16MiB)'; a native program "
                "reports its events itself, by tare/events.h, without --event",
            )
        if not events and in_jvm:
            raise UsageError(
                f"{manager.name} is a collector of a JVM, but no method is named",
                "name those whose calls are events: --event org.example.Search.query",
            )
        if manager.runtime and not runtimes.runtime(manager.runtime.runtime).TELLS_WHEN:
            raise UsageError(
                f"{manager.name} does not report which process it stopped, and when exactly",
                "use a collector of Node, CPython or a JVM, which do",
            )
        if manager.runtime is None and manager.layer_name != marksweep.NAME:
            raise UsageError(
                f"{manager.name} collects nothing",
                f"put a collector over it: -m 'marksweep({manager.name}, every=1MiB)'",
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
                f"'{event}' is not a method",
                "write it like org.example.Search.query, or @org.example.Timed for an annotation",
            )


def observe(way: Way) -> Observe:
    """What does the two runs of an invocation, as an observer of the executor."""

    def run_once(
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        def run(pauses: Pauses) -> tuple[Outcome, Seen | None]:
            prepared = partial(way.prepared, pauses=pauses)
            outcome, left = timed_run(prepared, program, manager, limits, workspace, keep_output)
            return outcome, way.seen(left) if outcome.status is Status.OK else None

        outcome = Outcome(Status.FAILED)
        try:
            outcome, plain = run(Pauses())
            if plain is None:
                return replace(outcome, values={}, details={})
            pauses = _controls(plain, manager)
            paused = None
            if _puts_in_pauses(manager):
                second, paused = run(pauses)
                if paused is None:
                    return replace(second, values={}, details={})
            values, details = _analysed(plain, paused)
        except UsageError as error:
            hint = f"; {error.hint}" if error.hint else ""
            reason = f"{error.message}{hint}"
            return replace(outcome, status=Status.FAILED, reason=reason, values={}, details={})
        return replace(outcome, values=values, details={**details, "every": pauses.every})

    return run_once


def _puts_in_pauses(manager: Manager) -> bool:
    """The agent of JVMs does, and the layer."""
    return manager.runtime is None or manager.runtime.runtime == JVM


def _controls(seen: Seen, manager: Manager) -> Pauses:
    """Those to put in, as long as the collections' are."""
    collections = seen.stops.of(COLLECTION)
    if len(collections) < _FEWEST_COLLECTIONS:
        example = "jvm.serial(period=16MiB)" if manager.runtime else "marksweep(glibc, every=1MiB)"
        raise UsageError(
            f"only {len(collections)} pauses for collections after the warm-up",
            f"give a smaller heap or young generation, or a shorter period: -m '{example}'",
        )
    busiest = int(np.unique(seen.events.thread, return_counts=True)[1].max())
    every = max(busiest // (len(CONTROLS) * _CONTROLS_OF_A_KIND), APART + RANKS + 1)
    return Pauses(every | 1, int(np.median(collections.end - collections.start)))


def _analysed(plain: Seen, paused: Seen | None) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics, and what the study shows beside them. ``paused`` is None where no pauses could be
    put in."""
    curves = {study.NULL: _null(plain), study.COLLECTION: _curves(plain, COLLECTION)}
    lengths = {COLLECTION: _lengths(plain.stops.of(COLLECTION))}
    if paused is not None:
        curves |= {kind: _curves(paused, kind) for kind in CONTROLS}
        curves[study.AGAIN] = _curves(paused, COLLECTION)
        lengths |= {kind: _lengths(paused.stops.of(kind)) for kind in CONTROLS}
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
        "pause_ns": lengths,
        "kinds": dict(Counter(KINDS[kind] for kind in plain.stops.kind.tolist())),
        "threads": int(np.unique(plain.events.thread).size),
        "keys": int(np.unique(plain.events.key).size),
        "steady": plain.steady,
        "dropped": plain.dropped + (paused.dropped if paused else 0),
        "events_ns": float(np.median(plain.events.wall)),
        "timeline": timeline(plain),
    }
    return values, details


def timeline(seen: Seen) -> dict[str, Any]:
    """The last events, with the halts between them, for a look at them one by one: times are
    nanoseconds since the first."""
    events = seen.events.where(np.argsort(seen.events.start)[-TIMELINE_EVENTS:])
    begin, end = int(events.start[0]), int(events.end.max())
    halts = seen.stops.where((seen.stops.end > begin) & (seen.stops.start < end))
    halts = halts.where(np.arange(len(halts))[-TIMELINE_EVENTS:])
    return {
        "events": np.stack([events.start - begin, events.wall, events.thread], 1).tolist(),
        "halts": [
            [start - begin, length, thread, KINDS[kind]]
            for start, length, thread, kind in zip(
                halts.start.tolist(),
                (halts.end - halts.start).tolist(),
                halts.thread.tolist(),
                halts.kind.tolist(),
                strict=True,
            )
        ],
    }


_Curves = dict[str, list[list[float] | None]]
"""By clock."""


def _curves(seen: Seen, kind: str) -> _Curves:
    """Of the events that follow stops of a kind."""
    return _curves_at(seen, after(seen.events, seen.stops).of(kind))


def _null(seen: Seen) -> _Curves:
    return _curves_at(seen, fakes(seen.events, seen.stops, _MOST_FAKES))


def _curves_at(seen: Seen, places: Ints) -> _Curves:
    events = seen.events
    kept = ~interrupted(events, seen.stops)
    known = {"wall": kept, "cpu": kept & (events.cpu > 0)}
    values = {"wall": events.wall, "cpu": events.cpu}
    return {
        clock: medians(relative(values[clock], events.key, known[clock]), places, 0)
        for clock in known
    }


def _by_distance(seen: Seen) -> dict[str, Any]:
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
    """How long events of the same keys take as those that are kept, and as those that were
    interrupted: means over them."""
    usual = typical(events.wall, events.key, ~cut)
    known = ~np.isnan(usual)
    kept, lost = usual[known & ~cut], usual[known & cut]
    return {
        "kept_ns": float(kept.mean()) if kept.size else 0.0,
        "interrupted_ns": float(lost.mean()) if lost.size else 0.0,
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


__all__ = ["DEFAULT_MANAGERS", "DEFAULT_NATIVE", "observe", "proximity"]
