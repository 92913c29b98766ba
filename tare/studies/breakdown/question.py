"""`tare.breakdown`: which runs it asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tare.campaign.session import programs_of
from tare.observers import instrument
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.breakdown import memory
from tare.studies.breakdown import report as study
from tare.studies.breakdown.request import Breakdown
from tare.studykit.request import answers
from tare.studykit.watched import Watched, watch


@answers(Breakdown)
def breakdown(request: Breakdown) -> Results:
    """The instructions of programs by component of storage management.

    ``runtime`` names the descriptor to go by; without it that of the runtime in each process's
    executable is taken, or that of malloc. ``managers`` serve malloc; none means glibc, and own for
    programs of 32 bits. ``models`` are memory systems, named as for ``memsys``, that are simulated
    in the same run; none means that only instructions are counted. ``baseline`` and ``folder`` are
    as for ``compare``.
    """
    from tare.studies.breakdown import observe, runtime_of  # load a disassembler

    instrument.launcher()
    descriptors = runtime_of.described(programs_of(request.programs), request.runtime)
    models = request.models or ((memory.DEFAULT_MODEL,) if request.memory else ())
    loaded = memory.load(models)
    watched = Watched(
        study,
        "counting instructions by component",
        observe.observer(request.runtime, loaded),
        others={study.PAGES: observe.count_pages},
        narrow=True,
    )
    asked: dict[str, Any] = {"runtime": request.runtime, "descriptors": descriptors}
    if loaded:
        runtime_of.refuse_narrow(programs_of(request.programs))
        asked["models"] = memory.describe(loaded)
    managers = request.managers or (runtime_of.default_manager(programs_of(request.programs)),)
    # What is looked at is the runtime's storage management, whoever serves its malloc.
    limits = replace(request.limits or Limits(), least_coverage=0.0)
    return watch(watched, replace(request, managers=managers, limits=limits), asked)
