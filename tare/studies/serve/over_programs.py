"""How suites ask for this study."""

from __future__ import annotations

from functools import partial

from tare.studies.serve.question import serve
from tare.studies.serve.report import STUDY
from tare.studykit.watched import OverPrograms

_BRIEF = partial(serve, periods=1, idle=0.5)
"""Ten servers under five managers start 360 times: what a start costs counts."""
OVER_PROGRAMS = OverPrograms(_BRIEF, STUDY, options={"runs": "--runs"})
