"""What allocators themselves say of the options that Tare sets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.base.units import parse_size
from tare.memory_managers.catalogue import Option, Recipe, load_recipes, object_path
from tare.memory_managers.manager import resolve

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
MOST = 2**64 - 1


def options(*names: str) -> list[tuple[Recipe, Option]]:
    known = load_recipes()
    return [(known[name], option) for name in names for option in known[name].options]


def some_value(option: Option) -> str:
    """One that the option may have, and usually has not."""
    others = [word for word, carried in option.choices.items() if carried]
    if others:
        return others[-1]
    if option.type == "flag":
        return "false" if option.usual == "true" else "true"
    lowest = max(1, option.least or 0)
    number = lowest + 1 if option.most is None or lowest < option.most else lowest
    return (
        str(number) if option.type == "int" else f"{max(number, 4096 if not option.most else 0)}B"
    )


def under(
    recipe: Recipe, variables: dict[str, str], *command: str
) -> subprocess.CompletedProcess[str]:
    found = object_path(recipe)
    if found is None:
        pytest.skip(f"not installed: tare managers install {recipe.name}")
    return said(command, (*variables.items(), ("LD_PRELOAD", str(found))))


@cache
def said(
    command: tuple[str, ...], variables: tuple[tuple[str, str], ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Once for all tests that ask for the same."""
    environment = {**os.environ, **dict(variables)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def ids(value: Recipe | Option) -> str:
    return value.name


@pytest.mark.skipif(not LOADER.exists(), reason=f"{LOADER} is not there")
@pytest.mark.parametrize(("recipe", "option"), options("glibc"), ids=ids)
def test_glibc_lists_its_tunables_with_their_bounds(recipe: Recipe, option: Option) -> None:
    asked = said((str(LOADER), "--list-tunables"))
    asked.check_returncode()
    carried = recipe.environment({option.name: some_value(option)}, {})["GLIBC_TUNABLES"]
    tunable = carried.partition("=")[0]
    found = re.search(rf"{re.escape(tunable)}: \S+ \(min: (\S+), max: (\S+)\)", asked.stdout)
    assert found, tunable
    least, most = (int(bound, 0) for bound in found.groups())
    assert least <= (option.least or 0) or option.least == least
    assert most in (MOST, option.most)


@pytest.mark.parametrize(("recipe", "option"), options("jemalloc"), ids=ids)
def test_jemalloc_takes_each_of_its_options(recipe: Recipe, option: Option) -> None:
    for value in {some_value(option), *option.choices}:
        given = recipe.environment({option.name: value}, {"MALLOC_CONF": "abort_conf:true"})
        done = under(recipe, given, "true")
        assert (done.returncode, done.stderr) == (0, ""), (value, done.stderr)
    if option.most is not None:
        name = option.value.partition(":")[0]
        beyond = {"MALLOC_CONF": f"abort_conf:true,{name}:{option.most + 1}"}
        done = under(recipe, beyond, "true")
        assert "Out-of-range conf value" in done.stderr or shown(recipe, beyond, name) == str(
            option.most
        )
        within = {"MALLOC_CONF": f"abort_conf:true,{name}:{option.most}"}
        assert under(recipe, within, "true").stderr == ""


@pytest.mark.parametrize(("recipe", "option"), options("jemalloc"), ids=ids)
def test_jemalloc_says_that_it_does_what_is_usual(recipe: Recipe, option: Option) -> None:
    some = next(filter(None, option.choices.values()), option.value)
    name = some.partition(":")[0]
    value = shown(recipe, {"MALLOC_CONF": "abort_conf:true"}, name)
    if option.type == "size":
        assert int(value) == parse_size(option.usual)
    elif name == "narenas":
        assert int(value) % 4 == 0, "4 for each processor"
    else:
        assert value == (option.default or option.usual)


def shown(recipe: Recipe, variables: dict[str, str], name: str) -> str:
    """The value of an option as jemalloc prints it."""
    given = {"MALLOC_CONF": variables.get("MALLOC_CONF", "") + ",stats_print:true"}
    printed = under(recipe, given, sys.executable, "-S", "-c", "pass").stderr
    found = re.search(rf'opt\.{name}: "?(\w+|-?\d+)', printed)
    assert found, printed[:2000]
    return found[1]


def test_jemalloc_refuses_what_it_does_not_know() -> None:
    wrong = {"MALLOC_CONF": "abort_conf:true,narena:2"}
    assert under(load_recipes()["jemalloc"], wrong, "true").returncode != 0


@pytest.mark.parametrize(("recipe", "option"), options("mimalloc", "mimalloc2"), ids=ids)
def test_mimalloc_shows_each_of_its_options_as_it_was_set(recipe: Recipe, option: Option) -> None:
    value = some_value(option)
    given = recipe.environment({option.name: value}, {})
    printed = under(recipe, {**given, "MIMALLOC_VERBOSE": "1"}, "true").stderr
    named = option.env.removeprefix("MIMALLOC_").lower()
    shown = re.search(rf"option '{named}': (-?\d+)", printed)
    assert shown, printed
    carried = int(given[option.env])
    assert int(shown[1]) == (carried // 1024 if option.type == "size" else carried)
    usually = under(recipe, {"MIMALLOC_VERBOSE": "1"}, "true").stderr
    before = re.search(rf"option '{named}': (-?\d+)", usually)
    assert before is not None
    if option.type == "int":
        assert before[1] == option.usual
    elif option.type == "choice":
        assert before[1] != shown[1]


@pytest.mark.parametrize(("recipe", "option"), options("tcmalloc", "scudo"), ids=ids)
def test_the_object_names_each_option(recipe: Recipe, option: Option) -> None:
    found = object_path(recipe)
    assert found is not None
    given = recipe.environment({option.name: some_value(option)}, {})[option.env]
    flags = re.findall(r"([a-z_]+)=", given) if option.join else [option.env]
    for flag in flags:
        assert flag.encode() in found.read_bytes(), flag
    done = under(recipe, {option.env: given}, "true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("glibc(fast=161B)", "must be up to 160B"),
        ("glibc(tcache=65536)", "must be from 0 up to 65535"),
        ("glibc(arenas=0)", "must be from 1"),
        ("jemalloc(tcache-max=33KiB)", "must be up to 32KiB"),
        ("jemalloc(tcache-slots=-17)", "must be from -16 up to 16"),
        ("tcmalloc(cache=1KiB)", "must be from 512KiB up to 1GiB"),
        ("tcmalloc(decommit=yes)", "must be true or false"),
        ("mimalloc(reclaim=2)", "must be from -1 up to 1"),
        ("jemalloc(thp=sometimes)", "must be one of default, always, never"),
    ],
)
def test_a_value_that_is_out_of_bounds_is_refused_in_words(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        resolve(name)


@pytest.mark.parametrize(
    "name", ["glibc", "jemalloc", "mimalloc", "mimalloc2", "tcmalloc", "scudo"]
)
def test_what_is_usual_is_said_of_each_option(name: str) -> None:
    for _, option in options(name):
        assert option.default or option.usual, option.name


GETS = """
import ctypes, os, sys
found = getattr(ctypes.CDLL(None), "MallocExtension_Internal_Get" + sys.argv[1])
found.restype = ctypes.c_int64
print(found() & int(sys.argv[2]), len(os.listdir("/proc/self/task")))
"""


@pytest.mark.parametrize(
    ("option", "called", "bits", "threads"),
    [
        ("cpu-cache", "MaxPerCpuCacheSize", 32, 1),
        ("thread-cache", "MaxTotalThreadCacheBytes", 64, 1),
        ("release", "BackgroundReleaseRate", 64, 2),
    ],
)
def test_google_s_tcmalloc_says_what_it_was_told(
    option: str, called: str, bits: int, threads: int
) -> None:
    recipe = load_recipes()["google-tcmalloc"]
    given = recipe.environment({option: "3MiB"}, {})
    done = under(recipe, given, sys.executable, "-c", GETS, called, str(2**bits - 1))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(3 << 20), str(threads)]
