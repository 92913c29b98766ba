"""Time against space: one heap trace under each collector in heaps of several sizes, and under
managers without collections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from tare.base.errors import UsageError
from tare.campaign.session import Compared, Question, check_counts
from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import options_of, resolve
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.tradeoff import report as study
from tare.studies.tradeoff.observe import run_once
from tare.studies.tradeoff.request import Tradeoff
from tare.studykit import replayer
from tare.studykit.least_heap.replayed import DEFAULT_MANAGERS, in_heap
from tare.studykit.replays import measure_replays, oracles, prepare, slow
from tare.studykit.request import answers
from tare.studykit.sweeps import checked_heaps


@answers(Tradeoff)
def tradeoff(request: Tradeoff) -> Results:
    """Time of a heap trace under each collector in ``heaps``, multiples of the most bytes that it
    has alive at one moment, and under each other manager.

    ``baseline`` is one of the other managers: glibc if it takes part, or else the first. ``how`` is
    as for ``tare.studies.replay.question.replay``, ``folder`` as for ``tare.compare``.
    """
    check_counts(request.runs, request.warmup)
    heaps = checked_heaps(request.heaps, "the most bytes alive")
    collectors, others = _split(request.managers or DEFAULT_MANAGERS)
    baseline = request.baseline
    if not baseline:
        baseline = "glibc" if "glibc" in others or not others else others[0]
    elif resolve(baseline, replays=True).replayer:
        raise UsageError(f"the baseline {baseline} is a collector", "give an allocator, like glibc")
    prepared = prepare(open_trace(request.trace), request.how, study.STUDY, request)
    counted = prepared.counted
    points = [
        study.Point(in_heap(collector, int(heap * counted["peak_bytes"])), collector, heap)
        for collector in collectors
        for heap in heaps
    ]
    names = [*others, *(point.manager for point in points)]
    resolved, baseline = replayer.managers_of(names, baseline)
    limits = request.limits or Limits()
    if limits.timeout_seconds is None:
        limits = replace(limits, timeout_seconds=slow(counted))
    question = Question(
        study.STUDY,
        "replaying",
        Compared([prepared.program], resolved, baseline),
        observers={study.OBSERVER: run_once},
        facts={"oracles": oracles(prepared), "points": [asdict(point) for point in points]},
    )
    return measure_replays(prepared, study, replace(request, limits=limits), question)


def _split(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The collectors, and the other managers."""
    collectors, others = [], []
    for name in dict.fromkeys(names):
        if not resolve(name, replays=True).replayer:
            others.append(name)
        elif "heap" in options_of(name):
            raise UsageError(f"{name}: --heaps sets the heap", "leave out heap=")
        else:
            collectors.append(name)
    if not collectors:
        raise UsageError("no collector among the managers", "give one, like -m immix")
    return collectors, others


def exit_code(results: Results) -> int:
    return int(study.failed(results))


__all__ = ["in_heap", "run_once", "slow", "tradeoff"]
