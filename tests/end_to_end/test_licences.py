"""The licence of everything that a wheel carries is there, and is that of the pinned version."""

from __future__ import annotations

import re
import tomllib

import pytest

import tare
from managers.allocators import fetch_sources
from scripts import third_party
from tests.support import ROOT

BUNDLED = sorted(
    name
    for name, manifest in fetch_sources.manifests(third_party.ALLOCATORS).items()
    if manifest.get("build") == "package"
)
TELLING = {
    "Apache-2.0": "Apache License",
    "Apache-2.0 WITH LLVM-exception": "LLVM Exceptions",
    "BSD-2-Clause": "Redistribution and use",
    "BSD-3-Clause": "Neither the name",
    "Boehm-GC": "THIS MATERIAL IS PROVIDED AS IS",
    "CC0-1.0": "publicdomain/zero/1.0",
    "LGPL-2.1-or-later": "GNU LESSER GENERAL PUBLIC LICENSE",
    "MIT": "Permission is hereby granted",
    "Unlicense OR MIT": "unencumbered",
}
"""Words by which a licence is known."""


def test_there_are_bundled_allocators() -> None:
    assert {"jemalloc", "mimalloc", "dlmalloc27"} <= set(BUNDLED)


@pytest.mark.parametrize("name", BUNDLED)
def test_an_allocator_has_the_licence_that_it_names(name: str) -> None:
    licence = third_party.manifest(name)["licence"]
    assert TELLING[licence] in (ROOT / "licences" / f"{name}.txt").read_text()


def test_the_crates_are_those_of_the_lock() -> None:
    text = third_party.CRATES_FILE.read_text()
    assert third_party.digest_of_lock() in text, "scripts/third_party.py"
    listed = set(re.findall(r"^([\w-]+) (\d\S*): \S", text.partition("=" * 80)[0], re.MULTILINE))
    packages = tomllib.loads(third_party.LOCK.read_text())["package"]
    locked = {(package["name"], package["version"]) for package in packages}
    assert len(listed) > 30
    assert listed <= locked
    assert "mmtk" in dict(listed)


def test_every_crate_has_a_text_or_says_that_it_has_none() -> None:
    head, *parts = third_party.CRATES_FILE.read_text().split("=" * 80)
    listed = set(re.findall(r"^([\w-]+ \d\S*): \S", head, re.MULTILINE))
    with_text = {name for names in parts[0::2] for name in names.strip().split(", ")}
    assert with_text == listed


def test_the_wheel_carries_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for pattern in project["license-files"]:
        assert list(ROOT.glob(pattern)), pattern
    assert "licences/*" in project["license-files"]


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cmake = re.search(r"project\(tare VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert cmake is not None
    assert project["version"] == cmake[1] == tare.__version__
    assert f"\n## {tare.__version__}" in (ROOT / "CHANGELOG.md").read_text()
