"""Time against space: one heap trace under each collector in heaps of several sizes, and under
managers without collections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tare.base.errors import UsageError
from tare.campaign.session import check_counts
from tare.campaign.watching import Watcher
from tare.heap_traces.schedule import How
from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import Manager, parse_name, print_name, resolve
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Limits, Outcome
from tare.studies.tradeoff import report as study
from tare.studykit import replayer as replay
from tare.studykit.least_heap.replayed import DEFAULT_MANAGERS
from tare.studykit.least_heap.search import PAGE
from tare.studykit.replays import measure_replays, oracles, prepare
from tare.studykit.sweeps import checked_heaps, size_text

DEFAULT_HEAPS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
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
    watcher: Watcher | None = None,
) -> Results:
    """Time of a heap trace under each collector in ``heaps``, multiples of the most bytes that it
    has alive at one moment, and under each other manager.

    ``baseline`` is one of the other managers: glibc if it takes part, or else the first. ``how`` is
    as for ``tare.studies.replay.question.replay``, ``folder`` as for ``tare.compare``.
    """
    check_counts(runs, warmup)
    heaps = checked_heaps(heaps, "the most bytes alive")
    collectors, others = _split(managers or DEFAULT_MANAGERS)
    if not baseline:
        baseline = "glibc" if "glibc" in others or not others else others[0]
    elif resolve(baseline, replays=True).replayer:
        raise UsageError(f"{baseline} is a collector: the baseline is a manager without one")
    prepared = prepare(open_trace(trace), how or How(), study.STUDY, folder, watcher)
    counted = prepared.counted
    points = [
        study.Point(in_heap(collector, int(heap * counted["peak_bytes"])), collector, heap)
        for collector in collectors
        for heap in heaps
    ]
    names = [*others, *(point.manager for point in points)]
    resolved, baseline = replay.managers_of(names, baseline)
    limits = limits or Limits()
    if limits.timeout_seconds is None:
        limits = replace(limits, timeout_seconds=slow(counted))
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
        run_once,
        oracles=oracles(prepared),
        points=[asdict(point) for point in points],
    )


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """As ``tare.studykit.replayer.run_once``, with the time of the whole replay."""
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


def in_heap(collector: str, size: int) -> str:
    """The name of ``collector`` with a heap of ``size`` bytes, in whole pages."""
    name, options = parse_name(collector)
    pages = -(-size // PAGE) * PAGE
    settings = {"heap": size_text(pages), **options}
    return print_name(name, settings)


__all__ = ["DEFAULT_HEAPS", "in_heap", "run_once", "slow", "tradeoff"]
