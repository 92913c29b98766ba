"""How suites and limits ask for this study."""

from __future__ import annotations

from tare.observers import instrument
from tare.studies.drag import observe, report
from tare.studies.drag.question import drag
from tare.studykit.watched import OverPrograms


def _require() -> None:
    instrument.launcher()


OVER_PROGRAMS = OverPrograms(drag, report.OBSERVER, observe.run_once, _require, managers=("glibc",))
