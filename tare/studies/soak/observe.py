"""One soak: a run of the replayer that follows its schedule for a given time."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from msgspec import to_builtins

from tare.base.documents import DocumentError, converted
from tare.base.errors import TareError
from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.protocol import Observer
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.soak.details import Look, Soaked
from tare.studykit.replayer import OUT_OF_MEMORY_EXIT

REPORT_FILE = "soak.json"
_REPORT_LIMIT = 1 << 20
_LAST = 10
"""The last tenth of the looks stands for the end."""


def soak_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
) -> Outcome:
    """As ``runner.run_once``, with what the replayer saw of its memory."""
    outcome = runner.run_once(program, manager, limits, workspace, keep_output, _Soaking())
    if outcome.status is Status.FAILED and outcome.exit_code == OUT_OF_MEMORY_EXIT:
        return replace(outcome, status=Status.OUT_OF_MEMORY, reason="the manager ran out of memory")
    return outcome


@dataclass(frozen=True)
class _Soaking(Observer):
    def complete(self, folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        try:
            text = (folder / "scratch" / REPORT_FILE).read_bytes()[:_REPORT_LIMIT]
            soaked = converted(json.loads(text), Soaked)
        except (OSError, ValueError, DocumentError) as error:
            raise TareError(f"the replayer's report cannot be used: {error}") from None
        if not soaked.looks:
            return replace(
                outcome, status=Status.FAILED, reason="no round of the trace ended", values={}
            )
        return replace(
            outcome,
            values={
                "soak_rounds": soaked.rounds,
                "first_resident_bytes": soaked.looks[0].at_peak,
                "last_resident_bytes": median(look.at_peak for look in last(soaked.looks)),
                "last_idle_resident_bytes": median(look.at_end for look in last(soaked.looks)),
            },
            details={**outcome.details, "soak": to_builtins(soaked)},
        )


def last(looks: Sequence[Look]) -> Sequence[Look]:
    return looks[-math.ceil(len(looks) / _LAST) :]
