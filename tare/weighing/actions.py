"""What a bill advises to do, across its sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tare.records.actions import MOST_ACTIONS, Action, ranked
from tare.records.results import Results, telling_damage
from tare.studies import modules
from tare.weighing.sections import of_results


def actions_of(results: Results, most: int = MOST_ACTIONS) -> Sequence[Action]:
    """Of all sections of a bill that have a function ``actions(results)``, or of a study that has
    a module with one, the best first."""
    found: list[Action] = []
    for section in _advising(results):
        if given := getattr(section, "actions", None):
            with telling_damage(results):
                found += given(results)
    every = ranked(found, most=len(found))
    return list(_each_once(every))[:most]


def _advising(results: Results) -> Iterable[Any]:
    if results.run.study == "weigh":
        return of_results(results)
    return [module for name, module in modules("actions") if name == results.run.study]


def _each_once(actions: Iterable[Action]) -> Iterator[Action]:
    """What two sections say of the same place is one action, that which is surer to bring more."""
    seen = set()
    for action in actions:
        key = action.kind, action.place
        if action.place is None or key not in seen:
            seen.add(key)
            yield action
