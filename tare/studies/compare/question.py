"""`tare.compare`: which runs a comparison asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tare.base.errors import UsageError
from tare.campaign import executor, rounds
from tare.campaign.cluster import Cluster
from tare.campaign.session import (
    Compared,
    Planned,
    Question,
    check_counts,
    managers_of,
    measure,
    programs_of,
    rounds_of,
)
from tare.memory_managers.manager import Manager
from tare.observers.protocol import Observe
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.studies.compare import report as compare_study
from tare.studies.compare.request import Compare
from tare.studies.latency import observe as timed_calls
from tare.studies.latency import report as latency_study
from tare.studykit import printed
from tare.studykit.least_heap import runtime_heaps
from tare.studykit.request import answers


@answers(Compare)
def compare(request: Compare) -> Results:
    """Time and memory of programs under each manager.

    ``managers`` empty means the installed defaults; ``baseline`` is added to them when it is not
    among them, and is ``glibc`` or else the first. ``precision`` 0.01 measures until each interval
    of the wall-time ratio is within 1% of it, ``most_runs`` at most. A ``folder`` that holds an
    interrupted study of the same question is resumed. ``observe`` watches the runs instead of the
    runner. With ``cluster`` its workers do the runs; ``canary`` also looks whether the machine
    drifts, as is always done on a cluster. With ``latency`` further runs time each call of malloc.
    ``metrics`` are NAME=PATTERN, for figures that the program prints.
    """
    check_counts(request.runs, request.warmup, request.most_runs, request.precision)
    chosen = programs_of(request.programs)
    own = [printed.pattern_of(text) for text in request.metrics]
    if own:  # a figure of its own differs from run to run
        chosen = tuple(replace(program, ignore_output=True) for program in chosen)
    resolved, baseline = managers_of(request.managers, request.baseline, programs=chosen)
    timing = _timing(resolved) if request.latency else {}
    observe = request.observe or (partial(printed.observe, own) if own else None)
    folder = request.folder
    heaps: dict[str, Any] = {}
    if runtime_heaps.has_multiples(resolved):
        folder = request.folder_or_new(compare_study.STUDY, request.label or chosen[0].argv[0])
        beside = folder.with_name(f"{folder.name}-least-heaps")
        settled, heaps = runtime_heaps.in_bytes(
            chosen, resolved, request.limits, beside, request.watcher
        )
        observe = runtime_heaps.observer(settled, observe or executor.OBSERVERS["runner"])
        resolved = settled[chosen[0].name]

    compared = Compared(chosen, resolved, baseline)

    def plan(seed: int) -> Planned:
        whole = replace(
            rounds_of(compared, request, seed),
            precision=request.precision,
            most_runs=request.most_runs,
        )
        planner = _then_latency if request.latency else compare_study.next_round
        runs = rounds.planned_runs(whole)
        return Planned(
            partial(planner, whole),
            runs + (latency_study.planned_runs(whole) if request.latency else 0),
            {name: partial(planner, replace(whole, programs=(name,))) for name in whole.programs},
        )

    cluster = request.cluster or (Cluster(request.scheduler) if request.scheduler else None)
    where = request.where(
        folder=folder, label=request.label, cluster=cluster, canary=request.canary
    )
    question = Question(
        compare_study.STUDY,
        "time and memory",
        compared,
        request.asked(),
        {**({"runner": observe} if observe else {}), **timing},
        {"heaps": heaps} if heaps else {},
        timed=True,
    )
    return measure(question, plan, where)


def _timing(managers: Mapping[str, Manager]) -> Mapping[str, Observe]:
    """What times calls of malloc, by the names of the observers."""
    for manager in managers.values():
        if manager.of_runtime_alone:
            raise UsageError(
                f"--latency times calls of malloc, and {manager.name} is a collector of a runtime",
                "leave out --latency, or name allocators alone",
            )
    timed_calls.require()
    return timed_calls.OBSERVERS


def _then_latency(plan: rounds.Plan, records: Sequence[Record]) -> list[Run]:
    timed = compare_study.next_round(plan, records)
    return timed or latency_study.next_round(plan, records)
