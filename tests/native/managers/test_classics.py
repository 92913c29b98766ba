"""The classics: published designs against a model, with threads, and under real programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import tare as api
from tare.base.native import native_file
from tare.memory_managers.catalogue import Recipe, classics_folder, load_recipes
from tests.native.programs import built
from tests.support import ROOT

CLASSICS = {name: recipe for name, recipe in load_recipes().items() if recipe.kind == "classic"}
NAMES = sorted(CLASSICS)


def run(*command: str | Path) -> None:
    """A model must end by itself, and say ok."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stderr


@pytest.fixture(scope="module")
def model() -> Path:
    """For one thread."""
    return built("classics_model")


@pytest.fixture(scope="module")
def threads() -> Path:
    """For many threads."""
    return built("classics_threads")


def test_each_folder_is_a_classic() -> None:
    assert sorted(path.parent.name for path in classics_folder().glob("*/manager.toml")) == NAMES
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_model_under_sanitizers(model: Path, name: str) -> None:
    for seed in ("1", "2", "3"):
        run(model, name, seed, "6000")


@pytest.mark.parametrize("name", NAMES)
def test_threads_under_sanitizer(threads: Path, name: str) -> None:
    run(threads, name, "4", "2000")


@pytest.mark.parametrize("recipe", CLASSICS.values(), ids=NAMES)
def test_documented(recipe: Recipe) -> None:
    page = (ROOT / "docs" / "classics.md").read_text()
    assert f"`{recipe.name}`" in page
    assert recipe.build == "package"
    assert not recipe.default_weigh


def test_each_is_proven_to_serve_a_real_program(tmp_path: Path) -> None:
    """The probe of the runner must find each in the running process, and the output the same."""
    if shutil.which("gawk") is None:
        pytest.skip("gawk is not installed (package gawk)")
    for name in NAMES:
        native_file(f"managers/{name}/libtare-{name}.so")
    results = api.compare(
        [
            "gawk",
            "BEGIN { for (i = 0; i < 20000; i++) s[i % 97] = s[i % 97] i; print length(s[5]) }",
        ],
        ["glibc", *NAMES],
        runs=1,
        warmup=0,
        folder=tmp_path / "r",
    )
    statuses = results.measurements.select("manager", "status").unique().rows()
    assert sorted(statuses) == [(name, "ok") for name in sorted(["glibc", *NAMES])]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_long_models(model: Path, threads: Path) -> None:
    """As long as the model's memory lasts, which is not used again when it was given back."""
    for name in NAMES:
        for seed in range(4, 12):
            run(model, name, str(seed), "100000")
        run(threads, name, "8", "25000")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_fuzzer(tmp_path: Path) -> None:
    if shutil.which("clang++") is None:
        pytest.skip("clang is not installed (package clang)")
    fuzzer = built("classics_fuzzer", compiler="clang")
    ran = subprocess.run(
        [fuzzer, "-max_total_time=300", "-max_len=20000", "-seed=1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
