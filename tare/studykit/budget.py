"""What the sections of `tare weigh` share: how thorough to be, and for how long.

A section is a module with IDENTIFIER, TITLE, ORDER and the functions ``least_seconds(setting)``,
``expected_runs(setting)``, ``expected_seconds(setting)``, ``next_runs(setting, records)`` and
``section(results)``. ORDER is its place on the page, and WORTH, over what it takes, in the plan.
NAMES are others than IDENTIFIER that users may call it by. One with RESEARCH is in no bill that
does not ask for it; NEEDS are sections that it rests on. One whose runs need observers of their own
gives them, by name, in ``observers(setting)``. One that is about the programs of a runtime names
that in RUNTIME; the others look at malloc and free. One that is not for each program of its kind
says so in ``applies(results)``. ``tare.weighing.sections`` finds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tare.campaign.executor import OBSERVERS
from tare.observers.protocol import Observe
from tare.records.header import Header
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.report.model import Section

TIMED = "compare"
"""The study of the section on time: its runs show whether a program ends well, and how soon."""


class Effort(StrEnum):
    QUICK = "quick"
    DEFAULT = "default"
    THOROUGH = "thorough"


TOTAL_SECONDS = {Effort.QUICK: 20.0, Effort.DEFAULT: 105.0, Effort.THOROUGH: 3600.0}
"""What a bill may take of a program that runs about a second: start, sections and page."""


@dataclass(frozen=True)
class Setting:
    """``pilot_seconds`` is the wall time of one run before anything was planned;
    ``budget_seconds`` is what one section may take, and ``bill_seconds`` what all together may;
    ``managers_asked`` says that the user named
    the managers, so that none may be left out; ``pilot`` holds what was measured in that run;
    ``storage_runtime`` is the runtime whose storage management can be broken down, if any; ``pace``
    is how many times as long as it was judged by the pilot the section's runs really took; ``runs``
    is how many the user asked for under each manager, 0 for as many as fit."""

    program: str
    managers: tuple[str, ...]
    baseline: str
    effort: Effort
    pilot_seconds: float
    budget_seconds: float
    seed: int
    managers_asked: bool = False
    pilot: Mapping[str, float] = field(default_factory=dict)
    storage_runtime: str = ""
    pace: float = 1.0
    runs: int = 0
    bill_seconds: float = math.inf

    @property
    def run_seconds(self) -> float:
        """What a plain run takes in this section."""
        return self.pace * self.pilot_seconds


class WeighSection(Protocol):
    IDENTIFIER: str
    TITLE: str
    ORDER: int

    def least_seconds(self, setting: Setting) -> float:
        """What the least of its runs that tells something takes; 0 where it has none."""
        ...

    def expected_runs(self, setting: Setting) -> int: ...

    def expected_seconds(self, setting: Setting) -> float: ...

    def next_runs(self, setting: Setting, records: Sequence[Record]) -> list[Run]: ...

    def section(self, results: Results) -> Section: ...


def observers(section: WeighSection, setting: Setting) -> Mapping[str, Observe]:
    """What watches the runs of a section."""
    given = getattr(section, "observers", None)
    return {**OBSERVERS, **(given(setting) if given else {})}


def bill_seconds(run: Header) -> float:
    """What a bill was given, by its run.json."""
    return float(run.request.seconds or TOTAL_SECONDS[Effort(run.request.effort)])


def worth(section: WeighSection) -> float:
    """How much the section tells, in multiples of what the others do."""
    return float(getattr(section, "WORTH", 1.0))


def names_of(section: WeighSection) -> tuple[str, ...]:
    """What --only and --skip may call it: its identifier, and that of its command."""
    return (section.IDENTIFIER, *getattr(section, "NAMES", ()))
