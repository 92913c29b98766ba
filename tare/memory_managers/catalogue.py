"""What each manager of the catalogue is, read from its manager.toml.

A folder with a manager.toml is a manager: the ones that come with Tare, and the user's own in
$XDG_CONFIG_HOME/tare/managers/NAME/. docs/managers.md documents the format.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from tare.base.errors import TareError, UsageError
from tare.base.libraries import pl
from tare.base.native import PACKAGE, native_roots

Kind = Literal["malloc", "classic", "collector", "system", "layer"]
Build = Literal["package", "demand", "none"]
OptionType = Literal["size", "int", "flag", "choice"]

SCHEMA = 1
NAME = re.compile(r"[a-z][a-z0-9-]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
SYMBOL = re.compile(r"[A-Za-z_.$][\w.$@]*", re.ASCII)
_MOST_SYMBOLS = 100
DEBIAN_LIBRARY_FOLDERS = (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib"))


class RecipeError(TareError):
    """A manager.toml is wrong; the message names the file and the key."""


@dataclass(frozen=True)
class Option:
    """Something of a manager that can be set, carried to it by an environment variable."""

    name: str
    description: str
    type: OptionType
    env: str
    """"" for an option that Tare itself heeds."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """What each choice puts into the variable; "" leaves the variable alone. An option of another
    type may have some: words that stand for values."""
    default: str | None = None
    """None: nothing is set, and the manager does what its authors chose."""
    value: str = "{}"
    join: str | None = None
    """How this joins others in the same variable; None: the variable holds this alone."""

    def carried(self, given: str) -> str:
        """What the variable holds for a value as a user writes it; "" leaves the variable alone.

        Raises ValueError for a value that the option cannot take.
        """
        if given in self.choices:
            return self.choices[given]
        match self.type:
            case "choice":
                raise ValueError(f"must be one of {', '.join(self.choices)}")
            case "flag":
                if given not in ("true", "false"):
                    raise ValueError("must be true or false")
                return self.value.format(given)
            case "int":
                if not re.fullmatch(r"-?\d+", given):
                    raise ValueError("must be a whole number")
                return self.value.format(given)
            case "size":
                return self.value.format(_bytes(given))

    def environment_for(
        self, given: str | None, before: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The variable that carries a value; None sets nothing.

        A variable that holds several settings keeps what it has in ``before``.
        """
        carried = "" if given is None else self.carried(given)
        if not carried:
            return {}
        held = (before or {}).get(self.env, "") if self.join is not None else ""
        return {self.env: f"{held}{self.join}{carried}" if held else carried}


_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*(|B|KiB|MiB|GiB)", text)
    if match is None:
        raise ValueError("must be a size such as 64KiB")
    return int(match[1]) * _UNITS[match[2]]


@dataclass(frozen=True)
class Source:
    """Where the code of a manager comes from, pinned."""

    type: Literal["crate", "debian", "debian-source"]
    package: str
    """The name of the crate or of the Debian package."""
    version: str
    sha256: str
    paths: tuple[str, ...] = (".",)
    archive: str | None = None
    """Where the file of a Debian package, built or of its sources, lies on a mirror."""


@dataclass(frozen=True)
class Collector:
    """Functions of a manager's object that are collection and not allocation, by their symbols.

    ``work`` with all that it calls is collection; ``collection`` runs once for each.
    """

    work: tuple[str, ...]
    collection: str


@dataclass(frozen=True)
class Recipe:
    """One manager of the catalogue."""

    name: str
    title: str
    version: str
    licence: str
    homepage: str
    kind: Kind
    default_weigh: bool
    build: Build
    folder: Path
    source: Source | None = None
    object_file: str | None = None
    """File name of the object that must serve malloc; None when the machine's C library does."""
    options: tuple[Option, ...] = ()
    note: str = ""
    collector: Collector | None = None
    """None: what this manager does for collection is not told from the rest."""

    def environment(
        self, given: Mapping[str, str], inherited: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The variables that carry these options, and the defaults of the others.

        A variable that holds several settings keeps those of ``inherited``, by default the
        environment of Tare itself. Raises UsageError for an option or a value that is not one.
        """
        known = {option.name for option in self.options}
        for name in given:
            if name not in known:
                offered = ", ".join(sorted(known)) or "none"
                raise UsageError(f"{self.name} has no option '{name}'", f"its options: {offered}")
        before = dict(os.environ if inherited is None else inherited)
        variables: dict[str, str] = {}
        for option in self.options:
            value = given.get(option.name, option.default)
            try:
                variables |= option.environment_for(value, before | variables)
            except ValueError as error:
                raise UsageError(f"{self.name}({option.name}={value}): {error}") from None
        return variables


class _Table:
    """A table of a manager.toml being read: every key is asked for once, by its type."""

    def __init__(self, path: Path, prefix: str, table: object) -> None:
        self.path = path
        self.prefix = prefix
        if not isinstance(table, dict):
            raise RecipeError(f"{path}: {prefix.rstrip('.')} must be a table")
        self.rest: dict[str, Any] = dict(table)

    def wrong(self, key: str, why: str) -> RecipeError:
        return RecipeError(f"{self.path}: {self.prefix}{key}: {why}")

    def take(self, key: str, kind: type, default: Any = ...) -> Any:
        if key not in self.rest:
            if default is ...:
                raise self.wrong(key, "is missing")
            return default
        value: Any = self.rest.pop(key)
        # bool is an int to Python, but not to a reader of the file.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.wrong(key, f"must be {_KIND_NAMES[kind]}, not {value!r}")
        if isinstance(value, str) and not value.strip() and key not in _MAY_BE_EMPTY:
            raise self.wrong(key, "must not be empty")
        return value

    def text(self, key: str, default: object = ...) -> str:
        return cast(str, self.take(key, str, default))

    def optional_text(self, key: str) -> str | None:
        return cast("str | None", self.take(key, str, None))

    def choice(self, key: str, choices: tuple[str, ...], default: object = ...) -> str:
        value = self.text(key, default)
        if value not in choices:
            raise self.wrong(key, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def end(self) -> None:
        if self.rest:
            key = next(iter(self.rest))
            raise self.wrong(key, "is not a key of this format")


_KIND_NAMES = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
_MAY_BE_EMPTY = frozenset({"note"})


def _read_source(path: Path, raw: object) -> Source:
    table = _Table(path, "source.", raw)
    kind = table.choice("type", ("crate", "debian", "debian-source"))
    package = table.text("crate" if kind == "crate" else "package")
    version = table.text("version")
    sha256 = table.text("sha256")
    if not SHA256.fullmatch(sha256):
        raise table.wrong("sha256", "must be 64 hexadecimal digits")
    paths = table.take("paths", list, ["."])
    if not paths or not all(isinstance(item, str) for item in paths):
        raise table.wrong("paths", "must be a list of strings")
    if any(Path(item).is_absolute() or ".." in Path(item).parts for item in paths):
        raise table.wrong("paths", "must stay inside the source")
    archive = table.text("archive") if kind != "crate" else None
    table.end()
    return Source(cast(Any, kind), package, version, sha256, tuple(paths), archive)


def _read_collector(path: Path, raw: object) -> Collector:
    table = _Table(path, "collector.", raw)
    work = table.take("work", list)
    if not 0 < len(work) <= _MOST_SYMBOLS:
        raise table.wrong("work", f"must name 1 to {_MOST_SYMBOLS} functions")
    collection = table.text("collection")
    for key, symbols in (("work", work), ("collection", [collection])):
        if not all(isinstance(symbol, str) and SYMBOL.fullmatch(symbol) for symbol in symbols):
            raise table.wrong(key, "must hold symbols of functions")
    table.end()
    return Collector(tuple(work), collection)


def _read_option(path: Path, name: str, raw: object) -> Option:
    table = _Table(path, f"options.{name}.", raw)
    if not NAME.fullmatch(name):
        raise RecipeError(f"{path}: options.{name}: not a name (lower-case letters, digits, -)")
    choices = table.take("choices", dict, {})
    if not all(isinstance(value, str) for value in choices.values()):
        raise table.wrong("choices", "must map each choice to a string")
    if choices:
        kind = table.choice("type", ("choice",), "choice")
    else:
        kind = table.choice("type", ("size", "int", "flag"))
    value = table.text("value", "{}")
    try:
        value.format("0")
    except (IndexError, KeyError, ValueError):
        raise table.wrong("value", "must hold {} where the value goes") from None
    option = Option(
        name=name,
        description=table.text("description"),
        type=cast(OptionType, kind),
        env=table.text("env", ""),
        choices=choices,
        default=table.optional_text("default"),
        value=value,
        join=table.optional_text("join"),
    )
    table.end()
    if option.default is not None:
        try:
            option.carried(option.default)
        except ValueError as error:
            raise table.wrong("default", str(error)) from None
    if not option.env and (kind != "choice" or any(choices.values())):
        raise table.wrong("env", "is missing, and there is a value to carry")
    return option


def read_recipe(path: Path) -> Recipe:
    """Read and check one manager.toml."""
    try:
        with path.open("rb") as file:
            raw = tomllib.load(file)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: {error}") from None
    table = _Table(path, "", raw)
    schema = table.take("schema", int)
    if schema != SCHEMA:
        raise table.wrong("schema", f"this Tare reads {SCHEMA}, not {schema}")
    name = table.text("name")
    if not NAME.fullmatch(name):
        raise table.wrong("name", f"not a name (lower-case letters, digits, -): {name!r}")
    if name != path.parent.name:
        raise table.wrong("name", f"must be that of its folder, {path.parent.name!r}")
    kind = cast(Kind, table.choice("kind", ("malloc", "classic", "collector", "system")))
    source = table.take("source", dict, None)
    served_by = table.take("object", dict, None)
    collector = table.take("collector", dict, None)
    if collector is not None and kind != "collector":
        raise table.wrong("collector", f'has no place in a manager of kind "{kind}"')
    if kind == "system":
        for key, given in (("source", source), ("object", served_by)):
            if given is not None:
                raise table.wrong(key, 'has no place in a manager of kind "system"')
    elif served_by is None:
        raise table.wrong("object", "is missing")
    object_file = None
    if served_by is not None:
        inner = _Table(path, "object.", served_by)
        object_file = inner.text("file")
        if "/" in object_file:
            raise inner.wrong("file", "must be the name of a file, without a folder")
        if collector is not None and re.search(r"[\s!]", object_file):
            raise inner.wrong("file", "must have no space and no ! where there is a collector")
        inner.end()
    build = cast(Build, table.choice("build", ("package", "demand", "none")))
    if build != "none" and source is None and kind != "classic":
        raise table.wrong("source", f'is missing, and build is "{build}"')
    recipe = Recipe(
        name=name,
        title=table.text("title"),
        version=table.text("version"),
        licence=table.text("licence"),
        homepage=table.text("homepage"),
        kind=kind,
        default_weigh=table.take("default_weigh", bool),
        build=build,
        folder=path.parent,
        source=None if source is None else _read_source(path, source),
        object_file=object_file,
        options=tuple(
            _read_option(path, option, value)
            for option, value in table.take("options", dict, {}).items()
        ),
        note=table.text("note", ""),
        collector=None if collector is None else _read_collector(path, collector),
    )
    table.end()
    return recipe


def package_folder() -> Path:
    return PACKAGE


def allocators_folder() -> Path:
    """The folder of the allocators that come with Tare: in the wheel, or in a source checkout."""
    return _shipped("allocators")


def classics_folder() -> Path:
    """The folder of the published designs that are Tare's own code."""
    return _shipped("classics")


def _shipped(folder: str) -> Path:
    installed = package_folder() / "_native" / folder
    return installed if installed.is_dir() else package_folder().parent / "managers" / folder


def _xdg(variable: str, default: str) -> Path:
    # The specification has relative paths ignored.
    given = os.environ.get(variable, "")
    return Path(given) if given.startswith("/") else Path.home() / default


def user_recipes_folder() -> Path:
    return _xdg("XDG_CONFIG_HOME", ".config") / "tare" / "managers"


def data_folder() -> Path:
    """Where managers installed on demand are kept."""
    return _xdg("XDG_DATA_HOME", ".local/share") / "tare" / "managers"


def load_recipes() -> dict[str, Recipe]:
    """Every manager of the catalogue by name; a user's own goes before one that comes with Tare,
    and stays away if it is broken."""
    recipes: dict[str, Recipe] = {}
    for folder in (allocators_folder(), classics_folder()):
        for path in sorted(folder.glob("*/manager.toml")):
            recipe = read_recipe(path)
            recipes[recipe.name] = recipe
    recipes.update({own.name: own for own in _users().values() if isinstance(own, Recipe)})
    return dict(sorted(recipes.items()))


def broken_recipes() -> dict[str, RecipeError]:
    """What is wrong with descriptions of managers that a user wrote, by the names of their
    folders."""
    return {name: own for name, own in _users().items() if isinstance(own, RecipeError)}


def _users() -> dict[str, Recipe | RecipeError]:
    found: dict[str, Recipe | RecipeError] = {}
    for path in sorted(user_recipes_folder().glob("*/manager.toml")):
        try:
            found[path.parent.name] = read_recipe(path)
        except RecipeError as error:
            found[path.parent.name] = error
    return found


def installed_folder(recipe: Recipe) -> Path:
    return data_folder() / f"{recipe.name}-{recipe.version}"


def object_path(recipe: Recipe) -> Path | None:
    """The object to preload for a manager, or None while it is not built or installed."""
    if recipe.object_file is None:
        return None
    places = [
        *(root / "managers" / recipe.name for root in native_roots()),
        installed_folder(recipe),
        recipe.folder,
    ]
    if recipe.source is not None and recipe.source.type == "debian":
        places += DEBIAN_LIBRARY_FOLDERS
    for place in places:
        candidate = place / recipe.object_file
        if candidate.is_file():
            return candidate
    return None


def managers() -> pl.DataFrame:
    """Every manager that Tare knows: name, version, kind, installed, object, title."""
    rows = []
    for recipe in load_recipes().values():
        found = object_path(recipe)
        there = recipe.kind == "system" or found is not None
        rows.append(
            (recipe.name, recipe.version, recipe.kind, there, str(found or ""), recipe.title)
        )
    columns = ["name", "version", "kind", "installed", "object", "title"]
    return pl.DataFrame(rows, schema=columns, orient="row")
