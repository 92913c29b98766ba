"""`tare.count`: which runs a count asks for."""

from __future__ import annotations

from pathlib import Path

from tare.observers import call_sites, instrument
from tare.observers.event_files import as_text, read_events
from tare.records.results import Results
from tare.studies.count import report as count_study
from tare.studies.count.request import Count
from tare.studykit.request import answers
from tare.studykit.watched import Watched, watch


@answers(Count)
def count(request: Count) -> Results:
    """Instructions of programs inside and outside each manager, by operation.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. With ``repeat`` each is
    counted twice, to see whether the count repeats to the instruction. ``events`` is a file as
    docs/events.md describes it. With ``sites`` the operations are also told apart by call site.
    """
    instrument.launcher()
    runs = count_study.RUNS_TO_SEE_REPETITION if request.repeat else 1
    named = () if request.events is None else read_events(Path(request.events))
    asked = {
        "runs": runs,
        **({"events": as_text(named).splitlines()} if named else {}),
        **({"sites": True} if request.sites else {}),
    }
    observer_of = call_sites.observer_of if request.sites else instrument.observer_of
    watched = Watched(count_study, "counting instructions", observer_of(named), runs)
    return watch(watched, request, asked)
