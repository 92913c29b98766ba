"""`tare.soak`: which replays it asks for."""

from __future__ import annotations

from dataclasses import replace

from tare.base.errors import UsageError
from tare.base.native import native_file
from tare.base.units import format_duration
from tare.campaign.session import Compared, Question, check_counts
from tare.heap_traces.schedule import check
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
    how = replace(request.how, pace=request.pace > 0)
    process = check(opened, how)
    if how.pace:
        _check_round(opened.header.processes[process].nanoseconds / 1e9 / request.pace, request)
    prepared = prepare(opened, how, study.STUDY, request)
    words = ["soak", "--for", f"{request.seconds:.0f}", "--report", REPORT_FILE]
    words += ["--threads"] if how.threads else []
    words += ["--pace", f"{request.pace:g}"] if how.pace else []
    command = (str(native_file("bin/tare-replay")), *words, str(prepared.schedule))
    prepared = replace(prepared, program=replace(prepared.program, argv=command))
    question = Question(
        study.STUDY,
        "following the trace",
        Compared([prepared.program], resolved, baseline),
        asked={"seconds": request.seconds, **({"pace": request.pace} if how.pace else {})},
        observers={study.STUDY: soak_once},
    )
    return measure_replays(prepared, study, request, question)


def _check_round(seconds: float, request: Soak) -> None:
    """UsageError where no round of so many seconds would end."""
    if seconds > request.seconds:
        raise UsageError(
            f"a round takes {format_duration(seconds)} at that pace, longer than --for",
            "give more time to --for, or how many times as fast to --pace, as 10",
        )
