"""`tare.memsys`: which runs it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tare.campaign.session import Command
from tare.campaign.watching import Watcher
from tare.observers import instrument, memory_system
from tare.programs.program import Program
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.memsys import report as memsys_study
from tare.studykit.watched import Watched, watch


def memsys(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    models: Sequence[str] = (),
    curves: bool = False,
    baseline: str = "",
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Misses and stall cycles of programs in simulated memory systems, under each manager.

    ``models`` are names of shipped models, ``host``, or paths of TOML files with a slash; none
    means ``host``. The metrics are those of the first; the details of the runs have all. With
    ``curves`` the misses of caches of all sizes are found, too. ``managers``, ``baseline`` and
    ``folder`` are as for ``compare``.
    """
    instrument.launcher()
    how = memory_system.how(models, curves)
    asked = {"models": memory_system.describe(how), "curves": curves}
    watched = Watched(memsys_study, "simulating the memory system", memory_system.observer(how))
    return watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)
