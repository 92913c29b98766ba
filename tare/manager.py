"""Manager names: read, checked, printed, and turned into what a process needs to run under one.

    name                     jemalloc
    name(option=value, …)    bdwgc(free=honoured)
    path of an object        ./libmine.so

A name that Tare prints can always be typed in again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tare.errors import MissingError, UsageError
from tare.recipes import Collector, load_recipes, object_path

OWN = "own"
"""No manager is put under the program: whatever it links serves it."""

_NAME_LIMIT = 500
_CALL = re.compile(r"(?P<name>[a-z][a-z0-9.-]*)\s*(?:\((?P<options>[^()]*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class Manager:
    """``preload`` objects go first in LD_PRELOAD. A run counts only when malloc resolves to
    ``server`` in every process that can tell; None accepts any. ``collector`` says which of its
    functions collect, where that is known."""

    name: str
    preload: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    server: Path | None = None
    version: str = ""
    title: str = ""
    collector: Collector | None = None

    def serves(self, mapped_object: str) -> bool:
        """Whether ``mapped_object``, a path that a process reported, is this manager."""
        if self.server is None:
            return True
        try:
            return self.server.samefile(mapped_object)
        except OSError:
            return False


def parse_name(text: str) -> tuple[str, dict[str, str]]:
    """Split ``name(option=value, …)`` into the name and its options."""
    if len(text) > _NAME_LIMIT:
        raise UsageError(f"a manager name of {len(text)} characters")
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' is not a manager name",
            "write name, name(option=value) or the path of an object; `tare managers` lists them",
        )
    options: dict[str, str] = {}
    for part in (match["options"] or "").split(","):
        if not part.strip():
            continue
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise UsageError(f"'{part.strip()}' in '{text}' is not of the form option=value")
        if key in options:
            raise UsageError(f"'{text}' gives the option {key} twice")
        options[key] = value
    return match["name"], options


def resolve(text: str) -> Manager:
    """The manager of that name, ready to run. Raises UsageError for a name that means nothing and
    MissingError for one that is not installed."""
    if "/" in text:
        return _own_object(text)
    name, options = parse_name(text)
    if name == OWN:
        if options:
            raise UsageError("own takes no options")
        return Manager(OWN, title="whatever the program links")
    recipes = load_recipes()
    recipe = recipes.get(name)
    if recipe is None:
        raise UsageError(
            f"there is no manager '{name}'",
            f"known: {', '.join(sorted([*recipes, OWN]))}; or give the path of an object",
        )
    printed = name
    if options:
        printed += "(" + ", ".join(f"{key}={value}" for key, value in options.items()) + ")"
    environment = recipe.environment(options)
    system = recipe.kind == "system"
    found = machine_libc() if system else object_path(recipe)
    if found is None:
        raise MissingError(f"the manager {name} is not installed", f"tare managers install {name}")
    version = _libc_version() if system else recipe.version
    return Manager(printed, (found,), environment, found, version, recipe.title, recipe.collector)


def default_managers() -> list[str]:
    """Names of the installed managers that `tare weigh` tries, the baseline glibc first."""
    chosen = [
        recipe.name
        for recipe in load_recipes().values()
        if recipe.default_weigh and (recipe.kind == "system" or object_path(recipe) is not None)
    ]
    return sorted(chosen, key=lambda name: (name != "glibc", name))


def machine_libc() -> Path:
    """The libc that this process itself runs on."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if re.search(r"(^|/)libc(\.so\.6|-2\.\d+\.so)$", path):
            return Path("/" + path)
    raise MissingError("this Python does not run on glibc", "use a Python that is linked to glibc")


def _libc_version() -> str:
    import os

    return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"


def _own_object(text: str) -> Manager:
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"the manager's object {text} does not exist")
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            raise UsageError(f"{text} is not a shared object")
    absolute = path.resolve()
    return Manager(text, (absolute,), {}, absolute, "", "an object of yours")
