"""Replays of heap traces: the same allocations under any manager.

A replay is a run of ``tare-replay``, a program like any other: it goes through the runner and gives
the same proof. What it prints is the digest of the objects at its end, so outputs are compared as
always; what it measures it leaves in a file, read here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tare.base.errors import TareError, UsageError
from tare.base.libraries import pq
from tare.base.native import native_file
from tare.base.text import writable
from tare.campaign import session
from tare.heap_traces.schedule import How
from tare.heap_traces.trace import Trace, table_file
from tare.memory_managers import layers
from tare.memory_managers.layers import marksweep, regions
from tare.memory_managers.manager import Manager, parse_name
from tare.memory_managers.mmtk import PLANS
from tare.observers import runner
from tare.observers.protocol import Observer
from tare.programs.program import NAME_LIMIT, Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

OUT_OF_MEMORY_EXIT = 3
SCHEDULE_FILE = "schedule"
_MARKSWEEP_OPTIONS = ("every", "reclaim")
"""Of the layer ``marksweep`` the options that its replays have too."""
_REPORT_FILE = "replay.json"
_REPORT_LIMIT = 1 << 16
_MEASURED = (
    "seconds",
    "reserved_bytes",
    "graph_digest",
    "objects",
    "allocated_bytes",
    "peak_bytes",
    "peak_objects",
)
_OF_A_COLLECTOR = (
    "collector_seconds",
    "collections",
    "nursery_collections",
    "pauses",
    "max_pause_seconds",
    "copy_reserve_bytes",
    "marked_bytes",
    "swept_bytes",
    "peak_active_bytes",
    "heap_live_bytes",
    "heap_garbage_bytes",
    "heap_fragmentation_bytes",
    "heap_metadata_bytes",
    "heap_copy_reserve_bytes",
)
"""Metrics that are in the report of a replayer with a collector of its own."""
_OF_THE_WHOLE_PROCESS = frozenset(
    "wall_seconds user_seconds system_seconds peak_resident_bytes minor_faults major_faults "
    "context_switches processes cpu_instructions cpu_cycles cache_misses tlb_misses".split()
)
"""Metrics of a run that are no measure of a replay: they have the reading of the schedule in them,
which is most of a short one."""


@dataclass(frozen=True)
class _ReplayObserver(Observer):
    """Takes what the replayer measured in place of what the runner did. ``collector`` is what must
    have collected, empty where nothing in the replayer does."""

    collector: str = ""

    def complete(self, folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        report = _read_report(folder / "scratch" / _REPORT_FILE)
        if (collector := report.get("collector", "")) != self.collector:
            reason = f"the replayer's collector is {collector!r}"
            return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
        counted = {
            name: value
            for name, value in outcome.values.items()
            if name not in _OF_THE_WHOLE_PROCESS
        }
        counted |= {name: report[name] for name in _OF_A_COLLECTOR if name in report}
        if "collections" not in counted:
            counted["collector_seconds"] = 0.0
        values = {
            **counted,
            "mutator_seconds": max(report["seconds"] - counted.get("collector_seconds", 0.0), 0.0),
            "peak_reserved_bytes": report["reserved_bytes"],
            "graph_digest": report["graph_digest"],
            "objects": report["objects"],
            "allocated_bytes": report["allocated_bytes"],
            "max_live_objects": report["peak_objects"],
            "max_live_bytes": report["peak_bytes"],
        }
        return replace(outcome, values=values)


def _read_report(path: Path) -> Mapping[str, Any]:
    try:
        report = json.loads(path.read_bytes()[:_REPORT_LIMIT])
    except (OSError, ValueError) as error:
        raise TareError(f"the replayer wrote no report: {error}") from None
    if not isinstance(report, dict):
        raise TareError("the replayer's report is not an object")
    for name in (*_MEASURED, *(name for name in _OF_A_COLLECTOR if name in report)):
        if not isinstance(report.get(name), int | float):
            raise TareError(f"the replayer's report lacks {name}")
    return dict(report)


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """Replay under ``manager``; ``program`` is one of ``program_of``. See ``runner.run_once``."""
    outcome = runner.run_once(
        under(program, manager),
        manager,
        limits,
        workspace,
        keep_output,
        _ReplayObserver(_collector_of(manager)),
    )
    if outcome.status is Status.FAILED and outcome.exit_code == OUT_OF_MEMORY_EXIT:
        return replace(outcome, status=Status.OUT_OF_MEMORY, reason="the manager ran out of memory")
    return outcome


def under(program: Program, manager: Manager) -> Program:
    """``program``, one of ``program_of``, with what of the replayer serves under ``manager``."""
    command, verb, *rest = program.argv
    replayer = manager.replayer or (command, verb, *_heap_words(manager))
    return replace(program, argv=(*replayer, *rest))


def managers_of(names: Sequence[str], baseline: str = "") -> tuple[dict[str, Manager], str]:
    """The managers of these names, as they are in replays, and the name of the baseline."""
    resolved, baseline = session.managers_of(names, baseline, replays=True)
    return {name: _in_replays(manager) for name, manager in resolved.items()}, baseline


def _in_replays(manager: Manager) -> Manager:
    """A mark-sweep collector over a malloc is the replayer's own, which knows each pointer; its
    layer finds them by their looks, and is left out."""
    name = layers.split_name(manager.bare_name)
    if name is None or name.layer != marksweep.NAME:
        return manager
    if others := set(name.options) - set(_MARKSWEEP_OPTIONS):
        raise UsageError(
            f"{manager.name}: a replay has no option '{min(others)}'",
            f"its options: {', '.join(_MARKSWEEP_OPTIONS)}; --death says when objects die",
        )
    variables = marksweep.environment(name.options)
    return replace(
        manager,
        preload=manager.preload[1:],
        environment={k: v for k, v in manager.environment.items() if k not in variables},
        title=manager.title.removesuffix(marksweep.EFFECT) + "reclaimed by an exact mark-sweep",
        layer=None,
    )


def _collector_of(manager: Manager) -> str:
    """What a replayer must say that collected; empty where nothing in it does."""
    if manager.replayer:
        return PLANS[parse_name(manager.bare_name)[0]].proof
    return marksweep.NAME if heap_of(manager) == marksweep.NAME else ""


def _heap_words(manager: Manager) -> list[str]:
    """The options of ``tare-replay`` for what serves the objects."""
    heap = heap_of(manager)
    words = ["--heap", heap]
    name = layers.split_name(manager.bare_name)
    if heap == marksweep.NAME and name is not None:
        variables = marksweep.environment(name.options)
        for option in marksweep.RECIPE.options:
            if option.name in _MARKSWEEP_OPTIONS:
                words += [f"--{option.name}", variables[option.env]]
    return words


def heap_of(manager: Manager) -> str:
    """What of the replayer serves the objects under ``manager``."""
    if manager.layer_name == marksweep.NAME and manager.layer is None:
        return marksweep.NAME
    if manager.layer_name != regions.NAME:
        return "malloc"
    name = layers.split_name(manager.bare_name)
    route = name.options.get("as", "original") if name else "original"
    return "malloc" if route == "original" else route


def has_regions(trace: Trace) -> bool:
    """Whether any region was recorded."""
    path = table_file(trace.folder, "regions")
    return path.exists() and pq.read_metadata(path).num_rows > 0


def program_of(trace: Trace, how: How, schedule: Path) -> Program:
    """The replay of ``trace``, compiled to ``schedule``, as a program. It leaves its report in the
    folder that it runs in."""
    touch = "first-line" if how.touch == "uses" else how.touch
    command = [str(native_file("bin/tare-replay")), "run", "--touch", touch]
    command += ["--threads"] if how.threads else []
    command += ["--report", _REPORT_FILE, str(schedule)]
    return Program(name=name_of(trace), argv=tuple(command), scratch=True)


def name_of(trace: Trace) -> str:
    """What the traced program is called."""
    name = trace.header.program.get("name")
    named = name if isinstance(name, str) and name else trace.folder.stem
    return writable(named)[:NAME_LIMIT]


def how_under(managers: Mapping[str, Manager], trace: Trace, how: How) -> How:
    """``how``, without regions where none of the managers has any. Raises UsageError where a
    manager cannot replay so."""
    if how.threads:
        _check_threads(managers)
    if not any(heap_of(manager) in regions.ROUTES for manager in managers.values()):
        return replace(how, regions="")
    if how.regions == "trace" and not has_regions(trace):
        raise UsageError(
            f"{trace.folder} has no regions",
            "make one of each call site with --regions-by site, or record a program that has some",
        )
    return how


def _check_threads(managers: Mapping[str, Manager]) -> None:
    """Raises UsageError where one of these serves a single thread of the replayer only."""
    for name, manager in managers.items():
        if manager.replayer or heap_of(manager) != "malloc":
            raise UsageError(
                f"{name} replays the threads of a program as one",
                "leave out --threads recorded, or compare allocators",
            )
