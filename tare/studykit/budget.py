"""What the sections of `tare weigh` share: how thorough to be, and for how long.

A section is a module with IDENTIFIER, TITLE, ORDER and the functions ``expected_runs(setting)``,
``expected_seconds(setting)``, ``next_runs(setting, records)`` and ``section(results)``. One whose
runs need observers of their own gives them, by name, in ``observers(setting)``. One that is about
the programs of a runtime names that in RUNTIME; the others look at malloc and free. One that is not
for each program of its kind says so in ``applies(results)``. ``tare.weighing.sections`` finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from tare.campaign.executor import OBSERVERS
from tare.observers.protocol import Observe
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.report.model import Section

TIMED = "compare"
"""The study of the section on time: its runs show whether a program ends well, and how soon."""


class Effort(StrEnum):
    QUICK = "quick"
    DEFAULT = "default"
    THOROUGH = "thorough"


TOTAL_SECONDS = {Effort.QUICK: 18.0, Effort.DEFAULT: 105.0, Effort.THOROUGH: 3600.0}
"""What all sections together may take for a program that runs about a second."""


@dataclass(frozen=True)
class Setting:
    """``pilot_seconds`` is the wall time of one run before anything was planned;
    ``budget_seconds`` is what one section may take; ``managers_asked`` says that the user named
    the managers, so that none may be left out; ``pilot`` holds what was measured in that run;
    ``storage_runtime`` is the runtime whose storage management can be broken down, if any."""

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


class WeighSection(Protocol):
    IDENTIFIER: str
    TITLE: str
    ORDER: int

    def expected_runs(self, setting: Setting) -> int: ...

    def expected_seconds(self, setting: Setting) -> float: ...

    def next_runs(self, setting: Setting, records: Sequence[Record]) -> list[Run]: ...

    def section(self, results: Results) -> Section: ...


def observers(section: WeighSection, setting: Setting) -> Mapping[str, Observe]:
    """What watches the runs of a section."""
    given = getattr(section, "observers", None)
    return {**OBSERVERS, **(given(setting) if given else {})}


def shares(found: Sequence[WeighSection], whole: Setting) -> list[Setting]:
    """The setting of each section, its ``budget_seconds`` a share of the whole's.

    As many sections as can run at an equal share of the time, the first ones of the bill before the
    others. What these will not need goes to those of the rest that it is enough for.
    """
    sharing = next(
        running
        for parts in range(len(found), 0, -1)
        if len(running := _running(found, whole, parts)) == parts or parts == 1
    )
    given = {section.IDENTIFIER: whole.budget_seconds / max(1, len(sharing)) for section in sharing}
    left = whole.budget_seconds - sum(
        section.expected_seconds(replace(whole, budget_seconds=given[section.IDENTIFIER]))
        for section in sharing
    )
    for section in found:
        spare = replace(whole, budget_seconds=max(0.0, left))
        if section.IDENTIFIER not in given and section.expected_runs(spare):
            given[section.IDENTIFIER] = spare.budget_seconds
            left -= section.expected_seconds(spare)
    return [replace(whole, budget_seconds=given.get(each.IDENTIFIER, 0.0)) for each in found]


def _running(found: Sequence[WeighSection], whole: Setting, parts: int) -> list[WeighSection]:
    """The first sections, at most ``parts``, that run something in such a part of the time."""
    part = replace(whole, budget_seconds=whole.budget_seconds / parts)
    return [section for section in found if section.expected_runs(part)][:parts]
