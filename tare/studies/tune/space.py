"""What can be set: managers with values of their options, by the names that managers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tare.memory_managers.catalogue import load_recipes
from tare.memory_managers.manager import parse_name, print_name
from tare.studykit.adoption import recipe_of


@dataclass(frozen=True)
class Choice:
    """An option that may be left alone or have one of ``values``."""

    option: str
    values: tuple[str, ...]


Space = Mapping[str, tuple[Choice, ...]]
"""By manager, as a user named it, what may be set beside what the name says."""


def space_of(managers: Sequence[str]) -> Space:
    """Objects of the user's own, layers and runtimes have nothing to set here."""
    return {manager: _choices(manager) for manager in managers}


def _choices(manager: str) -> tuple[Choice, ...]:
    recipe = recipe_of(manager)
    if recipe is None:
        return ()
    _, given = parse_name(manager)
    return tuple(
        Choice(option.name, option.tried)
        for option in recipe.options
        if option.tried and option.name not in given
    )


def setting(manager: str, values: Mapping[str, str]) -> str:
    """The name of ``manager`` with ``values``, by option, added to it; always in the same order."""
    if not values:
        return manager
    name, given = parse_name(manager)
    chosen = {**given, **values}
    return print_name(name, {key: chosen[key] for key in _options_of(name) if key in chosen})


@cache
def _options_of(name: str) -> Sequence[str]:
    return [option.name for option in load_recipes()[name].options]


def values_in(manager: str, name: str) -> Mapping[str, str]:
    """The inverse of ``setting``: what ``name`` sets beside what ``manager`` says."""
    if name == manager:
        return {}
    given = parse_name(manager)[1]
    return {option: value for option, value in parse_name(name)[1].items() if option not in given}
