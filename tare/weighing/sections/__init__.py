"""The sections of the bill, found by being there: the module ``weigh`` of each study that has one,
and the modules of this package. See ``tare.studykit.budget``."""

from __future__ import annotations

import importlib
import pkgutil
from typing import cast

from tare.studies import modules
from tare.studykit.budget import WeighSection


def sections(runtime: str = "") -> list[WeighSection]:
    """All sections about programs of ``runtime``, or about malloc, in the order of the bill."""
    found: list[WeighSection] = [module for _, module in modules("weigh")]
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        found.append(cast(WeighSection, importlib.import_module(module.name)))
    mine = [section for section in found if getattr(section, "RUNTIME", "") == runtime]
    return sorted(mine, key=lambda section: section.ORDER)
