"""`tare.soak`: which replays it asks for."""

from __future__ import annotations

from dataclasses import replace

from tare.base.errors import UsageError
from tare.base.native import native_file
from tare.campaign.session import Compared, Question, check_counts
from tare.heap_traces.schedule import How
from tare.heap_traces.trace import open_trace
from tare.records.results import Results
from tare.studies.soak import report as study
from tare.studies.soak.observe import REPORT_FILE, soak_once
from tare.studies.soak.request import Soak
from tare.studykit import replayer
from tare.studykit.replays import measure_replays, prepare
from tare.studykit.request import answers


@answers(Soak)
def soak(request: Soak) -> Results:
    """The allocations of a heap trace again and again under each allocator, each for ``seconds``:
    resident memory over the rounds, and whether it grows."""
    check_counts(request.runs, request.warmup)
    opened = open_trace(request.trace)
    resolved, baseline = replayer.managers_of(request.managers, request.baseline)
    for name, manager in resolved.items():
        if manager.replayer or replayer.heap_of(manager) != "malloc":
            raise UsageError(
                f"{name} cannot follow a trace again and again",
                "compare allocators, or layers that delay their frees",
            )
    prepared = prepare(opened, How(), study.STUDY, request)
    words = ("soak", "--for", f"{request.seconds:.0f}", "--report", REPORT_FILE)
    command = (str(native_file("bin/tare-replay")), *words, str(prepared.schedule))
    prepared = replace(prepared, program=replace(prepared.program, argv=command))
    question = Question(
        study.STUDY,
        "following the trace",
        Compared([prepared.program], resolved, baseline),
        asked={"seconds": request.seconds},
        observers={study.STUDY: soak_once},
    )
    return measure_replays(prepared, study, request, question)
