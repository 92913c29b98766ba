"""The sections of the bill, found by being there: the module ``weigh`` of each study that has one,
and the modules of this package. See ``tare.studykit.budget``."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from typing import cast

from tare.base.errors import UsageError
from tare.records.results import Results
from tare.studies import modules
from tare.studykit.budget import Effort, WeighSection, names_of


def sections(runtime: str = "") -> list[WeighSection]:
    """All sections about programs of ``runtime``, or about malloc, in the order of the bill."""
    found: list[WeighSection] = [module for _, module in modules("weigh")]
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        found.append(cast(WeighSection, importlib.import_module(module.name)))
    mine = [section for section in found if getattr(section, "RUNTIME", "") == runtime]
    return sorted(mine, key=lambda section: section.ORDER)


def chosen(
    runtime: str, effort: Effort, only: Sequence[str] = (), skip: Sequence[str] = ()
) -> list[WeighSection]:
    """Those of a bill: all, but those for researchers, unless the user chose."""
    every = sections(runtime)
    wanted, unwanted = _named(every, only, "--only"), _named(every, skip, "--skip")
    for each in list(wanted):
        wanted |= set(getattr(every[_place(every, each)], "NEEDS", ()))
    usual = {
        each.IDENTIFIER
        for each in every
        if effort is Effort.THOROUGH or not getattr(each, "RESEARCH", False)
    }
    kept = (wanted or usual) - unwanted
    if not kept:
        raise UsageError("--skip leaves no section", f"known: {_listed(every)}")
    return [each for each in every if each.IDENTIFIER in kept]


def of_results(results: Results) -> list[WeighSection]:
    """Those that the bill in a folder was asked for, as far as they apply to its program."""
    run = results.run
    asked = run.asked_sections
    return [
        each
        for each in sections(run.runtime)
        if (asked is None or each.IDENTIFIER in asked)
        and getattr(each, "applies", lambda _results: True)(results)
    ]


def _named(every: Sequence[WeighSection], given: Sequence[str], option: str) -> set[str]:
    """The identifiers of sections that the user named."""
    found = {name: each.IDENTIFIER for each in every for name in names_of(each)}
    for word in given:
        if word not in found:
            alike = difflib.get_close_matches(word, found, n=1)
            hint = f"did you mean {alike[0]}?" if alike else f"known: {_listed(every)}"
            raise UsageError(f"{option} {word}: a bill has no such section", hint)
    return {found[word] for word in given}


def _place(every: Sequence[WeighSection], identifier: str) -> int:
    return [each.IDENTIFIER for each in every].index(identifier)


def _listed(every: Sequence[WeighSection]) -> str:
    return ", ".join(names_of(each)[:2][-1] for each in every)
