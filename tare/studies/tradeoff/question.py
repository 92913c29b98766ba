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
from tare.memory_managers.manager import parse_name, resolve
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.tradeoff import report as study
from tare.studies.tradeoff.observe import run_once
from tare.studykit import replayer
from tare.studykit.least_heap.replayed import DEFAULT_MANAGERS, in_heap
from tare.studykit.replays import measure_replays, oracles, prepare, slow
from tare.studykit.sweeps import checked_heaps

DEFAULT_HEAPS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0)


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
    resolved, baseline = replayer.managers_of(names, baseline)
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


__all__ = ["DEFAULT_HEAPS", "in_heap", "run_once", "slow", "tradeoff"]
