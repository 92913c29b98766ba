"""The plan that most studies share: each program under each manager, so many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.records.metrics import Status
from tare.records.runs import Record, Run


@dataclass(frozen=True)
class Plan:
    """``runs`` counts invocations per program and manager."""

    programs: tuple[str, ...]
    managers: tuple[str, ...]
    runs: int = 1


def next_round(plan: Plan, records: Sequence[Record], study: str, observer: str) -> list[Run]:
    """The runs of ``study`` to do next, given those that are done; empty when it is complete.

    A program that failed under a manager is not tried there again.
    """
    order = 1 + max((record.run.order for record in records), default=0)
    mine = [r for r in records if (r.run.study, r.run.observer) == (study, observer)]
    for program in plan.programs:
        for invocation in range(plan.runs):
            done = {
                r.run.manager
                for r in mine
                if r.run.program == program
                and (r.run.invocation == invocation or r.outcome.status is not Status.OK)
            }
            missing = [manager for manager in plan.managers if manager not in done]
            if missing:
                return [
                    Run(study, program, manager, invocation, order + place, observer=observer)
                    for place, manager in enumerate(missing)
                ]
    return []


def planned_runs(plan: Plan) -> int:
    """How many runs the plan takes when nothing fails."""
    return len(plan.programs) * len(plan.managers) * plan.runs
