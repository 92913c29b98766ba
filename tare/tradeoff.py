"""Time against space: one heap trace under each collector in heaps of several sizes, and under
managers without collections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tare import api, minheap, replay
from tare.errors import UsageError
from tare.manager import Manager, parse_name, resolve
from tare.measurement import Status
from tare.program import Program, hash_file
from tare.runner import Limits, Outcome
from tare.schedule import How, check
from tare.studies import tradeoff as study
from tare.sweeps import size_text
from tare.trace import META_FILE, open_trace
from tare.units import format_count

if TYPE_CHECKING:
    from tare.results import Results

DEFAULT_HEAPS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
LEAST_HEAP, MOST_HEAP, MOST_HEAPS = 1.0, 64.0, 12
_LEAST_TIMEOUT_SECONDS = 10.0
_SLOW_SECONDS_AN_OBJECT, _SLOW_SECONDS_A_BYTE = 4e-6, 4e-9
"""A replay that takes longer than these together does little but collect: malloc and free take less
than a twentieth of it."""


def tradeoff(
    trace: Path | str,
    managers: Sequence[str] = (),
    *,
    heaps: Sequence[float] = DEFAULT_HEAPS,
    baseline: str = "",
    how: How | None = None,
    runs: int = 6,
    warmup: int = 1,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: api.Watcher | None = None,
) -> Results:
    """Time of a heap trace under each collector in ``heaps``, multiples of the most bytes that it
    has alive at one moment, and under each other manager.

    ``baseline`` is one of the other managers: glibc if it takes part, or else the first. ``how`` is
    as for ``tare.replay.replay``, ``folder`` as for ``tare.compare``.
    """
    from tare.executor import OBSERVERS
    from tare.results import default_folder

    api._check_counts(runs, warmup)
    heaps = _checked(heaps)
    collectors, others = _split(managers or minheap.DEFAULT_MANAGERS)
    if not baseline:
        baseline = "glibc" if "glibc" in others or not others else others[0]
    elif resolve(baseline, replays=True).replayer:
        raise UsageError(f"{baseline} is a collector: the baseline is a manager without one")
    opened = open_trace(trace)
    how = how or How()
    how = replace(how, process=check(opened, how))
    where = Path(folder) if folder else default_folder(study.STUDY, opened.folder.stem)
    watcher = watcher or api.Watcher()
    schedule = (where / ".work" / replay.SCHEDULE_FILE).resolve()
    program = replay.program_of(opened, how, schedule)
    watcher.note(f"compiling {format_count(opened.processes[how.process or 0]['objects'])} objects")
    counted = replay._compile(opened, how, schedule)
    oracles = minheap._oracles(opened, how, schedule.with_suffix(".oracle"))
    points = [
        study.Point(_in_heap(collector, int(heap * counted["peak_bytes"])), collector, heap)
        for collector in collectors
        for heap in heaps
    ]
    names = [*others, *(point.manager for point in points)]
    resolved, baseline = replay.managers_of(names, baseline)
    limits = limits or Limits()
    if limits.timeout_seconds is None:
        limits = replace(limits, timeout_seconds=slow(counted))
    asked = {
        "trace": str(opened.folder.resolve()),
        "meta_sha256": hash_file(opened.folder / META_FILE),
        "how": asdict(how),
        "runs": runs,
        "warmup": warmup,
    }

    def plan(seed: int) -> api._Planned:
        rounds = study.Plan((program.name,), tuple(resolved), baseline, runs, warmup, seed)
        return api._Planned(
            lambda records: study.next_round(rounds, records), study.planned_runs(rounds)
        )

    return api._measure(
        study.STUDY,
        "replaying",
        [program],
        resolved,
        baseline,
        asked,
        plan,
        api._Where(seed, limits, where, watcher),
        {**OBSERVERS, study.OBSERVER: run_once},
        schedule=counted,
        oracles=oracles,
        points=[asdict(point) for point in points],
    )


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """As ``tare.replay.run_once``, with the time of the whole replay."""
    outcome = replay.run_once(program, manager, limits, workspace, keep_output)
    if outcome.status is not Status.OK:
        return outcome
    values = outcome.values
    whole = values["mutator_seconds"] + values.get("collector_seconds", 0.0)
    return replace(outcome, values={**values, study.TIME: whole})


def slow(counted: dict[str, int]) -> float:
    """After so many seconds a replay of the schedule that counts these is not worth waiting for."""
    return (
        _LEAST_TIMEOUT_SECONDS
        + _SLOW_SECONDS_AN_OBJECT * counted["objects"]
        + _SLOW_SECONDS_A_BYTE * counted["allocated_bytes"]
    )


def _checked(heaps: Sequence[float]) -> tuple[float, ...]:
    found = tuple(sorted(set(heaps)))
    if not found or len(found) > MOST_HEAPS or not all(LEAST_HEAP <= h <= MOST_HEAP for h in found):
        raise UsageError(
            "these heaps cannot be tried",
            f"give 1 to {MOST_HEAPS} multiples of the most bytes alive, from {LEAST_HEAP:g} to "
            f"{MOST_HEAP:g}",
        )
    return found


def _split(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The collectors, and the other managers."""
    collectors, others = [], []
    for name in dict.fromkeys(names):
        if not resolve(name, replays=True).replayer:
            others.append(name)
        elif "heap" in parse_name(name)[1]:
            raise UsageError(f"{name}: the heap is what varies", "leave out heap=, see --heaps")
        else:
            collectors.append(name)
    if not collectors:
        raise UsageError("no collector among the managers", "give one, like -m immix")
    return collectors, others


def _in_heap(collector: str, size: int) -> str:
    """The name of ``collector`` with a heap of ``size`` bytes, in whole pages."""
    name, options = parse_name(collector)
    pages = -(-size // minheap.PAGE) * minheap.PAGE
    settings = {"heap": size_text(pages), **options}
    return f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})"


__all__ = ["DEFAULT_HEAPS", "run_once", "slow", "tradeoff"]
