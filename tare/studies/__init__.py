"""The studies: a module each, found by being there.

A study has STUDY, its name in the rows; ``summarise(measurements, baseline, seed)``, a frame with
the columns of ``tare.studies.compare.summary_schema``; and ``section(results)`` for reports.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import polars

    from tare.report.model import Section
    from tare.results import Results


class Study(Protocol):
    STUDY: str

    def summarise(
        self, measurements: polars.DataFrame, baseline: str, seed: int
    ) -> polars.DataFrame: ...

    def section(self, results: Results) -> Section: ...


def studies() -> list[Study]:
    """All of them, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [cast(Study, importlib.import_module(f"{__name__}.{name}")) for name in names]
