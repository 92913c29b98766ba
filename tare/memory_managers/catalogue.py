"""What each manager of the catalogue is, read from its manager.toml.

A folder with a manager.toml is a manager: the ones that come with Tare, and the user's own in
$XDG_CONFIG_HOME/tare/managers/NAME/. docs/managers.md documents the format.
"""

from __future__ import annotations

import difflib
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from tare.base.documents import DocumentError, Sha256, Text, file_content, toml
from tare.base.errors import TareError, UsageError
from tare.base.libraries import pl
from tare.base.native import CHECKOUT, NATIVE, native_roots
from tare.base.units import parse_size

Kind = Literal["malloc", "classic", "collector", "system", "layer"]
Build = Literal["package", "demand", "none"]
OptionType = Literal["size", "int", "flag", "choice"]

Name = Annotated[
    str,
    Meta(
        pattern=r"\A[a-z][a-z0-9-]*\Z",
        description="a name of lower-case letters, digits and -",
    ),
]
Symbol = Annotated[
    str, Meta(pattern=r"\A[A-Za-z_.$][A-Za-z0-9_.$@]*\Z", description="the symbol of a function")
]
Month = Annotated[
    str, Meta(pattern=r"\A\d{4}-(0[1-9]|1[0-2])\Z", description="a month such as 2026-11")
]
Year = Annotated[str, Meta(pattern=r"\A\d{4}\Z", description="a year such as 2012")]
_MOST_SYMBOLS = 100
DEBIAN_LIBRARY_FOLDERS = (Path(f"/usr/lib/{platform.machine()}-linux-gnu"), Path("/usr/lib"))


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
    least: int | None = None
    most: int | None = None
    """Bounds of a number, of a size in bytes; None: none."""
    usual: str = ""
    """What the manager does where nothing is set, in words; "" where its authors do not say."""
    tried: tuple[str, ...] = ()
    """The values that `tare tune` tries, those most likely to change time or memory first."""

    @property
    def values(self) -> str:
        """What may be given, for people: words, or a type and its bounds."""
        words = list(self.choices)
        if self.type == "flag":
            words += ["true", "false"]
        elif self.type != "choice":
            words.append(" ".join([self.type, *self._bounds()]))
        return "|".join(words)

    def _bounds(self) -> list[str]:
        bounds = {"from": self.least, "up to": self.most}
        return [f"{word} {self._written(n)}" for word, n in bounds.items() if n is not None]

    def _written(self, number: int) -> str:
        """As it may be given."""
        units = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
        if self.type == "int":
            return str(number)
        return next(f"{number // of}{unit}" for unit, of in units.items() if number % of == 0)

    def _within(self, number: int) -> int:
        too_small = self.least is not None and number < self.least
        if too_small or (self.most is not None and number > self.most):
            raise ValueError(f"must be {' '.join(self._bounds())}")
        return number

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
                return self.value.format(self._within(int(given)))
            case "size":
                return self.value.format(self._within(_bytes(given)))

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


def _bytes(text: str) -> int:
    try:
        return parse_size(text)
    except UsageError:
        raise ValueError("must be a size such as 64KiB") from None


def options_in(parts: Iterable[str], text: str) -> dict[str, str]:
    """The options among the ``parts`` of a manager's name, which is ``text``. Raises UsageError."""
    options: dict[str, str] = {}
    for part in parts:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise UsageError(f"'{part.strip()}' in '{text}' is not of the form option=value")
        if key in options:
            raise UsageError(f"'{text}' gives the option {key} twice")
        options[key] = value
    return options


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the code of a manager comes from, pinned."""

    type: Literal["crate", "debian", "debian-source"]
    version: Text
    sha256: Sha256
    crate: Text = ""
    package: Text = ""
    """The name of the Debian package; a crate's, too, once it is read."""
    paths: Annotated[
        tuple[Text, ...], Meta(min_length=1, description="a list of strings, not empty")
    ] = (".",)
    archive: Text = ""
    """Where the file of a Debian package, built or of its sources, lies on a mirror."""

    def __post_init__(self) -> None:
        of_crate = self.type == "crate"
        for key, belongs in (
            ("crate", of_crate),
            ("package", not of_crate),
            ("archive", not of_crate),
        ):
            if bool(getattr(self, key)) != belongs:
                wrong = "is missing" if belongs else f'has no place where type is "{self.type}"'
                raise ValueError(f"{key}: {wrong}")
        if any(Path(item).is_absolute() or ".." in Path(item).parts for item in self.paths):
            raise ValueError("paths: must stay inside the source")
        structs.force_setattr(self, "package", self.package or self.crate)


class Use(Struct, frozen=True, forbid_unknown_fields=True):
    """How a distribution offers it: the Debian package of the object, the object's name, the
    package to link with and the linker's flag."""

    package: Text
    preload: Text
    development: Text
    link: Text


class Upstream(Struct, frozen=True, forbid_unknown_fields=True):
    """What its authors have released, as far as that was known; "" where it was not."""

    released: Month = ""
    """When the version that Tare has came out."""
    newest: Text = ""
    as_of: Month = ""
    """When ``newest`` was that."""
    stopped: Year = ""
    """Of the last release, where no other is to come."""

    def __post_init__(self) -> None:
        if bool(self.newest) != bool(self.as_of):
            raise ValueError("as_of: goes with newest, and newest with as_of")


_UNKNOWN = Upstream()


class Collector(Struct, frozen=True, forbid_unknown_fields=True):
    """Functions of a manager's object that are collection and not allocation, by their symbols.

    ``work`` with all that it calls is collection; ``collection`` runs once for each.
    """

    work: Annotated[
        tuple[Symbol, ...],
        Meta(
            min_length=1,
            max_length=_MOST_SYMBOLS,
            description=f"a list of 1 to {_MOST_SYMBOLS} symbols of functions",
        ),
    ]
    collection: Symbol


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
    use: Use | None = None
    """None where no distribution has it as it is measured."""
    upstream: Upstream = _UNKNOWN

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
                offered = f"its options: {', '.join(sorted(known)) or 'none'}"
                alike = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {alike[0]}? {offered}" if alike else offered
                raise UsageError(f"{self.name} has no option '{name}'", hint)
        before = dict(os.environ if inherited is None else inherited)
        variables: dict[str, str] = {}
        for option in self.options:
            value = given.get(option.name, option.default)
            try:
                variables |= option.environment_for(value, before | variables)
            except ValueError as error:
                raise UsageError(f"{self.name}({option.name}={value}): {error}") from None
        return variables


class _ObjectTable(Struct, frozen=True, forbid_unknown_fields=True):
    file: Annotated[
        str,
        Meta(
            pattern=r"\A[^/\0]*[^/\0\s][^/\0]*\Z",
            description="the name of a file, without a folder",
        ),
    ]


class _OptionTable(Struct, frozen=True, forbid_unknown_fields=True):
    description: Text
    type: OptionType = "choice"
    env: Text = ""
    choices: Annotated[
        dict[str, str], Meta(description="a table with a string for each choice")
    ] = {}
    default: Text | None = None
    value: Text = "{}"
    join: Text | None = None
    least: int | None = None
    most: int | None = None
    usual: str = ""
    tried: tuple[Text, ...] = ()

    def __post_init__(self) -> None:
        if (self.type == "choice") != bool(self.choices):
            wanted = "choice, as there are choices" if self.choices else "one of size, int, flag"
            raise ValueError(f"type: must be {wanted}")
        for key, bound in (("least", self.least), ("most", self.most)):
            if bound is not None and self.type not in ("int", "size"):
                raise ValueError(f'{key}: has no place where type is "{self.type}"')
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError("least: is more than most")
        try:
            self.value.format("0")
        except (IndexError, KeyError, ValueError):
            raise ValueError("value: must hold {} where the value goes") from None
        given = [("default", self.default)] if self.default is not None else []
        for key, value in [*given, *(("tried", value) for value in self.tried)]:
            try:
                self.named("").carried(value)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from None
        if not self.env and (self.type != "choice" or any(self.choices.values())):
            raise ValueError("env: is missing, and there is a value to carry")

    def named(self, name: str) -> Option:
        return Option(name=name, **structs.asdict(self))


class _RecipeTable(Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    name: Name
    title: Text
    version: Text
    licence: Text
    homepage: Text
    kind: Literal["malloc", "classic", "collector", "system"]
    default_weigh: bool
    build: Build
    note: str = ""
    source: Source | None = None
    object: _ObjectTable | None = None
    collector: Collector | None = None
    use: Use | None = None
    upstream: Upstream = _UNKNOWN
    options: Annotated[
        dict[Name, _OptionTable],
        Meta(description="a table by names of lower-case letters, digits and -"),
    ] = {}

    def __post_init__(self) -> None:
        is_system, collects = self.kind == "system", self.kind == "collector"
        for key, may_be in (
            ("collector", collects),
            ("source", not is_system),
            ("object", not is_system),
        ):
            if getattr(self, key) is not None and not may_be:
                raise ValueError(f'{key}: has no place in a manager of kind "{self.kind}"')
        if self.object is None and not is_system:
            raise ValueError("object: is missing")
        if self.collector is not None and re.search(
            r"[\s!]", str(self.object and self.object.file)
        ):
            raise ValueError("object.file: must have no space and no ! where there is a collector")
        if self.build != "none" and self.source is None and self.kind != "classic":
            raise ValueError(f'source: is missing, and build is "{self.build}"')


_CHANGED = ("schema", "object", "options")
"""Of a table, what its recipe has otherwise."""


def read_recipe(path: Path) -> Recipe:
    """Read and check one manager.toml."""
    try:
        return _recipe(path, file_content(path))
    except DocumentError as error:
        raise RecipeError(f"{path}: {error}") from None


@lru_cache(maxsize=256)  # all are read for each manager that is resolved
def _recipe(path: Path, content: bytes) -> Recipe:
    table = toml(content, _RecipeTable)
    if table.name != path.parent.name:
        raise RecipeError(f"{path}: name: must be that of its folder, {path.parent.name!r}")
    same = {name: getattr(table, name) for name in table.__struct_fields__ if name not in _CHANGED}
    return Recipe(
        **same,
        folder=path.parent,
        object_file=None if table.object is None else table.object.file,
        options=tuple(option.named(name) for name, option in table.options.items()),
    )


def allocators_folder() -> Path:
    """The folder of the allocators that come with Tare: in the wheel, or in a source checkout."""
    return _shipped("allocators")


def classics_folder() -> Path:
    """The folder of the published designs that are Tare's own code."""
    return _shipped("classics")


def _shipped(folder: str) -> Path:
    installed = NATIVE / folder
    return installed if installed.is_dir() else CHECKOUT / "managers" / folder


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
    """Every manager that Tare knows: name, version, newest, stopped, kind, installed, object,
    title."""
    rows = []
    for recipe in load_recipes().values():
        found = object_path(recipe)
        there = recipe.kind == "system" or found is not None
        known = (recipe.name, recipe.version, recipe.upstream.newest, recipe.upstream.stopped)
        rows.append((*known, recipe.kind, there, str(found or ""), recipe.title))
    columns = ["name", "version", "newest", "stopped", "kind", "installed", "object", "title"]
    return pl.DataFrame(rows, schema=columns, orient="row")
