"""`tare.space`: which runs it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tare.campaign.many_traces import analyse_all
from tare.campaign.session import Command
from tare.campaign.watching import Watcher
from tare.observers import recorder
from tare.programs.program import Program
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.space import observe, report
from tare.studykit.watched import Watched, watch


def space(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    keep_trace: bool = False,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Where the resident memory of programs goes under each manager, at the peak and over time.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. With ``keep_trace`` the heap
    traces stay in the folder ``traces`` of the results.
    """
    recorder.require()
    watched = Watched(report, "looking at memory", observe.observer(not keep_trace))
    asked = {"keep_trace": keep_trace}
    return watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)


def space_of_traces(
    traces: Sequence[Path | str],
    *,
    scheduler: str = "",
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """As ``tare.studies.space.question.space``, of traces that it kept; nothing is run. The rest is
    as for ``drag_of_traces``."""
    return analyse_all(report, observe.analysed, {}, traces, scheduler, folder, watcher)
