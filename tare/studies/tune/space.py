"""What can be set: managers with values of their options, by the names that managers have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tare.base.errors import UsageError
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import Recipe, load_recipes
from tare.memory_managers.manager import parse_name, print_name


@dataclass(frozen=True)
class Choice:
    """An option that may be left alone or have one of ``values``."""

    option: str
    values: tuple[str, ...]


Space = Mapping[str, tuple[Choice, ...]]
"""By manager, as a user named it, what may be set beside what the name says."""


def space_of(managers: Sequence[str], can_be: Callable[[str], bool] = lambda _name: True) -> Space:
    """Objects of the user's own and layers have nothing to set here. ``can_be`` says whether the
    program can run under a setting of one option."""

    def possible(manager: str, choice: Choice) -> Choice:
        names = {value: setting(manager, {choice.option: value}) for value in choice.values}
        return Choice(choice.option, tuple(v for v, name in names.items() if can_be(name)))

    return {
        manager: tuple(
            found for each in _choices(manager) if (found := possible(manager, each)).values
        )
        for manager in managers
    }


def _choices(manager: str) -> tuple[Choice, ...]:
    recipe = _recipe_of(manager)
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


def _recipe_of(manager: str) -> Recipe | None:
    """That of an allocator, or of a runtime's collector."""
    try:
        name, _ = parse_name(manager)
    except UsageError:  # an object, or a layer
        return None
    return runtimes.recipes().get(name) if runtimes.is_name(name) else load_recipes().get(name)


@cache
def _options_of(name: str) -> Sequence[str]:
    recipe = _recipe_of(name)
    return [option.name for option in recipe.options] if recipe is not None else []


def values_in(manager: str, name: str) -> Mapping[str, str]:
    """The inverse of ``setting``: what ``name`` sets beside what ``manager`` says."""
    if name == manager:
        return {}
    given = parse_name(manager)[1]
    return {option: value for option, value in parse_name(name)[1].items() if option not in given}
