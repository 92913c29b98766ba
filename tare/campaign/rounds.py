"""Rounds of runs in random order, the baseline twice in each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tare.base import statistics
from tare.records.metrics import Status
from tare.records.runs import Record, Run

BASELINE_RUNS_A_ROUND = 2
FAILURES_ALLOWED = 2
"""After so many failed runs of a program under a manager, further ones are not started."""


@dataclass(frozen=True)
class Plan:
    """``runs`` counts invocations per program and manager. With ``precision`` (half the width of
    the interval of the wall-time ratio, as a fraction), rounds go on beyond ``runs`` until every
    interval is that narrow or ``most_runs`` is reached. ``references`` are managers that others
    are held against besides the baseline, and that run as often as it does."""

    programs: tuple[str, ...]
    managers: tuple[str, ...]
    baseline: str
    runs: int = 10
    warmup: int = 1
    seed: int = 1
    precision: float | None = None
    most_runs: int = 100
    references: tuple[str, ...] = ()


def next_round(
    plan: Plan, records: Sequence[Record], study: str, observer: str = "runner"
) -> list[Run]:
    """The runs of ``study`` to do next, given those that are done; empty when it is complete.

    Depends on nothing but its arguments, so a study that was interrupted goes on where it was.
    Programs are measured one after another: the runs of a comparison stay close in time.
    """
    for program in plan.programs:
        mine = [r for r in records if r.run.study == study and r.run.program == program]
        if pending := _next_round_of(plan, program, mine):
            order = 1 + max((r.run.order for r in records), default=0)
            return [
                Run(study, program, manager, invocation, order + offset, warmup, observer)
                for offset, (manager, invocation, warmup) in enumerate(pending)
            ]
    return []


def _next_round_of(
    plan: Plan, program: str, records: Sequence[Record]
) -> list[tuple[str, int, bool]]:
    failures = Counter(r.run.manager for r in records if r.outcome.status is not Status.OK)
    managers = [m for m in plan.managers if failures[m] < FAILURES_ALLOWED]
    warm = Counter(r.run.manager for r in records if r.run.warmup)
    done = Counter(r.run.manager for r in records if not r.run.warmup)
    shuffler = random.Random(f"{plan.seed}/{program}/{len(records)}")

    cold = [m for m in managers if warm[m] < plan.warmup]
    if cold:
        shuffler.shuffle(cold)
        return [(manager, warm[manager], True) for manager in cold]
    target = _target_runs(
        plan, records, min((done[m] // _share(plan, m) for m in managers), default=0)
    )
    short: list[str] = []
    for manager in managers:
        missing = target * _share(plan, manager) - done[manager]
        short += [manager] * min(_share(plan, manager), missing)
    shuffler.shuffle(short)
    runs = []
    for manager in short:
        runs.append((manager, done[manager], False))
        done[manager] += 1
    return runs


def _share(plan: Plan, manager: str) -> int:
    if plan.runs == 1 and len(plan.managers) == 1:
        return 1  # nothing is compared, not even the manager with itself
    return BASELINE_RUNS_A_ROUND if manager in (plan.baseline, *plan.references) else 1


def _target_runs(plan: Plan, records: Sequence[Record], rounds_done: int) -> int:
    if plan.precision is None or rounds_done < plan.runs:
        return plan.runs
    wide = any(
        interval is None or interval.high - interval.low > 2 * plan.precision * interval.median
        for interval in _wall_ratios(plan, records)
    )
    return min(rounds_done + 1, plan.most_runs) if wide else rounds_done


def _wall_ratios(plan: Plan, records: Sequence[Record]) -> list[statistics.Interval | None]:
    walls: dict[str, list[float]] = {manager: [] for manager in plan.managers}
    for record in records:
        if not record.run.warmup and record.outcome.status is Status.OK:
            walls[record.run.manager].append(record.outcome.values["wall_seconds"])
    baseline = walls[plan.baseline]
    return [
        statistics.ratio_interval(values, baseline, plan.seed)
        for manager, values in walls.items()
        if manager != plan.baseline and values
    ]


def planned_runs(plan: Plan) -> int:
    """How many runs the plan takes when nothing fails, warm-up included."""
    return len(plan.programs) * (plan.runs * runs_a_round(plan) + plan.warmup * len(plan.managers))


def runs_a_round(plan: Plan) -> int:
    """How many runs of one program a round has when nothing fails."""
    return sum(_share(plan, manager) for manager in plan.managers)
