"""What a change really brings: each metric, measured of the program before and after it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.programs.program import program_from_command
from tare.records.metrics import Status
from tare.records.runs import Limits

ROUNDS = 5
"""Of runs of both, in turn."""
_TRACED = ("peak_free_bytes", "never_freed_bytes")
_RUN = (
    "wall_seconds",
    "user_seconds",
    "system_seconds",
    "processor_seconds",
    "peak_resident_bytes",
)
_STUDIES = {
    "instructions": ("count", "--once"),
    "manager_instructions": ("count", "--once"),
    "resident_bytes": ("space",),
    "external_bytes": ("space",),
    "retained_bytes": ("space",),
}


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    executable: Path
    manager: str = "glibc"


@dataclass(frozen=True)
class Effect:
    before: float
    after: float

    @property
    def gain(self) -> float:
        """The share of the metric that is saved."""
        return 1 - self.after / self.before


class UnmeasuredError(Exception):
    """Nothing here measures the metric."""


class Measuring:
    """Measures each metric once, in ``folder``."""

    def __init__(self, before: Side, after: Side, folder: Path) -> None:
        self._sides = (before, after)
        self._folder = folder
        self._known: dict[str, Effect] = {}

    def effect(self, metric: str) -> Effect:
        if metric not in self._known:
            if metric in _TRACED:
                self._note([self._traced(side) for side in self._sides])
            elif metric in _RUN:
                self._note(self._run_in_turn())
            elif metric in _STUDIES:
                self._note([self._studied(side, _STUDIES[metric]) for side in self._sides])
            else:
                raise UnmeasuredError(metric)
        return self._known[metric]

    def _note(self, values: Sequence[Mapping[str, float]]) -> None:
        before, after = values
        self._known |= {name: Effect(before[name], after[name]) for name in before}

    def _traced(self, side: Side) -> Mapping[str, float]:
        path = self._folder / f"{side.executable.name}-{side.manager}.tare"
        tare(
            "trace", "--quiet", "--no-sites", "-m", side.manager, "-o", path, "--", side.executable
        )
        trace = open_trace(path)
        objects = trace.objects().select("size", "free_bytes").collect()
        kept = objects.filter(objects["free_bytes"].is_null())["size"].sum()
        return dict(zip(_TRACED, (trace.meta["max_live_bytes"], kept), strict=True))

    def _run_in_turn(self) -> Sequence[Mapping[str, float]]:
        seen: list[list[Mapping[str, float]]] = [[], []]
        for _ in range(ROUNDS):
            for side, values in zip(self._sides, seen, strict=True):
                program = program_from_command([str(side.executable)])
                outcome = run_once(program, resolve(side.manager), Limits(), self._folder)
                if outcome.status is not Status.OK:
                    raise RuntimeError(f"{side.executable.name}: {outcome.status}")
                processor = outcome.values["user_seconds"] + outcome.values["system_seconds"]
                values.append({**outcome.values, "processor_seconds": processor})
        return [
            {name: statistics.median(each[name] for each in values) for name in _RUN}
            for values in seen
        ]

    def _studied(self, side: Side, words: Sequence[str]) -> Mapping[str, float]:
        name = f"{side.executable.name}-{side.manager}-{words[0]}"
        path = self._folder / f"{name}.json"
        tare(*words, "--quiet", "--no-page", "-m", side.manager, "-o", self._folder / name,
              "--json", path, "--", side.executable)  # fmt: skip
        rows = json.loads(path.read_text())["summary"]
        return {
            row["metric"]: row["median"]
            for row in rows
            if row["metric"] in _STUDIES and row["manager"] == side.manager
        }


def tare(*words: str | Path) -> None:
    command = [sys.executable, "-m", "tare", *map(str, words)]
    ran = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}:\n{ran.stderr}")
