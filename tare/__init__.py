"""Tare weighs what memory management costs a program, and what it would cost under any other
manager.

    import tare
    results = tare.compare(["gawk", "-f", "x.awk"], managers=["jemalloc", "mimalloc"])
    tare.summary(results)                 # a Polars frame; .to_pandas() for pandas
    results.measurements                  # every row
    tare.write_page(results)              # writes report.html, returns its path

Each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from tare.base.earlier_names import find_earlier_names
from tare.base.version import __version__

if TYPE_CHECKING:
    from tare.answers.answers import difference, explore, export_text, limits_broken
    from tare.answers.figure import figure
    from tare.answers.pages import write_page
    from tare.answers.published import published
    from tare.answers.required import require
    from tare.answers.summaries import summary, worst_status
    from tare.base.errors import InterruptedStudy, MissingError, TareError, UsageError
    from tare.campaign.watching import Watcher
    from tare.checking.question import check
    from tare.cli.doctor import examination
    from tare.gating.question import gate
    from tare.heap_traces.trace import open_trace
    from tare.memory_managers.catalogue import managers
    from tare.observers.asked import Asked
    from tare.programs.program import Program
    from tare.programs.runnable import suite_programs
    from tare.records.results import load
    from tare.records.runs import Limits
    from tare.studies.breakdown.question import breakdown
    from tare.studies.compare.question import compare
    from tare.studies.count.question import count
    from tare.studies.delay.question import delay
    from tare.studies.drag.question import drag, drag_of_trace, drag_of_traces
    from tare.studies.frequency.question import frequency
    from tare.studies.lbo.question import lbo
    from tare.studies.memsys.question import memsys
    from tare.studies.minheap.question import minheap
    from tare.studies.proximity.question import proximity
    from tare.studies.regions.question import regions
    from tare.studies.replay.question import replay
    from tare.studies.space.question import space, space_of_process, space_of_traces
    from tare.studies.tradeoff.question import tradeoff
    from tare.studykit.budget import Effort
    from tare.studykit.recording.question import trace
    from tare.weighing.bill import weigh

_PLACES = {
    "Asked": "observers.asked",
    "Effort": "studykit.budget",
    "InterruptedStudy": "base.errors",
    "Limits": "records.runs",
    "MissingError": "base.errors",
    "Program": "programs.program",
    "TareError": "base.errors",
    "UsageError": "base.errors",
    "Watcher": "campaign.watching",
    "check": "checking.question",
    "difference": "answers.answers",
    "drag_of_trace": "studies.drag.question",
    "drag_of_traces": "studies.drag.question",
    "examination": "cli.doctor",
    "explore": "answers.answers",
    "export_text": "answers.answers",
    "figure": "answers.figure",
    "gate": "gating.question",
    "limits_broken": "answers.answers",
    "load": "records.results",
    "managers": "memory_managers.catalogue",
    "open_trace": "heap_traces.trace",
    "published": "answers.published",
    "require": "answers.required",
    "space_of_process": "studies.space.question",
    "space_of_traces": "studies.space.question",
    "suite_programs": "programs.runnable",
    "summary": "answers.summaries",
    "trace": "studykit.recording.question",
    "weigh": "weighing.bill",
    "worst_status": "answers.summaries",
    "write_page": "answers.pages",
}
"""Where each name lives that is not the function of a study."""

__all__ = [
    "Asked",
    "Effort",
    "InterruptedStudy",
    "Limits",
    "MissingError",
    "Program",
    "TareError",
    "UsageError",
    "Watcher",
    "__version__",
    "breakdown",
    "check",
    "compare",
    "count",
    "delay",
    "difference",
    "drag",
    "drag_of_trace",
    "drag_of_traces",
    "examination",
    "explore",
    "export_text",
    "figure",
    "frequency",
    "gate",
    "lbo",
    "limits_broken",
    "load",
    "managers",
    "memsys",
    "minheap",
    "open_trace",
    "proximity",
    "published",
    "regions",
    "replay",
    "require",
    "space",
    "space_of_process",
    "space_of_traces",
    "suite_programs",
    "summary",
    "trace",
    "tradeoff",
    "weigh",
    "worst_status",
    "write_page",
]


find_earlier_names()


def __dir__() -> list[str]:
    return sorted({*__all__, *_studies()})


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name) or (f"studies.{name}.question" if name in _studies() else "")
    if not place:
        raise AttributeError(f"module 'tare' has no attribute '{name}'")
    importlib.import_module("tare.answers.display")
    return getattr(importlib.import_module(f"tare.{place}"), name)


@cache
def _studies() -> frozenset[str]:
    """The names of the studies that have a function: each folder with a question."""
    from pathlib import Path

    found = Path(__file__).with_name("studies").glob("*/question.py")
    return frozenset(path.parent.name for path in found)
