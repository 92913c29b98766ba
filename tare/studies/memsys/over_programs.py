"""How suites and limits ask for this study."""

from __future__ import annotations

from tare.observers import instrument, memory_system
from tare.studies.memsys import report
from tare.studies.memsys.question import memsys
from tare.studykit.watched import OverPrograms


def _require() -> None:
    instrument.launcher()


OVER_PROGRAMS = OverPrograms(
    memsys,
    report.OBSERVER,
    memory_system.run_once,
    _require,
    options={"models": "--model"},
)
