"""How suites ask for this study."""

from __future__ import annotations

from tare.studies.serve.question import serve
from tare.studies.serve.report import STUDY
from tare.studykit.watched import OverPrograms

OVER_PROGRAMS = OverPrograms(serve, STUDY, options={"runs": "--runs"})
