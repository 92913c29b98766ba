"""The catalogue of managers: what a manager.toml may say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tare.base.errors import MissingError, UsageError
from tare.cli.commands.managers import command, version_cell
from tare.memory_managers.catalogue import (
    Recipe,
    RecipeError,
    Upstream,
    installed_folder,
    load_recipes,
    managers,
    object_path,
    read_recipe,
)
from tare.memory_managers.install import install

NAMES = [
    "bdwgc",
    "dlmalloc",
    "dlmalloc27",
    "glibc",
    "google-tcmalloc",
    "haertel",
    "hardened",
    "hoard",
    "hoard-classic",
    "jemalloc",
    "kingsley",
    "lea93",
    "mallocng",
    "mimalloc",
    "mimalloc2",
    "obstack",
    "perclass",
    "quickfit",
    "region",
    "rpmalloc",
    "scudo",
    "snmalloc",
    "snmalloc-checks",
    "stacklike",
    "tcmalloc",
    "vmalloc",
    "windowsxp",
]
DIGEST = "0123456789abcdef" * 4
GOOD = f"""
schema = 1
name = "mine"
title = "an allocator of mine"
version = "1.2"
licence = "MIT"
homepage = "https://example.org"
kind = "malloc"
default_weigh = false
build = "demand"
note = ""

[source]
type = "crate"
crate = "mine-sys"
version = "0.1.2"
sha256 = "{DIGEST}"
paths = ["c_src"]

[upstream]
released = "2025-02"
newest = "1.3"
as_of = "2026-11"
stopped = "2026"

[object]
file = "libtare-mine.so"

[options.cache]
description = "size of the cache"
type = "size"
most = 65536
env = "MINE_CONF"
value = "cache:{{}}"
join = ","

[options.eager]
description = "return memory eagerly"
type = "flag"
env = "MINE_CONF"
value = "eager:{{}}"
join = ","

[options.mode]
description = "how it works"
choices = {{ fast = "", safe = "1" }}
default = "fast"
env = "MINE_SAFE"
"""


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / name / "manager.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_catalogue_is_whole() -> None:
    recipes = load_recipes()
    assert list(recipes) == sorted(NAMES)
    assert {name for name, recipe in recipes.items() if recipe.default_weigh} == {
        *("glibc", "jemalloc", "mimalloc", "tcmalloc", "snmalloc")
    }
    assert recipes["glibc"].kind == "system"
    assert recipes["bdwgc"].kind == "collector"
    for recipe in recipes.values():
        built_before = "classics" in recipe.folder.parts and "_native" in recipe.folder.parts
        assert (
            recipe.build == "none" or built_before or (recipe.folder / "CMakeLists.txt").is_file()
        )


def test_a_good_recipe(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, GOOD))
    assert recipe.source is not None
    assert (recipe.source.package, recipe.source.paths) == ("mine-sys", ("c_src",))
    assert recipe.object_file == "libtare-mine.so"
    assert [option.type for option in recipe.options] == ["size", "flag", "choice"]
    assert (recipe.upstream.newest, recipe.upstream.stopped) == ("1.3", "2026")


def test_what_is_known_of_the_authors_releases_may_be_left_out(tmp_path: Path) -> None:
    start, end = GOOD.index("[upstream]"), GOOD.index("[object]")
    recipe = read_recipe(write(tmp_path, GOOD[:start] + GOOD[end:]))
    assert recipe.upstream == Upstream()


@pytest.mark.parametrize(
    ("version", "newest", "stopped", "cell"),
    [
        ("1.2", "1.3", "", "1.2\nupstream 1.3"),
        ("1.2", "1.2", "", "1.2\nnewest"),
        ("1.2", "1.2", "2012", "1.2\nstopped 2012"),
        ("1.1", "1.2", "2012", "1.1\nupstream 1.2\nstopped 2012"),
        ("1.2", "", "", "1.2"),
    ],
)
def test_a_list_says_how_a_version_stands_to_the_authors_releases(
    tmp_path: Path, version: str, newest: str, stopped: str, cell: str
) -> None:
    recipe = read_recipe(write(tmp_path, GOOD))
    known = Upstream(newest=newest, as_of="2026-11" if newest else "", stopped=stopped)
    assert version_cell(replace(recipe, version=version, upstream=known)) == cell


def test_all_that_is_known_of_the_authors_releases_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "config/tare/managers", GOOD)
    shown = CliRunner().invoke(command, ["show", "mine"]).stdout
    assert (
        "upstream: 1.2 was released in 2025-02; 1.3 was the newest release as of 2026-11; "
        "none after 2026\n"
    ) in shown
    listed = CliRunner().invoke(command).stdout
    assert re.search(r"mine +1\.2 +no .*\n +upstream 1\.3.*\n +stopped 2026\n", listed)
    assert "as of 2026-11" in listed
    frame = managers().filter(name="mine")
    assert frame["newest"].to_list() == ["1.3"]
    assert frame["stopped"].to_list() == ["2026"]


def test_a_version_that_ships_is_not_of_later_than_was_looked() -> None:
    for recipe in load_recipes().values():
        known = recipe.upstream
        assert not known.as_of or known.released <= known.as_of


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("schema = 1", "schema = 2", "schema"),
        ("schema = 1", "schema = true", "schema"),
        ('title = "an allocator of mine"', "", "title"),
        ('title = "an allocator of mine"', 'title = ""', "title"),
        ('version = "1.2"', "version = 1.2", "version"),
        ('name = "mine"', 'name = "Mine"', "name"),
        ('name = "mine"', 'name = "other"', "name"),
        ('kind = "malloc"', 'kind = "mallok"', "kind"),
        ("default_weigh = false", "default_weigh = 0", "default_weigh"),
        ('build = "demand"', 'build = "later"', "build"),
        ('note = ""', "notes = 1", "notes"),
        (DIGEST, "abc", "source.sha256"),
        ('crate = "mine-sys"', "", "source.crate"),
        ('crate = "mine-sys"', 'crate = "mine-sys"\nbranch = "x"', "source.branch"),
        ('paths = ["c_src"]', 'paths = ["../x"]', "source.paths"),
        ('paths = ["c_src"]', "paths = [1]", "source.paths"),
        ('paths = ["c_src"]', 'archive = "pool/mine.tar.gz"', "source.archive"),
        ('type = "crate"\ncrate', 'type = "debian-source"\npackage', "source.archive"),
        ('type = "crate"\ncrate', 'type = "debian"\npackage', "source.archive"),
        ('released = "2025-02"', 'released = "2025"', "upstream.released"),
        ('as_of = "2026-11"', 'as_of = "2026-13"', "upstream.as_of"),
        ('as_of = "2026-11"', "", "upstream.as_of"),
        ('newest = "1.3"', "", "upstream.as_of"),
        ('stopped = "2026"', "stopped = 2026", "upstream.stopped"),
        ('file = "libtare-mine.so"', 'file = "/lib/x.so"', "object.file"),
        ('[object]\nfile = "libtare-mine.so"', "", "object"),
        ('type = "size"', 'type = "float"', "options.cache.type"),
        ('value = "cache:{}"', 'value = "cache:{x}"', "options.cache.value"),
        ('default = "fast"', 'default = "slow"', "options.mode.default"),
        ('env = "MINE_SAFE"', "", "options.mode.env"),
        ('safe = "1"', "safe = 1", "options.mode.choices.safe"),
        ('type = "flag"', 'type = "flag"\nleast = 1', "options.eager.least"),
        ("most = 65536", "most = 65536\nleast = 65537", "options.cache.least"),
        ("most = 65536", 'most = "1KiB"', "options.cache.most"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(RecipeError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: {key}: ")


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    path = write(tmp_path, "schema = = 1")
    with pytest.raises(RecipeError, match=r"manager\.toml"):
        read_recipe(path)


def test_options_become_environment(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, GOOD))
    assert recipe.environment({}, {}) == {}
    assert recipe.environment({"cache": "64KiB", "eager": "true", "mode": "safe"}, {}) == {
        "MINE_CONF": "cache:65536,eager:true",
        "MINE_SAFE": "1",
    }
    assert recipe.environment({"cache": "3"}, {"MINE_CONF": "x:1"}) == {"MINE_CONF": "x:1,cache:3"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cash": "1"}, "no option 'cash'"),
        ({"cache": "64kb"}, "must be a size"),
        ({"eager": "yes"}, "must be true or false"),
        ({"mode": "slow"}, "must be one of fast, safe"),
        ({"cache": "65KiB"}, "must be up to 64KiB"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, given: dict[str, str], said: str) -> None:
    recipe = read_recipe(write(tmp_path, GOOD))
    with pytest.raises(UsageError, match=said):
        recipe.environment(given, {})


def test_a_users_own_recipe_is_found_with_its_object(tmp_path: Path) -> None:
    prebuilt = GOOD.replace('build = "demand"', 'build = "none"')
    start, end = prebuilt.index("[source]"), prebuilt.index("[object]")
    path = write(tmp_path / "config/tare/managers", prebuilt[:start] + prebuilt[end:])
    recipe = load_recipes()["mine"]
    assert object_path(recipe) is None
    (path.parent / "libtare-mine.so").touch()
    assert object_path(recipe) == path.parent / "libtare-mine.so"


def test_an_installed_object_is_found(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, GOOD))
    folder = installed_folder(recipe)
    assert folder.name == "mine-1.2"
    folder.mkdir(parents=True)
    assert object_path(recipe) is None
    (folder / "libtare-mine.so").touch()
    assert object_path(recipe) == folder / "libtare-mine.so"


def test_one_crate_has_one_pin() -> None:
    by_crate: dict[tuple[str, str], set[str]] = {}
    for recipe in load_recipes().values():
        if recipe.source is not None:
            key = (recipe.source.package, recipe.source.version)
            by_crate.setdefault(key, set()).add(recipe.source.sha256)
    assert all(len(hashes) == 1 for hashes in by_crate.values())


def test_installing_an_unknown_manager() -> None:
    with pytest.raises(UsageError, match="nosuch"):
        install(["nosuch"], report=print)


def test_installing_what_the_machine_has() -> None:
    said: list[str] = []
    install(["glibc"], report=said.append)
    assert said == ["glibc is part of the system: nothing to install"]


@pytest.fixture
def mine(tmp_path: Path) -> Recipe:
    write(tmp_path / "config/tare/managers", GOOD)
    return load_recipes()["mine"]


def test_missing_tools_are_named(mine: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None if tool == "ninja" else f"/bin/{tool}")
    with pytest.raises(MissingError) as caught:
        install([mine.name], report=print)
    assert caught.value.hint == "apt-get install ninja-build"


def test_the_note_of_a_build_is_json() -> None:
    """built.json is written by CMake, which knows no JSON: no value may need escaping."""
    for recipe in load_recipes().values():
        source = recipe.source.package + recipe.source.version if recipe.source else ""
        text = json.dumps([recipe.name, recipe.version, source])
        assert "\\" not in text
