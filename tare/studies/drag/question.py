"""`tare.drag`: which runs it asks for, or which traces it reads."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from tare.campaign.many_traces import analyse_all
from tare.campaign.planning import Plan
from tare.campaign.watching import Watcher
from tare.observers import instrument
from tare.records.results import Results, Store, new_run
from tare.records.runs import Record, now
from tare.studies.drag import observe, report
from tare.studies.drag.request import Drag, DragOfTrace, DragOfTraces, How
from tare.studykit.request import answers
from tare.studykit.watched import Watched, watch


@answers(Drag)
def drag(request: Drag) -> Results:
    """What programs keep in memory unused, under each manager: lag, use, drag and void.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. Each run is recorded as a heap
    trace, which is kept in the folder ``traces`` of the results unless ``discard_trace`` is given.
    """
    instrument.launcher()
    how = request.how or How(request.clock, request.reachability_bytes, request.discard_trace)
    watched = Watched(report, "recording lifetimes", observe.observer(how))
    asked = {"clock": how.clock, "reachability_bytes": how.reachability_bytes}
    return watch(watched, request, asked)


@answers(DragOfTrace)
def drag_of_trace(request: DragOfTrace) -> Results:
    """As ``drag``, of a heap trace that is there already; nothing is run."""
    trace = Path(request.trace)
    watcher = request.watcher or Watcher()
    outcome, facts = observe.outcome_of_trace(trace, request.clock, watcher.note)
    run = new_run(report.STUDY, sys.argv, **facts)
    folder = request.folder_or_new(report.STUDY, trace.stem)
    with Store(folder, run, key="request") as store:
        if not store.records:
            (program,), (manager,) = run["programs"], run["managers"]
            plan = Plan((program["name"],), (manager,))
            (planned,) = report.next_round(plan, [])
            store.append(Record(planned, outcome, now()))
        results = store.finish()
        store.end()
        return Results(results.folder, store.document, results.measurements)


@answers(DragOfTraces)
def drag_of_traces(request: DragOfTraces) -> Results:
    """As ``tare.studies.drag.question.drag_of_trace``, of several traces, in one results folder. A
    trace that cannot be analysed gives a status, and the others go on. A ``folder`` that holds an
    interrupted analysis of the same traces is resumed. With ``scheduler``, the address of a Dask
    cluster, its workers do the analyses."""
    analyse = partial(observe.analysed, clock=request.clock)
    return analyse_all(
        report, analyse, request.asked(), request.traces, request.scheduler, request.where()
    )
