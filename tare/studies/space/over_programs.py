"""How suites and limits ask for this study."""

from __future__ import annotations

from tare.observers import recorder
from tare.studies.space import observe, report
from tare.studies.space.question import space
from tare.studykit.watched import OverPrograms

OVER_PROGRAMS = OverPrograms(space, report.OBSERVER, observe.run_once, recorder.require)
