"""The studies: a folder each, found by being there.

A folder holds ``report``, or several modules whose names end so: each has STUDY, its name in the
rows; ``summarise(measurements, baseline, seed)``, a frame with the columns of
``tare.records.summary.summary_schema``; and ``section(results)`` for reports, to which these add
the runs without a figure. Where that can be an answer, ``failed(results)`` says whether it is one.
Beside it lies what the study has of these:

    request         what is asked: the command of its name, its function's parameters, what run.json
                    has as asked, and the options on its page, see ``tare.studykit.request``; its
                    first line has the command's in `tare --help`
    question        the function of its name: which runs that makes; it starts nothing
    over_programs   how suites and limits ask for it, see ``tare.studykit.watched``
    observe         what watches a run, where that is more than an observer of ``tare.observers``
    details         structs of what the record of a run has beyond values, for ``details_as``
    weigh           its section of the bill, see ``tare.studykit.budget``
    settings        ``settings(results)``, what to set: JSON has it under that name
    call_trees      ``call_trees(results, record, note)``, for the explorer; ``STUDY`` where that is
                    not the folder's name
    site_sums       what it keeps of call sites, see ``tare.studykit.changed_sites.KeepsSites``
    metrics.csv     its metrics, see ``tare.records.metrics``
    published.csv   what papers measured, to stand beside, see ``tare.studykit.published``

Adding one needs nothing elsewhere: tests/end_to_end/test_a_new_study.py does it.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast

from tare.base.libraries import pl

if TYPE_CHECKING:  # the names of studies are wanted before anything of them is
    from tare.records.results import Results
    from tare.report.model import Section
    from tare.studykit.watched import OverPrograms


class Reporting(Protocol):
    STUDY: str

    def section(self, results: Results) -> Section: ...


class Study(Reporting, Protocol):
    def summarise(self, measurements: pl.DataFrame, baseline: str, seed: int) -> pl.DataFrame: ...


def modules(name: str) -> Iterator[tuple[str, Any]]:
    """The module ``name`` of each study that has one, with the study's name."""
    for folder in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        path = f"{__name__}.{folder}.{name}"
        if importlib.util.find_spec(path) is not None:
            yield folder, importlib.import_module(path)


def over_programs() -> dict[str, OverPrograms]:
    """By name, the studies that `tare suite run` and `tare check` can do besides `compare`."""
    return {name: module.OVER_PROGRAMS for name, module in modules("over_programs")}


def studies() -> list[Study]:
    """All of them, in the order of their names."""
    return sorted(map(_loaded, _reports()), key=lambda study: study.STUDY)


def study_called(name: str) -> Study | None:
    """The one whose STUDY is ``name``. The folder that begins it is looked into first, for loading
    all takes as long as measuring a short program."""
    first = f"{__name__}.{name.partition('-')[0]}."
    reports = sorted(_reports(), key=lambda module: not module.startswith(first))
    return next((study for study in map(_loaded, reports) if name == study.STUDY), None)


def _loaded(module: str) -> Study:
    return cast(Study, importlib.import_module(module))


def _reports() -> Iterator[str]:
    for folder in pkgutil.iter_modules(__path__):
        inside = [f"{path}/{folder.name}" for path in __path__]
        for module in pkgutil.iter_modules(inside, f"{__name__}.{folder.name}."):
            if module.name.endswith("report"):
                yield module.name
