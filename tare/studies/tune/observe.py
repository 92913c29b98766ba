"""What watches the runs of `tare tune`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

PATIENCE, LEAST_SECONDS = 5.0, 2.0


@dataclass
class Impatient:
    """The runner, which ends a run that takes many times as long as one that ended well: a heap
    that is too small must not take the time of all other settings."""

    shortest_seconds: float = math.inf

    def __call__(
        self,
        program: Program,
        manager: Manager,
        limits: Limits,
        workspace: Path,
        keep_output: Path | None = None,
    ) -> Outcome:
        patience = max(LEAST_SECONDS, PATIENCE * self.shortest_seconds)
        asked = limits.timeout_seconds
        if patience < math.inf:
            limits = replace(limits, timeout_seconds=min(patience, asked or math.inf))
        outcome = runner.run_once(program, manager, limits, workspace, keep_output)
        if outcome.status is Status.OK:
            wall = float(outcome.values["wall_seconds"])
            self.shortest_seconds = min(self.shortest_seconds, wall)
        return outcome
