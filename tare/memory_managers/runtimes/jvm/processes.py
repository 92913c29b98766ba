"""What the JVMs of a run left: their pauses and collections, of the agent and of the log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tare.memory_managers import runtimes
from tare.memory_managers.runtimes import Collection, Pause, Process
from tare.memory_managers.runtimes.jvm.collectors import COLLECTORS, MMTK
from tare.memory_managers.runtimes.jvm.gc_log import GcLog, Logged, read_gc_log
from tare.memory_managers.runtimes.jvm.stops import Stop, Stops, read_stops

_STOPS_SUFFIX = ".stops"
LOG_SUFFIX = ".gc.log"
_OF_MMTK = "ThirdPartyHeapOperation"


def read_processes(folder: Path) -> list[Process]:
    """What the JVMs of a run left in ``folder``, in the order of their numbers."""
    processes = []
    for path in runtimes.left_in(folder, _STOPS_SUFFIX):
        seen = read_stops(path)
        log = path.with_name(path.name.removesuffix(_STOPS_SUFFIX) + LOG_SUFFIX)
        if seen is not None and log.exists():
            processes.append(_process(seen, read_gc_log(log)))
    return sorted(processes, key=lambda process: process.pid)


def _process(seen: Stops, log: GcLog) -> Process:
    collector = _collector_named(log.uses)
    if collector == MMTK:
        log = _with_stops_as_collections(log)
    pauses = _pauses(log, seen.stops)
    return Process(
        pid=seen.pid,
        version=log.version,
        collector=collector or log.uses,
        heap_bytes=log.heap_bytes,
        ended=seen.ended_ns != 0,
        collections=tuple(_collections(log, pauses)),
        pauses=tuple(pauses),
        collector_cpu_ns=seen.collector_cpu_ns,
        observer_cpu_ns=seen.observer_cpu_ns,
        allocated_bytes=(
            log.allocated_bytes
            if seen.ended_ns and collector and COLLECTORS[collector].stops
            else None
        ),
        stall_ns=log.stall_ns,
        dropped=seen.dropped,
    )


def _with_stops_as_collections(log: GcLog) -> GcLog:
    """MMTk's collections have no lines of their own: each is a safepoint of that name."""
    stops = [each for each in log.safepoints if each.operation == _OF_MMTK]
    collections = [
        Logged(number, stop.start_ns, stop.end_ns, {"Pause"}, [stop.end_ns])
        for number, stop in enumerate(stops)
    ]
    return replace(log, collections=tuple(collections))


def _collector_named(uses: str) -> str:
    return next((key for key, each in COLLECTORS.items() if uses and each.uses == uses), "")


_RANK = {"concurrent": 0, "young": 1, "mixed": 2, "full": 3}
"""A pause in which several collections ended is that of the greatest."""
_OPEN_AT_ONCE = 4
"""So many collections can be under way: a young one within one of the whole heap, say."""


def _pauses(log: GcLog, stops: Sequence[Stop]) -> list[Pause]:
    """The union of what the log and the agent saw, in the order of time."""
    found = []
    place = 0
    for safepoint in sorted(log.safepoints, key=lambda each: each.end_ns):
        start, end, inside = safepoint.start_ns, safepoint.end_ns, []
        while place < len(stops) and stops[place].start_ns <= end:
            stop = stops[place]
            place += 1
            if stop.finish_ns < start:
                found.append(Pause(stop.start_ns, stop.finish_ns, "", cpu_ns=stop.cpu_ns))
            else:
                inside.append(stop)
        cpu_ns = sum(stop.cpu_ns for stop in inside) if inside else None
        start = min([start, *(stop.start_ns for stop in inside)])
        end = max([end, *(stop.finish_ns for stop in inside)])
        found.append(Pause(start, end, safepoint.operation, cpu_ns=cpu_ns))
    found += [
        Pause(each.start_ns, each.finish_ns, "", cpu_ns=each.cpu_ns) for each in stops[place:]
    ]
    numbers = _Numbers(log.collections)
    return [replace(pause, collection=numbers.of(pause)) for pause in found]


class _Numbers:
    """Finds the collection that a pause was for."""

    def __init__(self, collections: Sequence[Logged]) -> None:
        self._collections = collections
        self._starts = [each.first_ns for each in collections]
        self._stopped = sorted(
            (at, _RANK[each.kind], each.number) for each in collections for at in each.stopped_at
        )
        self._stopped_at = [at for at, _, _ in self._stopped]

    def of(self, pause: Pause) -> int:
        """Its number, or -1."""
        first = bisect_left(self._stopped_at, pause.start_ns)
        last = bisect_right(self._stopped_at, pause.end_ns)
        if first < last:
            return max(self._stopped[first:last], key=lambda each: each[1:])[2]
        if pause.cpu_ns is None:  # the agent, too, saw no collection in it
            return -1
        place = bisect_right(self._starts, pause.end_ns)
        for each in reversed(self._collections[max(place - _OPEN_AT_ONCE, 0) : place]):
            if each.last_ns >= pause.start_ns:
                return each.number
        return -1


def _collections(log: GcLog, pauses: Sequence[Pause]) -> list[Collection]:
    by_number: dict[int, list[Pause]] = {}
    for pause in pauses:
        by_number.setdefault(pause.collection, []).append(pause)
    return [_collection(each, by_number.get(each.number, [])) for each in log.collections]


def _collection(logged: Logged, pauses: Sequence[Pause]) -> Collection:
    times = [pause.cpu_ns for pause in pauses]
    return Collection(
        number=logged.number,
        kind=logged.kind,
        cause=logged.cause,
        start_ns=min([logged.first_ns, *(pause.start_ns for pause in pauses)]),
        end_ns=max([logged.last_ns, *(pause.end_ns for pause in pauses)]),
        pause_ns=sum(pause.end_ns - pause.start_ns for pause in pauses),
        pauses=len(pauses),
        cpu_ns=None if None in times or not times else sum(each or 0 for each in times),
        used_before=logged.used_before,
        used_after=logged.used_after,
    )
