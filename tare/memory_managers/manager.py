"""Manager names: read, checked, printed, and turned into what a process needs to run under one.

    name                     jemalloc
    name(option=value, …)    bdwgc(free=honoured)
    path of an object        ./libmine.so
    layer(name, …)           delay(mimalloc, size=1MiB): a layer in front of another manager
    runtime.collector(…)     jvm.g1(heap=64MiB): a collector of the runtime that the program needs
    cpython.malloc(name)     a runtime that takes each object from another manager
    machine(name, …)         machine(glibc, cpus=0): any of these, on a part of the machine

A name that Tare prints can always be typed in again.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tare.base.errors import MissingError, UsageError
from tare.base.files import hash_file
from tare.base.native import built_for_musl, native_file
from tare.memory_managers import conditions, layers, mmtk, runtimes
from tare.memory_managers.catalogue import (
    Collector,
    broken_recipes,
    load_recipes,
    object_path,
    options_in,
)
from tare.records.conditions import WHOLE_MACHINE, Conditions

OWN = "own"
"""No manager is put under the program: whatever it links serves it."""

_NAME_LIMIT = 500
_CALL = re.compile(r"(?P<name>[a-z][a-z0-9.-]*)\s*(?:\((?P<options>[^()]*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class Manager:
    """``preload`` objects go first in LD_PRELOAD. A run counts only when malloc resolves to
    ``server`` in every process that can tell; None accepts any. ``collector`` says which of its
    functions collect, where that is known. With a ``layer``, of the module ``layer_name`` of
    ``tare.layers``, malloc and free resolve to that object, and it shows itself that ``server``
    stands behind it; unless it leaves malloc alone, and ``layer_serves`` is False. ``replayer`` is
    the command that replays a schedule under a manager that serves nothing else. ``runtime`` is
    the setting of a runtime's collector: malloc is then served by whatever the program links, or,
    where the setting takes each object from malloc, by ``server``. ``conditions`` say what of the
    machine it has."""

    name: str
    preload: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    server: Path | None = None
    version: str = ""
    title: str = ""
    collector: Collector | None = None
    layer: Path | None = None
    layer_name: str = ""
    layer_serves: bool = True
    replayer: tuple[str, ...] = ()
    runtime: runtimes.Setting | None = None
    conditions: Conditions = WHOLE_MACHINE

    @property
    def bare_name(self) -> str:
        """``name`` without what it says of the machine."""
        return conditions.split_name(self.name)[0]

    @property
    def of_runtime_alone(self) -> bool:
        """Whether malloc is left to whatever the program links."""
        return self.runtime is not None and not self.preload

    def serves(self, mapped_object: str) -> bool:
        """Whether ``mapped_object``, to which malloc of a process resolves, is this manager."""
        layer = self.layer if self.layer_serves else None
        return _is_file(layer or self.server, mapped_object)

    def behind(self, front: Path, variables: Mapping[str, str]) -> Manager:
        """This manager with the object ``front`` before it, which passes each call on: malloc and
        free resolve to that, and the manager must be shown to stand behind it."""
        layered = self.layer is not None
        return replace(
            self,
            preload=(front, *self.preload),
            environment={**self.environment, **variables},
            server=self.server if layered else front,
            layer=front if layered else None,
            layer_serves=True,
        )

    def stands_behind(self, mapped_object: str) -> bool:
        """Whether ``mapped_object`` is what must serve behind the layer."""
        return _is_file(self.server, mapped_object)


def _is_file(expected: Path | None, path: str) -> bool:
    if expected is None:
        return True
    of_musl = built_for_musl(expected)
    try:
        return expected.samefile(path) or (of_musl is not None and of_musl.samefile(path))
    except OSError:
        return False


def parse_name(text: str) -> tuple[str, dict[str, str]]:
    """Split ``name(option=value, …)`` into the name and its options."""
    if len(text) > _NAME_LIMIT:
        raise UsageError(f"a manager name of {len(text)} characters")
    if conditions.begins(text):
        raise UsageError(
            f"'{text}' must enclose the whole name of a manager, and does not work in a study that "
            "puts a layer over its managers",
            f"write {conditions.NAME}(delay(glibc), cpus=0), or give --cpus and --hugepages",
        )
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' is not a manager name",
            "write name, name(option=value) or the path of an object; `tare managers` lists them",
        )
    parts = filter(str.strip, (match["options"] or "").split(","))
    return match["name"], options_in(parts, text)


def resolve(text: str, *, replays: bool = False) -> Manager:
    """The manager of that name, ready to run, or with ``replays`` to replay a heap trace. Raises
    UsageError for a name that means nothing and MissingError for one that is not installed."""
    if not text.isprintable():
        raise UsageError(f"{text!r} is not the name of a manager", "a name is printable UTF-8")
    if conditions.begins(text):
        return _on_part_of_machine(text, replays)
    if (name_of_layer := layers.split_name(text)) is not None:
        return _layered(text, name_of_layer)
    if (over := runtimes.over_malloc(text)) is not None:
        return _over_malloc(*over, replays)
    if "/" in text:
        return _own_object(text)
    name, options = parse_name(text)
    if name == OWN:
        if options:
            raise UsageError("own takes no options")
        return Manager(OWN, title="whatever the program links")
    if name in mmtk.PLANS:
        return _collector(name, options, replays)
    if runtimes.is_name(name):
        return _of_runtime(name, options, replays)
    recipes = load_recipes()
    recipe = recipes.get(name)
    if recipe is None:
        if name in (broken := broken_recipes()):
            raise broken[name]
        known = sorted([*recipes, *(mmtk.PLANS if replays else ()), OWN])
        alike = difflib.get_close_matches(name, known, n=1)
        raise UsageError(
            f"there is no manager '{name}'",
            f"did you mean {alike[0]}? `tare managers` lists all"
            if alike
            else f"known: {', '.join(known)}; or give the path of an object",
        )
    environment = recipe.environment(options)
    system = recipe.kind == "system"
    found = machine_libc() if system else object_path(recipe)
    if found is None:
        raise MissingError(f"the manager {name} is not installed", f"tare managers install {name}")
    version = os.confstr("CS_GNU_LIBC_VERSION") or "unknown" if system else recipe.version
    printed = print_name(name, options)
    return Manager(printed, (found,), environment, found, version, recipe.title, recipe.collector)


def print_name(name: str, options: Mapping[str, str]) -> str:
    """The inverse of ``parse_name``."""
    return f"{name}({', '.join(_settings(options))})" if options else name


def options_of(text: str) -> dict[str, str]:
    """Those of a manager's name, without what it says of the machine."""
    return parse_name(conditions.split_name(text)[0])[1]


def with_options(text: str, options: Mapping[str, str]) -> str:
    """A manager's name with these options in place of its own, on the same part of the machine."""
    bare, around = conditions.split_name(text)
    changed = print_name(parse_name(bare)[0], options)
    return conditions.name_of(changed, around) if around.asked() else changed


def _settings(options: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in options.items()]


def _collector(name: str, options: Mapping[str, str], replays: bool) -> Manager:
    if not replays:
        raise UsageError(
            f"{name} is a collector for replays: no program runs under it",
            f"record a trace (tare trace), then: tare replay -m {name} T.tare",
        )
    return Manager(
        print_name(name, options),
        version=mmtk.VERSION,
        title=mmtk.PLANS[name].title,
        replayer=mmtk.command(name, options),
    )


def _of_runtime(name: str, options: Mapping[str, str], replays: bool) -> Manager:
    if replays:
        raise UsageError(
            f"{name} is a collector of a runtime: it serves programs, and replays nothing",
            "`tare managers` lists the collectors for replays",
        )
    setting = runtimes.setting_of(name, options)
    recipe = runtimes.recipes()[name]
    printed = print_name(name, options)
    return Manager(printed, version=recipe.version, title=recipe.title, runtime=setting)


def _over_malloc(name: str, inner_name: str, replays: bool) -> Manager:
    of_runtime = _of_runtime(name, {}, replays)
    inner = resolve(inner_name)
    if inner.runtime is not None:
        raise UsageError(
            f"{inner.name} is a collector, and {name} needs an allocator",
            "`tare managers` lists the allocators",
        )
    return replace(
        inner,
        name=f"{name}({inner.name})",
        title=f"{inner.title}; {of_runtime.title}",
        runtime=of_runtime.runtime,
    )


def _on_part_of_machine(text: str, replays: bool) -> Manager:
    if len(text) > _NAME_LIMIT:
        raise UsageError(f"a manager name of {len(text)} characters")
    inner_name, around = conditions.split_name(text)
    if conditions.begins(inner_name):
        raise UsageError(f"'{text}' gives the part of the machine twice", "put all into one")
    inner = resolve(inner_name, replays=replays)
    return replace(inner, name=conditions.name_of(inner.name, around), conditions=around)


def _layered(text: str, name: layers.LayerName) -> Manager:
    if len(text) > _NAME_LIMIT:
        raise UsageError(f"a manager name of {len(text)} characters")
    if layers.split_name(name.inner) is not None:
        raise UsageError(f"'{text}' has two layers", "give one layer over an allocator")
    if "/" not in name.inner:
        inner_name = parse_name(name.inner)[0]
        recipe = load_recipes().get(inner_name)
        if runtimes.is_name(inner_name) or (recipe is not None and recipe.kind == "collector"):
            raise UsageError(
                f"{inner_name} is a collector, and {name.layer} needs an allocator",
                f"put {name.layer} over an allocator; `tare managers` lists them",
            )
    layer = layers.layers()[name.layer]
    variables = layer.environment(name.options)
    inner = resolve(name.inner)
    layer_object = native_file(layer.OBJECT)
    return Manager(
        f"{name.layer}({', '.join([inner.name, *_settings(name.options)])})",
        (layer_object, *inner.preload),
        {**inner.environment, **variables},
        inner.server,
        inner.version,
        f"{inner.title}; {layer.EFFECT}",
        layer=layer_object,
        layer_name=name.layer,
        layer_serves=layer.SERVES_MALLOC,
    )


def default_managers(baseline: str = "glibc") -> list[str]:
    """Names of the installed managers that `tare weigh` tries, the baseline first: glibc, or own
    for programs that are linked with musl."""
    usual = (recipe for recipe in load_recipes().values() if recipe.default_weigh)
    found = {recipe.name: object_path(recipe) for recipe in usual if recipe.kind != "system"}
    others = sorted(
        name
        for name, path in found.items()
        if path is not None and (baseline != OWN or built_for_musl(path) is not None)
    )
    return [baseline, *others]


def machine_libc() -> Path:
    """The libc that this process itself runs on."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if re.search(r"(^|/)libc(\.so\.6|-2\.\d+\.so)$", path):
            return Path("/" + path)
    raise MissingError("this Python does not run on glibc", "use a Python that is linked to glibc")


def _own_object(text: str) -> Manager:
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"the manager's object {text} does not exist")
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            raise UsageError(f"{text} is not a shared object")
    absolute = path.resolve()
    return Manager(text, (absolute,), {}, absolute, "", "an object of yours")


def describe_managers(managers: Mapping[str, Manager]) -> dict[str, Any]:
    """By name, what run.json says of managers."""
    return {
        name: {
            "version": manager.version,
            "title": manager.title,
            "object": str(manager.server) if manager.server else None,
            "object_sha256": hash_file(manager.server) if manager.server else None,
            **(
                {"layer": str(manager.layer), "layer_sha256": hash_file(manager.layer)}
                if manager.layer
                else {}
            ),
            "environment": dict(manager.environment),
            **({"machine": around} if (around := manager.conditions.asked()) else {}),
        }
        for name, manager in managers.items()
    }
