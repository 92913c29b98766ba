"""One program under garbage collectors, for `tare weigh`: its allocations are recorded once, and
replayed under each collector in a heap of twice the least one, beside glibc.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import Trace, open_trace
from tare.memory_managers.manager import Manager, resolve
from tare.observers import tracing
from tare.observers.asked import Asked
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studykit import replayer
from tare.studykit.least_heap import search as least_heap
from tare.studykit.least_heap.replayed import LEAST_STEP, search_for
from tare.studykit.least_heap.search import Trial

HEAPS = 2
"""The heap of the timed replays, in minimum heaps."""
PAIRS = 5
"""Timed replays under the collector and under glibc, in turns."""
MOST_OBJECTS = 6_000_000
STEPS_IN_THE_PEAK = 20
SLOW = 10.0
"""A trial that takes so many times as long as the first is not waited for."""
LEAST_TIMEOUT_SECONDS = 2.0
_FOLDER, _TRACE, _FACTS_FILE = "collectors", "recorded.tare", "recorded.json"


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """Under a collector, its minimum heap and its time; under another manager, the recording."""
    begun = time.monotonic()
    recorder = resolve("glibc") if manager.replayer else manager
    recorded = _record(program, recorder, limits, workspace, keep_output)
    outcome = recorded
    if manager.replayer and recorded.status is Status.OK and not recorded.details["left_out"]:
        outcome = _under_collector(manager, recorded, limits, workspace)
    details = {**outcome.details, "took_seconds": time.monotonic() - begun}
    return replace(outcome, details=details)


def _record(
    program: Program, manager: Manager, limits: Limits, workspace: Path, keep: Path | None
) -> Outcome:
    """What was recorded and compiled in ``workspace``, now or by an earlier run. ``left_out`` in
    its details says why there is nothing to replay."""
    folder = workspace / _FOLDER
    facts = folder / _FACTS_FILE
    if facts.exists():
        known = json.loads(facts.read_text())
        return Outcome(Status.OK, details=known, output_sha256=known["output_sha256"])
    target = folder / _TRACE
    asked = Asked(sites=False)
    wanted = tracing.Wanted(target, asked)
    outcome = tracing.run_once(program, manager, limits, workspace, keep, wanted=wanted)
    if outcome.status is not Status.OK:
        return replace(outcome, values={}, details={})
    trace = open_trace(target)
    details = {**_compiled(trace, folder), "output_sha256": outcome.output_sha256}
    facts.write_text(json.dumps(details))
    return replace(outcome, values={}, details=details)


def _compiled(trace: Trace, folder: Path) -> dict[str, object]:
    objects = max(int(process["objects"]) for process in trace.processes)
    if not 0 < objects <= MOST_OBJECTS:
        why = f"it allocates {objects:,} objects, and a bill has time for {MOST_OBJECTS:,}"
        return {"left_out": why if objects else "it allocates no objects"}
    how = How(pointers=False)
    counted = compile_trace(trace, how, folder / replayer.SCHEDULE_FILE)
    return {"left_out": "", "counted": counted, "processes": len(trace.processes)}


def _under_collector(
    manager: Manager, recorded: Outcome, limits: Limits, workspace: Path
) -> Outcome:
    counted: Mapping[str, int] = recorded.details["counted"]
    schedule = (workspace / _FOLDER / replayer.SCHEDULE_FILE).resolve()
    trace = open_trace(workspace / _FOLDER / _TRACE)
    program = replayer.program_of(trace, How(pointers=False), schedule)

    unbound = Limits(conditions=limits.conditions)

    def in_heap(size: int, timeout: float | None) -> Outcome:
        sized = replace(manager, replayer=(*manager.replayer, "--heap", str(size)))
        bounds = replace(unbound, timeout_seconds=timeout)
        return replayer.run_once(program, sized, bounds, workspace)

    def attempt(size: int, first: Trial | None) -> Outcome:
        slow = max(LEAST_TIMEOUT_SECONDS, SLOW * first.seconds) if first else None
        return in_heap(size, slow)

    step = max(LEAST_STEP, counted["peak_bytes"] // STEPS_IN_THE_PEAK)
    found = least_heap.least_heap(search_for(counted, step, repeats=1), attempt)
    if found.status is not Status.OK:
        return replace(found, output_sha256=recorded.output_sha256)
    heap = int(HEAPS * found.values["min_heap_high_bytes"])
    glibc = replayer.managers_of(["glibc"])[0]["glibc"]
    pairs = []
    for _ in range(PAIRS):
        pair = replayer.run_once(program, glibc, unbound, workspace), in_heap(heap, None)
        if bad := next((each for each in pair if each.status is not Status.OK), None):
            return replace(bad, output_sha256=recorded.output_sha256)
        if pair[0].output_sha256 != pair[1].output_sha256:
            reason = "its objects at the end differ from those under glibc"
            return Outcome(Status.WRONG_OUTPUT, reason, output_sha256=recorded.output_sha256)
        pairs.append(pair)
    sought = ("min_heap_low_bytes", "min_heap_high_bytes", "trials")
    values = {name: found.values[name] for name in sought}
    values["replay_seconds"] = statistics.median(_seconds(each) for _, each in pairs)
    for name in ("collector_seconds", "collections", "max_pause_seconds"):
        values[name] = statistics.median(each.values[name] for _, each in pairs)
    details = {
        "counted": counted,
        "glibc_seconds": [_seconds(each) for each, _ in pairs],
        "seconds": [_seconds(each) for _, each in pairs],
        "glibc_bytes": statistics.median(each.values["peak_reserved_bytes"] for each, _ in pairs),
        "heap_bytes": heap,
    }
    return Outcome(Status.OK, values=values, details=details, output_sha256=recorded.output_sha256)


def _seconds(outcome: Outcome) -> float:
    return outcome.values["mutator_seconds"] + outcome.values.get("collector_seconds", 0.0)


def ratios(details: Mapping[str, Sequence[float]]) -> list[float]:
    """Of each pair, the collector's time over glibc's."""
    pairs = zip(details["seconds"], details["glibc_seconds"], strict=True)
    return [mine / glibc for mine, glibc in pairs]
