"""`tare.space`: which runs it asks for."""

from __future__ import annotations

import sys
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.interrupts import termination_as_interrupt
from tare.campaign.many_traces import analyse_all
from tare.campaign.watching import Watcher
from tare.observers import attaching, recorder
from tare.observers.asked import AT_ONCE, When
from tare.observers.attaching import Target
from tare.observers.waiting import awaited
from tare.programs.program import NAME_LIMIT
from tare.records.results import Results, Store, default_folder, new_run
from tare.records.runs import Outcome, Record, Run, now
from tare.studies.space import attached, attached_report, observe, report
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


def space_of_process(
    pid: int,
    when: When = AT_ONCE,
    *,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """What the resident memory of a process is for that runs already, ``when`` it comes to that.

    Births before are not known. UsageError where the process cannot be looked at, ProgramError
    where it ends before; then no folder is made.
    """
    note = watcher.note if watcher else lambda _: None
    target = attaching.target_of(pid)
    with termination_as_interrupt(), awaited(target, when, note) as over:
        note(f"looking at the memory of {target.name}")
        outcome = attached.outcome_of(target, over)
        return _kept(target, outcome, Path(folder) if folder else None)


def _kept(target: Target, outcome: Outcome, folder: Path | None) -> Results:
    name = " ".join([target.name, *target.words[1:]])[:NAME_LIMIT]
    manager = str(outcome.details["process"]["allocator"])
    study = attached_report.STUDY
    program = {"name": name, "argv": target.words, "executable": target.executable,
               "executable_sha256": "", "ignore_output": True, "output_sha256": ""}  # fmt: skip
    run = new_run(
        study,
        sys.argv,
        programs=[program],
        managers={manager: {"version": "", "object": None, "environment": {}}},
        baseline=manager,
        seed=1,
        request={"attached": target.pid},
    )
    with Store(folder or default_folder("space", target.name), run, key="request") as store:
        if store.records:
            raise UsageError(f"{store.folder} already has runs", "name another folder with -o")
        store.append(Record(Run(study, name, manager, 0, 1, observer=study), outcome))
        results = store.finish()
        store.update(finished=now())
        return Results(results.folder, store.document, results.measurements)
