"""How suites and limits ask for this study."""

from __future__ import annotations

from tare.observers import instrument
from tare.studies.count import report
from tare.studies.count.question import count
from tare.studykit.watched import OverPrograms


def _require() -> None:
    instrument.launcher()


OVER_PROGRAMS = OverPrograms(
    count,
    report.OBSERVER,
    instrument.run_once,
    _require,
    options={"sites": "--sites"},
)
