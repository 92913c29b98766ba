"""`tare.replay`: which replays it asks for."""

from __future__ import annotations

from tare.base.errors import UsageError
from tare.campaign.session import Compared, Question, check_counts
from tare.heap_traces.trace import open_trace
from tare.records.results import Results
from tare.studies.replay import report as study
from tare.studies.replay.cache import replay_cache
from tare.studies.replay.request import Replay
from tare.studykit import replayer
from tare.studykit.least_heap import multiples
from tare.studykit.replays import measure_replays, prepare
from tare.studykit.request import answers


@answers(Replay)
def replay(request: Replay) -> Results:
    """The allocations of a heap trace under each manager: time and memory of the same work.

    ``managers``, ``baseline`` and ``folder`` are as for ``tare.compare``; ``how`` says what is
    replayed.
    """
    if request.cache:
        return replay_cache(request)
    if request.models:
        raise UsageError("--model needs --cache", "add --cache")
    opened = open_trace(request.trace)
    resolved, baseline = replayer.managers_of(request.managers, request.baseline)
    how = replayer.how_under(resolved, opened, request.how)
    check_counts(request.runs, request.warmup)
    prepared = prepare(opened, how, study.STUDY, request)
    resolved, heaps = multiples.in_bytes(prepared, resolved, request.limits)
    question = Question(
        study.STUDY,
        "replaying",
        Compared([prepared.program], resolved, baseline),
        observers={study.OBSERVER: replayer.run_once},
        facts={"heaps": heaps},
    )
    return measure_replays(prepared, study, request, question)
