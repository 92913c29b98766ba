#!/usr/bin/env python3
"""Write licences/: the licence texts of what a wheel of Tare carries besides Tare.

    scripts/third_party.py

To be run when a pin of an allocator or replay/Cargo.lock has changed, as
tests/end_to_end/test_licences.py says. Texts come from the sources as cargo has fetched them
(`make build` does). Those of Debian packages and of snmalloc, whose crate has none, are kept by
hand and only checked for being there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LICENCES = ROOT / "licences"
ALLOCATORS = ROOT / "managers" / "allocators"
LOCK = ROOT / "replay" / "Cargo.lock"
TEXT_OF_CRATES = {
    "bdwgc": "vendor/bdwgc/LICENSE",
    "hardened": "vendor/hardened-malloc/LICENSE",
    "hoard": "Hoard/LICENSE",
    "jemalloc": "jemalloc/COPYING",
    "mimalloc": "c_src/mimalloc3/LICENSE",
    "mimalloc2": "c_src/mimalloc/LICENSE",
    "rpmalloc": "rpmalloc/LICENSE",
    "scudo": "scudo-standalone/LICENSE",
}
"""Where the licence of an allocator lies in the crate that carries it."""
BY_HAND = ("dlmalloc", "dlmalloc27", "elfutils", "mallocng", "snmalloc", "tcmalloc")
CRATES_FILE = LICENCES / "rust-crates.txt"


def main() -> int:
    registry = next(
        Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")).glob("registry/src/*")
    )
    for name, place in TEXT_OF_CRATES.items():
        source = manifest(name)["source"]
        folder = crate_folder(registry, source["crate"], source["version"])
        write(LICENCES / f"{name}.txt", (folder / place).read_text())
    if lacking := [name for name in BY_HAND if not (LICENCES / f"{name}.txt").exists()]:
        print(f"{', '.join(lacking)}: no text in licences/", file=sys.stderr)
        return 1
    write(CRATES_FILE, crates_text(registry))
    return 0


def manifest(name: str) -> dict[str, Any]:
    return tomllib.loads((ALLOCATORS / name / "manager.toml").read_text())


def crate_folder(registry: Path, name: str, version: str) -> Path:
    """A folder's name carries build metadata (`+5.3.1-…`) that a version need not."""
    (folder,) = [
        p for p in registry.glob(f"{name}-*") if p.name.split("+")[0] == f"{name}-{version}"
    ]
    return folder


def write(target: Path, text: str) -> None:
    """Lines without blanks at their ends, as the linters of the repository have them."""
    lines = [line.rstrip() for line in text.splitlines()]
    target.write_text("\n".join(lines).strip("\n") + "\n")


def digest_of_lock() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def crates_text(registry: Path) -> str:
    """Each different text once, with the crates it is of."""
    by_text: dict[str, list[str]] = {}
    listed = []
    for package in linked_packages():
        name = f"{package['name']} {package['version']}"
        listed.append(f"{name}: {package['license']}")
        folder = crate_folder(registry, package["name"], package["version"].split("+")[0])
        for text in texts(folder) or ["(The crate has no file with its licence.)"]:
            by_text.setdefault(text, []).append(name)
    parts = [
        "Crates of Rust that the replayers are linked with, and their licences.",
        "Of several licences that are joined by OR, Tare uses Apache-2.0 or MIT where it can.",
        "Rust's own standard library is Apache-2.0 OR MIT.",
        f"{LOCK.relative_to(ROOT)}: {digest_of_lock()}",
        "",
        *listed,
    ]
    for text, names in by_text.items():
        parts += ["", "=" * 80, ", ".join(names), "=" * 80, "", text]
    return "\n".join(parts)


def texts(folder: Path) -> list[str]:
    named = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|UNLICENSE|NOTICE)([-._].*)?", re.IGNORECASE)
    found = [path for path in sorted(folder.iterdir()) if named.fullmatch(path.name)]
    return [
        "\n".join(line.rstrip() for line in p.read_text().splitlines())
        for p in found
        if p.is_file()
    ]


def linked_packages() -> list[dict[str, Any]]:
    """Those that are linked into a program: not what only builds it, nor what is of Tare."""
    metadata = json.loads(
        subprocess.check_output(
            ["cargo", "metadata", "--offline", "--locked", "--format-version", "1",
             "--filter-platform", "x86_64-unknown-linux-gnu"],
            cwd=LOCK.parent,
        )
    )  # fmt: skip
    packages = {package["id"]: package for package in metadata["packages"]}
    linked = reachable(metadata["resolve"], metadata["workspace_members"])
    found = [packages[identifier] for identifier in linked if packages[identifier]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def reachable(resolved: dict[str, Any], roots: list[str]) -> Iterator[str]:
    nodes = {node["id"]: node for node in resolved["nodes"]}
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        identifier = waiting.pop()
        if identifier in seen:
            continue
        seen.add(identifier)
        yield identifier
        for dependency in nodes[identifier]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])


if __name__ == "__main__":
    sys.exit(main())
