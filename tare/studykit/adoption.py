"""How to put a program under another manager for good: by the distribution's package, with a flag
of the linker or a variable of the environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.native import built_for_musl
from tare.memory_managers import conditions, runtimes
from tare.memory_managers.catalogue import Recipe, load_recipes
from tare.memory_managers.manager import OWN, parse_name
from tare.programs.program import Program
from tare.records.header import Header

_ANY_COMMAND = Program("", ("sh",))
"""One in which no runtime finds a place for options of its own."""
_IN_THE_C_LIBRARY = "the C library has it"


def recipe_of(manager: str) -> Recipe | None:
    """That of the catalogue; None for objects of the user's own, for layers, and for a name that
    this Tare does not have."""
    try:
        return load_recipes().get(parse_name(manager)[0])
    except UsageError:
        return None


def called(run: Header, manager: str) -> str:
    """``manager``, or what the program brings along."""
    if manager == OWN and run.own_allocators:
        return f"its own {run.own_allocators[0].allocator or 'allocator'}"
    return manager


def how(run: Header, manager: str) -> str:
    """Where it comes from and how the program gets it, for a sentence; "" where nothing is
    known."""
    if (setting := _of_runtime(manager)) is not None:
        by_hand = runtimes.runtime(setting.runtime).BY_HAND
        said = {setting.collector: "", **setting.options}
        return "; ".join(by_hand[name].format(v) for name, v in said.items() if name in by_hand)
    variables, inner = runtimes.variables_over_malloc(manager)
    if not variables:
        return _where(run, inner)
    ways = [f"set {' '.join(_assigned(variables))}", _where(run, inner)]
    return "; ".join(way for way in ways if way not in ("", _IN_THE_C_LIBRARY))


def _assigned(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={shlex.quote(value)}" for name, value in variables.items()]


def _of_runtime(manager: str) -> runtimes.Setting | None:
    """The setting of a runtime's collector that a name asks for; None for another name."""
    try:
        name, options = parse_name(manager)
        return runtimes.setting_of(name, options) if runtimes.is_name(name) else None
    except UsageError:
        return None


def _with_musl(run: Header) -> bool:
    """A distribution's packages for glibc are then of no use."""
    return any(program.with_musl for program in run.programs)


def _where(run: Header, manager: str) -> str:
    recipe = recipe_of(manager)
    if recipe is None:
        return ""
    if recipe.use is not None and not _with_musl(run):
        linked = f", or link with {recipe.use.link} ({recipe.use.development})"
        return f"install {recipe.use.package} and set LD_PRELOAD={recipe.use.preload}{linked}"
    if recipe.kind == "system":
        return _IN_THE_C_LIBRARY
    build = "build it with musl" if _with_musl(run) else "no package: build it"
    if recipe.source is not None and recipe.source.type == "crate":
        return f"{build} from the crate {recipe.source.package}"
    return f"{build} from {recipe.homepage}"


def command(run: Header, manager: str) -> tuple[str, str]:
    """The label of a shell command, and the command, which runs the program under ``manager``; or,
    where no package has that, which tells where it comes from. None for a program with an allocator
    of its own: it must be built in another way first; nor for a part of the machine."""
    if run.own_allocators or conditions.begins(manager):
        return "", ""
    label = f"to run it under {manager}"
    if (setting := _of_runtime(manager)) is not None:
        plain = Program("", tuple(run.programs[0].argv))
        changed = runtimes.runtime(setting.runtime).advice(setting, plain)
        if changed == plain:
            return "", ""
        return label, " ".join([*_assigned(changed.environment), shlex.join(changed.argv)])
    settings = environment(run, manager)
    _, inner = runtimes.variables_over_malloc(manager)
    recipe = recipe_of(inner)
    if recipe is None and inner != OWN and "/" not in inner:
        return "", ""
    program = shlex.join(run.programs[0].argv)
    if recipe is not None and recipe.use is not None and not _with_musl(run):
        label += f", of Debian's package {recipe.use.package}"
    elif recipe is not None and recipe.kind != "system":
        return f"where {manager} comes from", f"tare managers show {recipe.name}"
    if not settings:
        return "", ""
    return label, " ".join([*_assigned(settings), program])


def environment(run: Header, manager: str) -> Mapping[str, str]:
    """The variables that put a program under ``manager``: with a package of a distribution by its
    name there, else with the object that was measured."""
    if (setting := _of_runtime(manager)) is not None:
        return runtimes.runtime(setting.runtime).advice(setting, _ANY_COMMAND).environment
    described = run.managers.get(manager)
    variables, inner = runtimes.variables_over_malloc(manager)
    settings = {**variables, **(described.environment if described else {})}
    recipe = recipe_of(inner)
    if recipe is not None and recipe.use is not None and not _with_musl(run):
        settings["LD_PRELOAD"] = recipe.use.preload
    elif (recipe is None or recipe.kind != "system") and inner != OWN and described:
        settings["LD_PRELOAD"] = _preloaded(run, described.object or "")
    return {name: value for name, value in settings.items() if value}


def _preloaded(run: Header, path: str) -> str:
    """The object itself, or what was built of it for musl and is here."""
    found = built_for_musl(Path(path)) if _with_musl(run) else None
    return str(found or path)


def link(run: Header, manager: str) -> str:
    """The flag of the linker that puts it into the program; "" where no distribution has one."""
    recipe = recipe_of(runtimes.variables_over_malloc(manager)[1])
    return recipe.use.link if recipe and recipe.use and not _with_musl(run) else ""
