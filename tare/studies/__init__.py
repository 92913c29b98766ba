"""The studies: a folder each, found by being there.

A folder holds ``report``, or several modules whose names end so: each has STUDY, its name in the
rows; ``summarise(measurements, baseline, seed)``, a frame with the columns of
``tare.records.summary.summary_schema``; and ``section(results)`` for reports. Beside them it has,
as far as it needs them, ``command`` (a command of its name), ``question`` (which runs are asked
for), ``observe`` (what watches a run) and ``weigh`` (its section of the bill, see
``tare.studykit.budget``). No study is known by name elsewhere.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import polars

    from tare.records.results import Results
    from tare.report.model import Section


class Study(Protocol):
    STUDY: str

    def summarise(
        self, measurements: polars.DataFrame, baseline: str, seed: int
    ) -> polars.DataFrame: ...

    def section(self, results: Results) -> Section: ...


def studies() -> list[Study]:
    """All of them, in the order of their names."""
    found = [cast(Study, importlib.import_module(name)) for name in sorted(_reports())]
    return sorted(found, key=lambda study: study.STUDY)


def _reports() -> Iterator[str]:
    for folder in pkgutil.iter_modules(__path__):
        package = importlib.import_module(f"{__name__}.{folder.name}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.endswith("report"):
                yield module.name
