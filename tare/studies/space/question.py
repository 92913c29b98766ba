"""`tare.space`: which runs it asks for."""

from __future__ import annotations

from tare.campaign.many_traces import analyse_all
from tare.observers import recorder
from tare.records.results import Results
from tare.studies.space import observe, report
from tare.studies.space.request import Space, SpaceOfTraces
from tare.studykit.request import answers
from tare.studykit.watched import Watched, watch


@answers(Space)
def space(request: Space) -> Results:
    """Where the resident memory of programs goes under each manager, at the peak and over time.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. With ``keep_trace`` the heap
    traces stay in the folder ``traces`` of the results.
    """
    recorder.require()
    watched = Watched(report, "looking at memory", observe.observer(not request.keep_trace))
    return watch(watched, request, request.asked())


@answers(SpaceOfTraces)
def space_of_traces(request: SpaceOfTraces) -> Results:
    """As ``tare.studies.space.question.space``, of traces that it kept; nothing is run. The rest is
    as for ``drag_of_traces``."""
    return analyse_all(
        report, observe.analysed, {}, request.traces, request.scheduler, request.where()
    )
