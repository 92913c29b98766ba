"""`tare.minheap`: which searches make its answer."""

from __future__ import annotations

import inspect

from tare.base.errors import UsageError
from tare.campaign.planning import Plan, planned_runs
from tare.campaign.session import Compared, Planned, Question, measure
from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import options_of
from tare.records.results import Results
from tare.studies.minheap import replayed_report as study
from tare.studies.minheap.container import in_container
from tare.studies.minheap.request import Minheap, MinheapOfProgram
from tare.studykit import replayer
from tare.studykit.least_heap.executed import minheap_executed
from tare.studykit.least_heap.replayed import TRIALS_FILE, default_managers, observe, search_for
from tare.studykit.least_heap.search import PAGE
from tare.studykit.replays import oracles, prepare
from tare.studykit.request import answers


@answers(MinheapOfProgram)
def minheap_of_program(request: MinheapOfProgram) -> Results:
    """As ``minheap_executed``; or the least limit of a container, with ``quota`` processors."""
    if request.container:
        return in_container(request)
    if request.quota is not None:
        raise UsageError("--quota is of a container", "add --container")
    results: Results = inspect.unwrap(minheap_executed)(request)
    return results


@answers(Minheap)
def minheap(request: Minheap) -> Results:
    """The minimum heap of each collector for a heap trace, and the peak of each other manager.

    ``step`` is how narrow the interval is to be, in bytes; ``repeats`` how often each of its ends
    is tried. ``folder`` is as for ``tare.compare``, ``how`` as for
    ``tare.studies.replay.question.replay``.
    """
    if request.repeats < 1 or (request.step is not None and request.step < PAGE):
        raise UsageError("--repeats must be at least 1, and --step at least a page (4KiB)")
    opened = open_trace(request.trace)
    resolved, baseline = replayer.managers_of(request.managers or default_managers())
    for manager in resolved.values():
        if manager.replayer and "heap" in options_of(manager.name):
            raise UsageError(f"{manager.name}: the search sets the heap", "leave out heap=")
    prepared = prepare(opened, request.how, study.STUDY, request)
    search = search_for(prepared.counted, request.step, request.repeats)
    plan = Plan((prepared.program.name,), tuple(resolved))
    planned = Planned(lambda records: study.next_round(plan, records), planned_runs(plan))
    trials = prepared.folder / TRIALS_FILE
    question = Question(
        study.STUDY,
        "minimum heaps",
        Compared([prepared.program], resolved, baseline),
        {**prepared.asked(), "step": search.step, "repeats": request.repeats},
        {study.OBSERVER: observe(search, trials)},
        {"schedule": prepared.counted, "oracles": oracles(prepared)},
    )
    where = request.where(folder=prepared.folder, watcher=prepared.watcher)
    results = measure(question, lambda _seed: planned, where)
    trials.unlink(missing_ok=True)  # they are in the records now
    return results
