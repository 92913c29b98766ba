"""What the sections of `tare weigh` share: how thorough to be, and for how long.

A section is a module of ``tare.sections`` with IDENTIFIER, TITLE, ORDER and the functions
``expected_runs(setting)``, ``expected_seconds(setting)``, ``next_runs(setting, records)`` and
``section(results)``. A file added there is a section of every bill; nothing else needs to know of
it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, cast

from tare.report.model import Section
from tare.results import Record, Results, Run


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
    the managers, so that none may be left out."""

    program: str
    managers: tuple[str, ...]
    baseline: str
    effort: Effort
    pilot_seconds: float
    budget_seconds: float
    seed: int
    managers_asked: bool = False


class WeighSection(Protocol):
    IDENTIFIER: str
    TITLE: str
    ORDER: int

    def expected_runs(self, setting: Setting) -> int: ...

    def expected_seconds(self, setting: Setting) -> float: ...

    def next_runs(self, setting: Setting, records: Sequence[Record]) -> list[Run]: ...

    def section(self, results: Results) -> Section: ...


def sections() -> list[WeighSection]:
    """All sections in the order of the bill."""
    import tare.sections

    names = [module.name for module in pkgutil.iter_modules(tare.sections.__path__)]
    found = [cast(WeighSection, importlib.import_module(f"tare.sections.{name}")) for name in names]
    return sorted(found, key=lambda each: each.ORDER)


def shares(found: Sequence[WeighSection], whole: Setting) -> list[Setting]:
    """The setting of each section, its ``budget_seconds`` a share of the whole's.

    A section that an equal share is too short for runs nothing, and leaves its share to the others.
    """
    equal = replace(whole, budget_seconds=whole.budget_seconds / len(found))
    running = [section.expected_runs(equal) > 0 for section in found]
    larger = replace(whole, budget_seconds=whole.budget_seconds / max(1, sum(running)))
    return [larger if runs else equal for runs in running]
