"""A fixed small program that is run now and then beside a long study: a machine that changes its
pace meanwhile shows it there.

A visit is a few runs in a row, of which the fastest counts, for a short disturbance is not what is
sought. docs/campaigns.md has the rule by which a visit is off.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from tare.base.units import format_seconds
from tare.memory_managers import manager as managers_module
from tare.memory_managers.manager import OWN
from tare.observers import runner
from tare.programs.program import Program
from tare.programs.suite import kernels_folder
from tare.records.metrics import Status
from tare.records.results import CANARY
from tare.records.runs import Limits, Outcome, Record, Run, now

RUNS_A_VISIT = 3
INTERVAL_SECONDS = 60.0
MOST_SHARE = 0.02
"""Visits take no more of a machine's time."""
FEWEST_VISITS = 5
"""With fewer, nothing is said of a machine."""
LEAST_CHANGE = 0.05
"""A visit that differs by less from the usual is never off."""
DEVIATIONS = 4
_DEVIATION_OF_STEPS = 1.048
"""The median size of the steps between neighbours, times this, is the standard deviation of
independent normal values: 1 / (0.6745 * sqrt(2))."""
_PROGRAM = "size-mix"
_SCALE = "0.02"
_TIMEOUT_SECONDS = 60.0


class Clock:
    """Says when the canary of one machine is to be visited."""

    def __init__(self) -> None:
        self._next = time.monotonic() + INTERVAL_SECONDS

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def visited(self, seconds: float) -> None:
        """A visit that took ``seconds`` has ended."""
        self._next = time.monotonic() + max(INTERVAL_SECONDS, seconds / MOST_SHARE)


def visit(workspace: Path) -> list[Outcome]:
    """The runs of one visit."""
    program = Program(CANARY, (str(kernels_folder() / _PROGRAM), "--scale", _SCALE))
    limits = Limits(timeout_seconds=_TIMEOUT_SECONDS)
    own = managers_module.resolve(OWN)
    return [runner.run_once(program, own, limits, workspace) for _ in range(RUNS_A_VISIT)]


def pace(workspace: Path) -> list[float]:
    """The wall times of one visit; none where the canary is not built."""
    return [
        outcome.values["wall_seconds"]
        for outcome in visit(workspace)
        if outcome.status is Status.OK
    ]


def records_of(
    outcomes: Sequence[Outcome], started: str, earlier: Sequence[Record], machine: str, group: str
) -> list[Record]:
    """The runs of a visit, as they follow the ``earlier`` ones of a study. They have the order of
    the run before them."""
    number = len({r.run.invocation for r in earlier if _visits(r) and r.run.machine == machine})
    order = max((record.run.order for record in earlier), default=0)
    run = Run(CANARY, CANARY, OWN, number, order, machine=machine, group=group)
    return [Record(run, outcome, started) for outcome in outcomes]


def timed_visit(workspace: Path) -> tuple[str, float, list[Outcome]]:
    """When a visit began, how many seconds it took, and its runs."""
    begun, started = time.monotonic(), now()
    outcomes = visit(workspace)
    return started, time.monotonic() - begun, outcomes


def visits(workspace: Path, earlier: Sequence[Record], clock: Clock) -> list[Record]:
    """The runs of a visit on this machine, when one is due."""
    if not clock.due():
        return []
    started, seconds, outcomes = timed_visit(workspace)
    clock.visited(seconds)
    return records_of(outcomes, started, earlier, "", "")


@dataclass(frozen=True)
class Drift:
    """A machine that was off its usual pace for one or more visits in a row. ``times`` is the time
    of the visit that was furthest off, divided by the usual one. ``runs`` counts, by program, those
    between the last visit before and the first after that were as usual."""

    machine: str
    since: str
    usual_seconds: float
    times: float
    runs: Counter[str]


@dataclass(frozen=True)
class _Visit:
    place: int
    """Where in the records of its machine the visit ended."""
    started: str
    seconds: float


def drifts(records: Sequence[Record]) -> list[Drift]:
    """Where machines were off their usual pace, from the records of a study in their order."""
    machines = dict.fromkeys(record.run.machine for record in records)
    return [
        drift
        for machine in machines
        for drift in _drifts_of([r for r in records if r.run.machine == machine])
    ]


def noise(times: Sequence[float]) -> float:
    """By how much a visit differs at most from the usual where nothing changed, in seconds, by the
    ``times`` of at least two visits."""
    usual = statistics.median(times)
    steps = statistics.median(abs(after - before) for before, after in pairwise(times))
    return max(LEAST_CHANGE * usual, DEVIATIONS * _DEVIATION_OF_STEPS * steps)


def visit_seconds(records: Sequence[Record]) -> list[float]:
    """How long each visit took that ended well."""
    machines = dict.fromkeys(record.run.machine for record in records if _visits(record))
    return [
        visit.seconds
        for machine in machines
        for visit in _seen([r for r in records if r.run.machine == machine])
    ]


def _drifts_of(records: Sequence[Record]) -> list[Drift]:
    seen = _seen(records)
    if len(seen) < FEWEST_VISITS:
        return []
    times = [visit.seconds for visit in seen]
    usual = statistics.median(times)
    most = noise(times)
    off = [abs(seconds - usual) > most for seconds in times]
    found = []
    for is_off, numbers in groupby(range(len(seen)), key=lambda number: off[number]):
        if is_off:
            found.append(_drift(records, seen, list(numbers), usual))
    return found


def _drift(
    records: Sequence[Record], seen: Sequence[_Visit], numbers: Sequence[int], usual: float
) -> Drift:
    first, last = numbers[0], numbers[-1]
    begin = seen[first - 1].place if first > 0 else 0
    end = seen[last + 1].place if last + 1 < len(seen) else len(records)
    flagged = Counter(r.run.program for r in records[begin:end] if not _visits(r))
    furthest = max(numbers, key=lambda number: abs(seen[number].seconds - usual))
    return Drift(
        records[0].run.machine,
        seen[first].started,
        usual,
        seen[furthest].seconds / usual,
        flagged,
    )


def _seen(records: Sequence[Record]) -> list[_Visit]:
    """The visits of one machine that ended well."""
    found = []
    for number, group in groupby(
        ((place, record) for place, record in enumerate(records) if _visits(record)),
        key=lambda item: item[1].run.invocation,
    ):
        del number
        runs = list(group)
        good = [r.outcome for _, r in runs if r.outcome.status is Status.OK]
        if good:
            place, last = runs[-1]
            fastest = min(outcome.values["wall_seconds"] for outcome in good)
            found.append(_Visit(place, last.started, fastest))
    return found


def _visits(record: Record) -> bool:
    return record.run.study == CANARY


def warnings(records: Sequence[Record]) -> list[str]:
    """What a reader must know of machines that changed their pace."""
    told = []
    for drift in drifts(records):
        where = f" on {drift.machine}" if drift.machine else ""
        runs = ", ".join(f"{program} ({count})" for program, count in drift.runs.items())
        number = drift.runs.total()
        suspect = f"{number} run{'s' if number > 1 else ''}: {runs}" if number else "no runs"
        told.append(
            f"The speed of the machine changed{where}: from "
            f"{drift.since[:16].replace('T', ' ')} UTC on, the canary took {drift.times:.2f} times "
            f"its usual {format_seconds(drift.usual_seconds)}. This affects {suspect}"
        )
    return told
