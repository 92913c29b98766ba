"""`tare.memsys`: which runs it asks for."""

from __future__ import annotations

from tare.observers import instrument, memory_system
from tare.records.results import Results
from tare.studies.memsys import report as memsys_study
from tare.studies.memsys.request import Memsys
from tare.studykit.request import answers
from tare.studykit.watched import Watched, watch


@answers(Memsys)
def memsys(request: Memsys) -> Results:
    """Misses and stall cycles of programs in simulated memory systems, under each manager.

    ``models`` are names of shipped models, ``host``, or paths of TOML files with a slash; none
    means ``host``. The metrics are those of the first; the details of the runs have all. With
    ``curves`` the misses of caches of all sizes are found, too. ``managers``, ``baseline`` and
    ``folder`` are as for ``compare``.
    """
    instrument.launcher()
    how = memory_system.how(request.models, request.curves)
    asked = {"models": memory_system.describe(how), "curves": request.curves}
    watched = Watched(memsys_study, "simulating the memory system", memory_system.observer(how))
    return watch(watched, request, asked)
