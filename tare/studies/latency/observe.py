"""What watches a run whose calls of malloc are timed: the object of observers/latency, preloaded in
front of the manager."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace as replace_fields

from tare.base.native import native_file
from tare.memory_managers.manager import OWN, Manager
from tare.observers import runner
from tare.observers.protocol import Observe, Observer
from tare.programs.program import Program
from tare.records.coverage import Covered
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.latency.details import OfOperation, OfSize, Timed
from tare.studies.latency.histograms import (
    FAULTED,
    OPERATIONS,
    PREEMPTED,
    SIZES,
    WAITED,
    Histograms,
    UnreadableError,
    read_folder,
)
from tare.studies.latency.long_calls import read_sites

OBSERVER = "latency"
CAUSES_OBSERVER = "latency-causes"
OBJECT = "lib/libtare-latency.so"
FOLDER_VARIABLE = "TARE_LATENCY_FOLDER"
CAUSES_VARIABLE = "TARE_LATENCY_CAUSES"
PERCENTILES = {"p50": 5000, "p99": 9900, "p999": 9990, "p9999": 9999}
"""In parts of ``SHARE_PARTS``."""
WITH_METRICS = ("malloc", "free")


@dataclass(frozen=True)
class _Clock(Observer):
    """Of a run that must show that ``manager`` stands behind the clock."""

    left: Path
    manager: Manager
    causes: bool

    def complete(self, _folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        try:
            found = read_folder(self.left)
        except UnreadableError as error:
            return _without(outcome, Status.FAILED, str(error))
        if not found.servers:
            return _without(outcome, Status.FAILED, "no process left times of its calls")
        if not found.is_complete:
            return _without(outcome, Status.FAILED, "there was no room for the times of its calls")
        for pid, server in found.servers:
            if not self.manager.serves(server):
                reason = f"calls of process {pid} are served by {server}"
                return _without(outcome, Status.NOT_LOADED, reason)
        if self.manager.bare_name == OWN and (reason := self._passed_by(outcome)):
            return _without(outcome, Status.NOT_COVERED, reason)
        timed = _timed(found, outcome.values["wall_seconds"])
        if self.causes:
            timed = replace_fields(timed, long_sites=read_sites(self.left, found.seconds))
        return replace(
            outcome,
            server=os.path.realpath(found.servers[0][1]),
            values=_causes(found) if self.causes else _values(timed),
            details={**outcome.details, "latency": to_builtins(timed)},
        )

    def _passed_by(self, outcome: Outcome) -> str:
        """Why calls of a program as it is do not reach the clock, or ""."""
        if not self.manager.behind(require(), {}).serves(outcome.server):
            return f"its calls of malloc go to {outcome.server} at once, so they cannot be timed"
        for each in outcome.details_as(Covered).own_allocators:
            if each.prefix:
                return f"calls of {each.prefix}… in {each.file} are not of malloc, and not timed"
        return ""


def _without(outcome: Outcome, status: Status, reason: str) -> Outcome:
    return replace(outcome, status=status, reason=reason, values={})


def _timed(found: Histograms, wall_seconds: float) -> Timed:
    operations = {}
    for operation in OPERATIONS:
        if not (calls := int(found.calls(operation).sum())):
            continue
        percentiles = {
            name: seconds
            for name, parts in PERCENTILES.items()
            if (seconds := found.percentile(operation, parts)) is not None
        }
        sizes = () if operation == "free" else tuple(_of_sizes(found, operation))
        longest = found.longest(operation)
        operations[operation] = OfOperation(calls, longest, percentiles, sizes)
    return Timed(found.clock_seconds, wall_seconds, operations)


def _of_sizes(found: Histograms, operation: str) -> list[OfSize]:
    return [
        OfSize(
            16 << size if size < SIZES - 1 else 0,
            calls,
            found.percentile(operation, PERCENTILES["p50"], size),
            found.percentile(operation, PERCENTILES["p99"], size),
        )
        for size in range(SIZES)
        if (calls := int(found.calls(operation, size).sum()))
    ]


def _values(timed: Timed) -> dict[str, float]:
    values: dict[str, float] = {}
    for operation in WITH_METRICS:
        if (of := timed.operations.get(operation)) is None:
            continue
        for name, seconds in of.percentiles.items():
            values[f"{operation}_{name}_seconds"] = seconds
        values[f"{operation}_max_seconds"] = of.max_seconds
    return values


def _causes(found: Histograms) -> dict[str, float]:
    by_set = [int(calls) for calls in found.long_calls.sum(axis=0)]

    def having(cause: int) -> int:
        return sum(calls for causes, calls in enumerate(by_set) if causes & cause)

    return {
        "long_calls": sum(by_set),
        "long_faulted_calls": having(FAULTED),
        "long_waited_calls": having(WAITED),
        "long_preempted_calls": having(PREEMPTED),
        "long_other_calls": by_set[0],
    }


def require() -> Path:
    """The object that is preloaded. MissingError where Tare was built without it."""
    return native_file(OBJECT)


def _run(
    causes: bool,
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="latency-", dir=workspace) as folder:
        left = Path(folder).resolve()
        variables = {FOLDER_VARIABLE: str(left), CAUSES_VARIABLE: "yes" if causes else "no"}
        timed = manager.behind(require(), variables)
        if manager.bare_name == OWN:  # what the program brings along is not led elsewhere
            timed = replace(timed, server=None)
        observer = _Clock(left, manager, causes)
        return runner.run_once(program, timed, limits, workspace, keep_output, observer)


run_once: Observe = partial(_run, False)
"""A run in which each call is timed."""
run_with_causes: Observe = partial(_run, True)
"""One that also asks the kernel before each call, and so says what happened in the long ones; that
makes calls slower, so their times are not those of other runs."""
OBSERVERS: Mapping[str, Observe] = {OBSERVER: run_once, CAUSES_OBSERVER: run_with_causes}
"""By the names that runs call them."""
