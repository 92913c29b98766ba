"""Holds the actions of a bill against what was planted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import convert

from tare.records.actions import Action
from tests.planted.collection import Planted
from tests.planted.measuring import Effect, UnmeasuredError

WITHIN = 0.03
"""Of the metric: so far a gain that was predicted may be from the one that was measured."""


@dataclass(frozen=True)
class Judgement:
    """``action`` is the one that names the fault, or else the first of all; ``rank`` counts from 1.
    Of a healthy program any action is wrong, and none is right."""

    program: Planted
    action: Action | None
    rank: int
    right: bool
    measured: float | None = None

    @property
    def predicted(self) -> float | None:
        return 1 - self.action.gain.ratio if self.action else None

    @property
    def within(self) -> bool:
        if self.measured is None or self.predicted is None:
            return False
        return abs(self.measured - self.predicted) <= WITHIN


def actions_of(bill: Path) -> Sequence[Action]:
    """What `tare weigh --json` wrote."""
    return convert(json.loads(bill.read_text())["actions"], list[Action])


def manager_named(action: Action, program: Planted) -> str | None:
    words = f"{action.text} {action.verify}"
    named = [name for name in program.managers if name in words]
    return min(named, key=words.index) if named else None


def names_the_fault(action: Action, program: Planted) -> bool:
    if action.kind not in program.kinds:
        return False
    if program.managers:
        return manager_named(action, program) is not None
    place = action.place
    return (
        place is not None
        and Path(place.file).name == program.source.name
        and place.line == program.line
    )


def judged(
    program: Planted, actions: Sequence[Action], effect: Callable[[Action], Effect]
) -> Judgement:
    """``effect`` measures what the fix does to the metric of an action."""
    if program.fault is None:
        first = actions[0] if actions else None
        return Judgement(program, first, len(actions[:1]), not actions)
    for rank, action in enumerate(actions, 1):
        if names_the_fault(action, program):
            try:
                measured = effect(action).gain
            except UnmeasuredError:
                return Judgement(program, action, rank, True)
            return Judgement(program, action, rank, True, measured)
    return Judgement(program, actions[0] if actions else None, len(actions[:1]), False)
