"""What collectors cost at least: a program, or a replay of its heap trace, under each collector in
heaps of several sizes, against a baseline distilled from all of them.

After Cai, Blackburn, Bond and Maas, "Distilling the Real Cost of Production Garbage Collectors",
ISPASS 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tare.base.errors import UsageError
from tare.campaign.session import (
    Compared,
    Question,
    check_counts,
    in_rounds,
    managers_of,
    measure,
    programs_of,
)
from tare.heap_traces.trace import open_trace
from tare.memory_managers import runtimes, suitable
from tare.memory_managers.manager import Manager, options_of, resolve
from tare.memory_managers.mmtk import HEAP
from tare.memory_managers.runtimes import jvm
from tare.programs.program import Program
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Limits
from tare.studies.lbo import report as study
from tare.studies.lbo.observe import replay_once, run_once
from tare.studies.lbo.request import Lbo, LboReplayed
from tare.studykit import replayer
from tare.studykit.least_heap.executed import HIGH, UNIT, in_heap, minheap_executed
from tare.studykit.least_heap.replayed import in_heap as replayed_in_heap
from tare.studykit.replays import measure_replays, prepare, slow
from tare.studykit.request import answers
from tare.studykit.sweeps import checked_heaps

DEFAULT_REPLAYED = ("immix", "genimmix", "semispace", "glibc")
SLOW = 10.0
"""A run that takes so many times the wall time of the minimum heap is ended."""
_LEAST_TIMEOUT_SECONDS = 30.0
REFERENCE = f"{jvm.NAME}.{jvm.REFERENCE}"
"""Of JVMs, the collector whose minimum heap is the unit of heaps."""
_EPSILON = f"{jvm.NAME}.epsilon"
"""Is given a heap for all that is allocated. Other collectors that never collect need none."""
_EPSILON_SPARE = 1.25
"""Of the bytes allocated under the reference: some differ from run to run."""
_STEPS_IN_LEAST_HEAP = 2
"""Trials at each end of the reference's minimum heap."""


@answers(Lbo)
def lbo(request: Lbo) -> Results:
    """What collectors cost a program at least, in ``heaps``, multiples of ``least_heap`` bytes.

    Without ``least_heap`` that of the runtime's collector that needs least is sought first, in a
    results folder beside.
    Managers whose heap cannot be set take part as they are. ``folder`` is as for ``tare.compare``.
    """
    check_counts(request.runs, request.warmup)
    heaps = checked_heaps(request.heaps, "the minimum heap")
    (chosen,) = programs_of(request.program)
    names = list(dict.fromkeys(request.managers or runtimes.running(chosen).SWEEP))
    varied = [name for name in names if _has_heap(resolve(name))]
    suitable.check([chosen], [resolve(in_heap(name, UNIT)) for name in varied])
    folder = request.folder_or_new(study.STUDY, Path(chosen.argv[0]).name)
    limits = request.limits or Limits()
    least_heap = request.least_heap
    found: dict[str, float] = {}
    reference = _reference(varied)
    if varied and least_heap is None:
        found = _least_heap(chosen, reference, folder, request)
        least_heap = round(found[HIGH])
    points = [
        study.Point(in_heap(name, _whole(heap * (least_heap or 0))), name, heap)
        for name in varied
        for heap in heaps
    ]
    points += [study.Point(name, name, None) for name in names if name not in varied]
    if epsilon := _epsilon(found) if reference == REFERENCE and not request.managers else "":
        points.append(study.Point(epsilon, _EPSILON, None))
    resolved, baseline = managers_of([point.manager for point in points], points[0].manager)
    if limits.timeout_seconds is None and found:
        seconds = max(_LEAST_TIMEOUT_SECONDS, SLOW * found["wall_seconds"])
        limits = replace(limits, timeout_seconds=seconds)

    compared = Compared([chosen], resolved, baseline)
    question = Question(
        study.STUDY,
        "costs of collectors",
        compared,
        {
            "heaps": list(heaps),
            "least_heap": least_heap,
            "runs": request.runs,
            "warmup": request.warmup,
        },
        {study.OBSERVER: run_once},
        {
            "points": [asdict(point) for point in points],
            "unit": f"the minimum heap of {reference}" if found else "the minimum heap given",
            "least_heap_bytes": least_heap,
        },
    )
    where = request.where(limits=limits, folder=folder)
    return measure(question, in_rounds(study, compared, request), where)


def _has_heap(manager: Manager) -> bool:
    """Whether the heap of the manager is one that the study varies."""
    if manager.runtime is None or not runtimes.has_heap(manager.runtime):
        return False
    if HEAP in manager.runtime.options:
        raise UsageError(f"{manager.name}: --heaps sets the heap", "leave out heap=")
    return True


def _reference(varied: Sequence[str]) -> str:
    """The collector whose minimum heap is the unit of heaps: that of the runtime which needs
    least; "" where no heap varies."""
    setting = resolve(varied[0]).runtime if varied else None
    if setting is None:
        return ""
    return f"{setting.runtime}.{runtimes.runtime(setting.runtime).REFERENCE}"


def _least_heap(program: Program, reference: str, folder: Path, request: Lbo) -> dict[str, float]:
    """What the run in the minimum heap of the reference showed."""
    results = minheap_executed(
        program,
        [reference],
        repeats=_STEPS_IN_LEAST_HEAP,
        seed=request.seed,
        limits=request.limits,
        folder=folder.with_name(f"{folder.name}-least-heap"),
        watcher=request.watcher,
    )
    (record,) = read_records(results.folder)
    if record.outcome.status is not Status.OK:
        raise UsageError(
            f"no minimum heap of {reference} was found: {record.outcome.reason}",
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


@answers(LboReplayed)
def lbo_replayed(request: LboReplayed) -> Results:
    """As ``lbo``, of the allocations of a heap trace; ``heaps`` are multiples of the most bytes
    that it has alive at one moment. Only wall time is known."""
    check_counts(request.runs, request.warmup)
    heaps = checked_heaps(request.heaps, "the most bytes alive")
    prepared = prepare(open_trace(request.trace), request.how, study.STUDY, request)
    live = prepared.counted["peak_bytes"]
    points = []
    for name in dict.fromkeys(request.managers or DEFAULT_REPLAYED):
        if not resolve(name, replays=True).replayer:
            points.append(study.Point(name, name, None))
            continue
        if "heap" in options_of(name):
            raise UsageError(f"{name}: --heaps sets the heap", "leave out heap=")
        points += [
            study.Point(replayed_in_heap(name, int(heap * live)), name, heap) for heap in heaps
        ]
    resolved, baseline = replayer.managers_of(
        [point.manager for point in points], points[0].manager
    )
    limits = request.limits or Limits()
    if limits.timeout_seconds is None:
        limits = replace(limits, timeout_seconds=slow(prepared.counted))
    question = Question(
        study.STUDY,
        "replaying",
        Compared([prepared.program], resolved, baseline),
        observers={study.OBSERVER: replay_once},
        facts={
            "points": [asdict(point) for point in points],
            "unit": "the most bytes alive at one moment",
            "least_heap_bytes": live,
        },
    )
    return measure_replays(prepared, study, replace(request, limits=limits), question)


def exit_code(results: Results) -> int:
    return int(study.failed(results))
