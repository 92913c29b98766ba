"""Which runs `tare gate` does, of two programs in turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tare.campaign import rounds
from tare.gating.changes import BASE, HEAD
from tare.gating.request import COUNT, TIME
from tare.records.metrics import Status
from tare.records.runs import Record, Run
from tare.studies.compare import report as compare
from tare.studies.count import report as count

_A_ROUND = (*[BASE] * rounds.BASELINE_RUNS_A_ROUND, HEAD)


@dataclass(frozen=True)
class Plan:
    """``parts`` are of ``COUNT`` and ``TIME``; ``runs`` is how many rounds time takes."""

    manager: str
    parts: tuple[str, ...]
    runs: int
    seed: int


def next_round(plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next: one of each program that only shows whether it works, the counts, and
    rounds in random order. None where one of the two has failed in what comes next."""
    timed = [record for record in records if record.run.study == compare.STUDY]
    counted = [record for record in records if record.run.study == count.STUDY]
    order = 1 + max((record.run.order for record in records), default=0)
    first = [name for name in (BASE, HEAD) if not _of(timed, name, warmup=True)]
    if first:
        return [_timed(plan, name, 0, order + place, True) for place, name in enumerate(first)]
    if _any_failed(timed):
        return []
    if COUNT in plan.parts and not _any_failed(counted):
        for number in range(count.RUNS_TO_SEE_REPETITION):
            missing = [name for name in (BASE, HEAD) if len(_of(counted, name)) <= number]
            if missing:
                return [
                    Run(count.STUDY, name, plan.manager, number, order + place, False,
                        count.OBSERVER)
                    for place, name in enumerate(missing)
                ]  # fmt: skip
    return _timed_round(plan, timed, order) if TIME in plan.parts else []


def _timed_round(plan: Plan, timed: Sequence[Record], order: int) -> list[Run]:
    done = {name: len(_of(timed, name)) for name in (BASE, HEAD)}
    number = min(done[name] // _A_ROUND.count(name) for name in done)
    if number >= plan.runs:
        return []
    missing = [
        name
        for name in (BASE, HEAD)
        for _ in range((number + 1) * _A_ROUND.count(name) - done[name])
    ]
    random.Random(f"{plan.seed}/{number}").shuffle(missing)
    runs: list[Run] = []
    for name in missing:
        runs.append(_timed(plan, name, done[name], order + len(runs)))
        done[name] += 1
    return runs


def planned_runs(plan: Plan) -> int:
    """How many runs that makes when nothing fails."""
    counts = 2 * count.RUNS_TO_SEE_REPETITION if COUNT in plan.parts else 0
    return 2 + counts + (plan.runs * len(_A_ROUND) if TIME in plan.parts else 0)


def _timed(plan: Plan, name: str, number: int, order: int, warmup: bool = False) -> Run:
    return Run(compare.STUDY, name, plan.manager, number, order, warmup)


def _of(records: Sequence[Record], name: str, warmup: bool = False) -> list[Record]:
    return [each for each in records if (each.run.program, each.run.warmup) == (name, warmup)]


def _any_failed(records: Sequence[Record]) -> bool:
    return any(record.outcome.status is not Status.OK for record in records)
