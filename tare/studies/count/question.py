"""`tare.count`: which runs a count asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tare.campaign.session import Command
from tare.campaign.watching import Watcher
from tare.observers import call_sites, instrument
from tare.observers.event_files import as_text, read_events
from tare.programs.program import Program
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.count import report as count_study
from tare.studykit.watched import Watched, watch


def count(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    repeat: bool = True,
    events: Path | str | None = None,
    sites: bool = False,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Instructions of programs inside and outside each manager, by operation.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. With ``repeat`` each is
    counted twice, to see whether the count repeats to the instruction. ``events`` is a file as
    docs/events.md describes it. With ``sites`` the operations are also told apart by call site.
    """
    instrument.launcher()
    runs = count_study.RUNS_TO_SEE_REPETITION if repeat else 1
    named = () if events is None else read_events(Path(events))
    asked = {
        "runs": runs,
        **({"events": as_text(named).splitlines()} if named else {}),
        **({"sites": True} if sites else {}),
    }
    observer_of = call_sites.observer_of if sites else instrument.observer_of
    watched = Watched(count_study, "counting instructions", observer_of(named), runs)
    return watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)
