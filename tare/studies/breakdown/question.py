"""`tare.breakdown`: which runs it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tare.campaign.session import Command, programs_of
from tare.campaign.watching import Watcher
from tare.observers import instrument
from tare.programs.program import Program
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.breakdown import memory
from tare.studies.breakdown import report as study
from tare.studykit.watched import Watched, watch


def breakdown(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    runtime: str = "",
    models: Sequence[str] = (),
    baseline: str = "",
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """The instructions of programs by component of storage management.

    ``runtime`` names the descriptor to go by; without it that of the runtime in each process's
    executable is taken, or that of malloc. ``managers`` serve malloc; none means glibc, and own for
    programs of 32 bits. ``models`` are memory systems, named as for ``memsys``, that are simulated
    in the same run; none means that only instructions are counted. ``baseline`` and ``folder`` are
    as for ``compare``.
    """
    from tare.studies.breakdown import observe as breakdown_run  # loads a disassembler

    instrument.launcher()
    descriptors = breakdown_run.described(programs_of(programs), runtime)
    loaded = memory.load(models)
    watched = Watched(
        study,
        "counting instructions by component",
        breakdown_run.observer(runtime, loaded),
        others={study.PAGES: breakdown_run.count_pages},
        narrow=True,
    )
    asked: dict[str, Any] = {"runtime": runtime, "descriptors": descriptors}
    if loaded:
        breakdown_run.refuse_narrow(programs_of(programs))
        asked["models"] = memory.describe(loaded)
    managers = managers or (breakdown_run.default_manager(programs_of(programs)),)
    return watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)
