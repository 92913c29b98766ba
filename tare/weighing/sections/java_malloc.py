"""`tare weigh`: which sections of a bill are not for a Java program."""

from __future__ import annotations

from collections.abc import Sequence

from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.report.model import Section
from tare.studykit.budget import Setting
from tare.weighing import java_bill
from tare.weighing.sections import sections

RUNTIME = java_bill.RUNTIME
IDENTIFIER = "java-malloc"
TITLE = "What does not apply"
ORDER = 90


def least_seconds(_setting: Setting) -> float:
    return 0.0


def expected_runs(_setting: Setting) -> int:
    return 0


def expected_seconds(_setting: Setting) -> float:
    return 0.0


def next_runs(_setting: Setting, _records: Sequence[Record]) -> list[Run]:
    return []


def section(_results: Results) -> Section:
    titles = [each.TITLE for each in sections()]
    return Section(
        IDENTIFIER,
        TITLE,
        findings=[
            "A Java program has no bill of malloc and free, because the JVM keeps its objects in "
            "a heap of its own.",
            f"So these parts of a bill do not apply: {'; '.join(titles)}.",
            "`tare weigh -m glibc -m mimalloc -- java …` shows them for the JVM itself.",
        ],
    )
