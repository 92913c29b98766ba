"""Whether programs can run under managers at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tare.base.errors import MissingError, UsageError
from tare.base.native import built_for_musl
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import load_recipes, object_path
from tare.memory_managers.manager import OWN, Manager
from tare.programs.elf import is_of_musl, needs_glibc
from tare.programs.program import Program, find_executable


def check(programs: Iterable[Program], managers: Iterable[Manager], watched: str = "") -> None:
    """Raise what ``Runtime.check`` raises for any of the programs under any of the managers, what
    ``built_for`` raises, and UsageError for what looks at malloc and free, whose name is
    ``watched``.
    """
    managers = list(managers)
    for manager in managers:
        for program in programs:
            built_for(program, manager.preload)
    of_runtimes = [manager for manager in managers if manager.runtime is not None]
    for manager in of_runtimes:
        if watched and manager.of_runtime_alone:
            raise UsageError(
                f"{manager.name} is a collector of a runtime; {watched} looks at malloc and free",
                f"tare compare -m '{manager.name}' measures time, memory and collections",
            )
        setting = manager.runtime
        assert setting is not None
        for program in programs:
            runtimes.runtime(setting.runtime).check(setting, program)


def is_with_musl(program: Program) -> bool:
    """Whether the program is there, and linked with musl."""
    try:
        return is_of_musl(find_executable(program))
    except UsageError:  # told when the program is checked
        return False


def built_for(program: Program, objects: tuple[Path, ...]) -> tuple[Path, ...]:
    """The objects to be preloaded, as they are built for the C library of ``program``. Raises
    MissingError where one is built for glibc alone, and the program is linked with musl."""
    if not objects or not is_with_musl(program):
        return objects
    return tuple(_of_musl(program, path) for path in objects)


def _of_musl(program: Program, path: Path) -> Path:
    found = built_for_musl(path)
    if found is not None:
        return found
    if needs_glibc(path):
        built = (object_path(recipe) for recipe in load_recipes().values())
        names = [path.parent.name for path in built if path is not None and built_for_musl(path)]
        raise MissingError(
            f"{program.name} is linked with musl, and {path.name} is for programs of glibc",
            f"give -m {OWN}, which is musl's malloc, or another that is built for musl: "
            f"{', '.join(names)}",
        )
    return path
