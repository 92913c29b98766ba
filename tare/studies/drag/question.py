"""`tare.drag`: which runs it asks for, or which traces it reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tare.campaign.many_traces import analyse_all
from tare.campaign.planning import Plan
from tare.campaign.session import Command
from tare.campaign.watching import Watcher
from tare.observers import instrument
from tare.programs.program import Program
from tare.records.results import Results, Store, default_folder, new_run
from tare.records.runs import Limits, Record, now
from tare.studies.drag import observe, report
from tare.studykit.watched import Watched, watch


def drag(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = ("glibc",),
    *,
    baseline: str = "",
    how: observe.How | None = None,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """What programs hold in memory in vain, under each manager: lag, use, drag and void.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. Each run is recorded as a heap
    trace, which is kept in the folder ``traces`` of the results unless ``how`` discards it.
    """
    instrument.launcher()
    how = how or observe.How()
    asked = {"clock": how.clock, "reachability_bytes": how.reachability_bytes}
    watched = Watched(report, "recording lifetimes", observe.observer(how))
    return watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)


def drag_of_trace(
    trace: Path | str,
    *,
    clock: str = "bytes",
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """As ``drag``, of a heap trace that is there already; nothing is run."""
    watcher = watcher or Watcher()
    outcome, facts = observe.outcome_of_trace(Path(trace), clock, watcher.note)
    run = new_run(report.STUDY, sys.argv, **facts)
    where = Path(folder) if folder else default_folder(report.STUDY, Path(trace).stem)
    with Store(where, run, key="request") as store:
        if not store.records:
            (program,), (manager,) = run["programs"], run["managers"]
            plan = Plan((program["name"],), (manager,))
            (planned,) = report.next_round(plan, [])
            store.append(Record(planned, outcome, now()))
        results = store.finish()
        store.update(finished=now())
        return Results(results.folder, store.run, results.measurements)


def drag_of_traces(
    traces: Sequence[Path | str],
    *,
    clock: str = "bytes",
    scheduler: str = "",
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """As ``tare.studies.drag.question.drag_of_trace``, of several traces, in one results folder. A
    trace that cannot be analysed gives a status, and the others go on. A ``folder`` that holds an
    interrupted analysis of the same traces is resumed. With ``scheduler``, the address of a Dask
    cluster, its workers do the analyses."""
    analyse = partial(observe.analysed, clock=clock)
    return analyse_all(report, analyse, {"clock": clock}, traces, scheduler, folder, watcher)
