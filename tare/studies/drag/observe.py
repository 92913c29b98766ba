"""One run under the instrument, recorded with last uses and call sites, and analysed at once."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.base.documents import DocumentError, converted
from tare.base.errors import UsageError
from tare.base.text import plain
from tare.base.units import format_count
from tare.heap_traces import ownership
from tare.heap_traces.facts import facts_of
from tare.heap_traces.predictions import predictions
from tare.heap_traces.residence import Process, analyse, processes_of, reading
from tare.heap_traces.reuse import reuse
from tare.heap_traces.trace import Trace, is_trace, open_trace, remove_trace
from tare.memory_managers.manager import Manager
from tare.observers import tracing
from tare.observers.asked import Asked
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.drag.details import Details
from tare.studies.drag.report import values_of
from tare.studies.drag.request import How

TRACES_FOLDER = "traces"
COUNTED = ("instructions", *(f"{name}_{what}" for name in ("malloc", "free")
           for what in ("calls", "instructions")))  # fmt: skip
"""What the instrument counts beside, kept in the details: what calls cost on average."""
MANY_OBJECTS = 2_000_000
"""From here on an analysis takes seconds."""


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    how: How | None = None,
) -> Outcome:
    """Record ``program`` under ``manager`` and analyse the trace; see ``runner.run_once``. Without
    ``how`` the trace is discarded.

    The trace is kept in the folder ``traces`` beside ``workspace``. ``values`` of a good outcome
    are the metrics of ``tare.studies.drag.report.values_of`` and the bytes allocated; ``details``
    is what ``_analysed`` returns, with ``trace`` (its path from the results
    folder, empty when it was discarded), and ``wall_seconds`` and ``analysis_seconds`` of this run.
    """
    how = how or How(discard=True)
    target = workspace.parent / TRACES_FOLDER / f"{plain(program.name)}.{plain(manager.name)}.tare"
    asked = Asked(
        last_use=True, sites=True, pointers=False, reachability_bytes=how.reachability_bytes
    )
    begun = time.monotonic()
    outcome = tracing.run_once(
        program, manager, limits, workspace, keep_output, wanted=tracing.Wanted(target, asked)
    )
    recorded = time.monotonic()
    kept = "" if how.discard else f"{TRACES_FOLDER}/{target.name}"
    if outcome.status is not Status.OK:
        if how.discard and is_trace(target):
            remove_trace(target)
        recorded_objects = outcome.details.get("trace", {}).get("objects", 0)
        return replace(outcome, values={}, details={"trace": kept if recorded_objects else ""})
    found, values = _analysed(open_trace(target), how.clock)
    if how.discard:
        remove_trace(target)
    counted = {
        name: outcome.values[name]
        for name in ("objects", "allocated_bytes", "processes")
        if name in outcome.values
    }
    details = {
        **found,
        "counted": {name: outcome.values[name] for name in COUNTED if name in outcome.values},
        "trace": kept,
        "wall_seconds": outcome.details.get("wall_seconds", recorded - begun),
        "analysis_seconds": time.monotonic() - recorded,
    }
    return replace(outcome, values=counted | values, details=details)


def _analysed(trace: Trace, clock: str) -> tuple[dict[str, Any], dict[str, float]]:
    """As ``analyse``, and of the process that holds most: who owns its memory, as ``changes`` what
    changes of single places would bring, and ``reuse``; see ``tare.heap_traces.predictions`` and
    ``reuse``. With the metrics of it."""
    known = processes_of(trace)
    found = analyse(trace, known, clock)
    if found["main"]:
        found |= _of_main(trace, known, found)
    try:
        return found, values_of(converted(found, Details))
    except DocumentError as error:
        raise UsageError(f"{trace.folder} contradicts itself: {error}", "record it again") from None


def _of_main(trace: Trace, known: Sequence[Process], found: Mapping[str, Any]) -> dict[str, Any]:
    main = found["main"]
    with reading(trace):
        mine = next(process for process in known if process.number == main["process"])
        at = main["peak_moment"]
        owned = ownership.owners(trace, mine, at)
        changes = (
            predictions(trace, mine, at, main["peaks"]["free"]) if found["sites_known"] else []
        )
        reused = reuse(trace.objects(), mine)
    return {ownership.DETAIL: owned, "changes": changes, "reuse": reused}


def observer(how: How) -> Observe:
    """``run_once`` with its last argument given, for the executor."""
    return functools.partial(run_once, how=how)


def outcome_of_trace(
    folder: Path, clock: str, note: Callable[[str], None] = lambda _: None
) -> tuple[Outcome, dict[str, Any]]:
    """As ``run_once``, of a trace that is there already; and what run.json says of it. ``note`` is
    told what takes long."""
    trace = open_trace(folder)
    return analysed(trace, clock, note), facts_of(trace, clock=clock)


def analysed(trace: Trace, clock: str, note: Callable[[str], None] = lambda _: None) -> Outcome:
    """As ``run_once``, of a trace that is there already."""
    folder = trace.folder
    begun = time.monotonic()
    if (objects := trace.meta["objects"]) >= MANY_OBJECTS:
        note(f"analysing {format_count(objects)} objects")
    found, values = _analysed(trace, clock)
    wall = trace.meta.get("wall_seconds")
    details = {
        **found,
        "trace": str(folder.resolve()),
        "wall_seconds": wall if isinstance(wall, float) else 0.0,
        "analysis_seconds": time.monotonic() - begun,
    }
    return Outcome(Status.OK, values=values, details=details)
