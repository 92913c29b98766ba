"""Replays under the instrument's memory-system simulator: what a manager does to the caches, with
the program's own work left out.

What counts is the replay itself, and not how the schedule is read: the instrument tells phases
apart by functions that ``tare-replay`` exports. A collection is a phase of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tare.base.errors import UsageError
from tare.campaign.planning import Plan, planned_runs
from tare.campaign.session import Compared, Planned, Question, measure
from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import Manager
from tare.observers import instrument, memory_system
from tare.observers.event_files import Event
from tare.observers.memory_details import Details
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Outcome
from tare.studies.replay import cache_report as study
from tare.studies.replay.cache_report import COLLECTOR, MUTATOR
from tare.studies.replay.request import Replay
from tare.studykit import replayer
from tare.studykit.replays import prepare

PHASES = (
    Event("during", MUTATOR, "", "tare_replay_events", 0),
    Event("during", COLLECTOR, "", "tare_replay_collection", 0),
)


def replay_cache(request: Replay) -> Results:
    """Misses and stall cycles of the allocations of a heap trace in simulated memory systems, under
    each manager.

    ``models`` are as for ``tare.observers.memory_system``, the others as for
    ``tare.studykit.replayer``. It is one run for each manager: a simulation gives the same each
    time.
    """
    instrument.launcher()
    what = replace(memory_system.how(request.models, curves=False), phases=PHASES)
    opened = open_trace(request.trace)
    resolved, baseline = replayer.managers_of(request.managers, request.baseline)
    for name, manager in resolved.items():
        if manager.replayer:
            raise UsageError(
                f"{name}: the caches of MMTk's collectors are not simulated",
                "use marksweep(M), a collector over the malloc M",
            )
    how = replayer.how_under(resolved, opened, request.how)
    prepared = prepare(opened, how, study.STUDY, request)
    plan = Plan((prepared.program.name,), tuple(resolved))
    planned = Planned(lambda records: study.next_round(plan, records), planned_runs(plan))

    def run_once(program: Program, manager: Manager, *others: Any) -> Outcome:
        under = replayer.under(program, manager)
        return _with_parts(memory_system.observer(what)(under, manager, *others))

    question = Question(
        study.STUDY,
        "simulating the caches of replays",
        Compared([prepared.program], resolved, baseline),
        {**prepared.asked(), "models": memory_system.describe(what)},
        {study.OBSERVER: run_once},
        {"schedule": prepared.counted},
    )
    where = request.where(folder=prepared.folder, watcher=prepared.watcher)
    return measure(question, lambda _seed: planned, where)


def _with_parts(outcome: Outcome) -> Outcome:
    """``outcome`` with the misses of the replay and those of its collections."""
    if outcome.status is not Status.OK:
        return outcome
    parts = study.parts(outcome.details_as(Details).models[0])
    if MUTATOR not in parts:
        reason = "the instrument did not find the replay in the replayer: build Tare again"
        return replace(outcome, status=Status.FAILED, reason=reason, values={}, details={})
    misses = {
        f"{part}_memory_misses": float(events.memory_misses) for part, events in parts.items()
    }
    return replace(outcome, values={**outcome.values, **misses})
