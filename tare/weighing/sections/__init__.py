"""The sections of the bill, found by being there: the module ``weigh`` of each study that has one,
and the modules of this package. See ``tare.studykit.budget``."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from typing import cast

import tare.studies
from tare.studykit.budget import WeighSection


def sections(runtime: str = "") -> list[WeighSection]:
    """All sections about programs of ``runtime``, or about malloc, in the order of the bill."""
    found = [cast(WeighSection, importlib.import_module(name)) for name in _names()]
    mine = [section for section in found if getattr(section, "RUNTIME", "") == runtime]
    return sorted(mine, key=lambda section: section.ORDER)


def _names() -> Iterator[str]:
    for study in pkgutil.iter_modules(tare.studies.__path__, "tare.studies."):
        if importlib.util.find_spec(f"{study.name}.weigh"):
            yield f"{study.name}.weigh"
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        yield module.name
