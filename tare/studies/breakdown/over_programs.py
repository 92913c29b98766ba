"""How suites and limits ask for this study."""

from __future__ import annotations

from tare.studies.breakdown import report
from tare.studies.breakdown.question import breakdown
from tare.studykit.watched import OverPrograms

OVER_PROGRAMS = OverPrograms(breakdown, report.OBSERVER, options={"models": "--model"})
