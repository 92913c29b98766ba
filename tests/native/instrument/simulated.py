"""Memory models for tests, the instrument that simulates them, and what was counted in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tare.base.native import native_file
from tare.observers import memory_system
from tare.observers.memory_details import KINDS
from tare.observers.memory_model import (
    MemoryModel,
    model_from_table,
    simulator_lines,
)

DATA = {"level": 1, "holds": "data"}
CODE = {"level": 1, "holds": "instructions"}


def lines_of(models: Iterable[MemoryModel], *more: str) -> str:
    return "\n".join([*(line for m in models for line in simulator_lines(m)), *more])


def counts_of(found: dict[str, Any], model: int = 0) -> list[int]:
    rows = [context["models"][model] for context in found["contexts"]]
    return [sum(column) for column in zip(*rows, strict=True)]


def misses_of(found: dict[str, Any], model: int = 0) -> dict[str, list[int]]:
    counts = counts_of(found, model)
    return {
        kind: [memory_system.misses(counts, kind, level) for level in (1, 2, 3)] for kind in KINDS
    }


def a_model(*caches: dict[str, Any], name: str = "tried", **more: Any) -> MemoryModel:
    parts = [{"ways": 1, "line": "64B", "miss_cycles": 1, **cache} for cache in caches]
    return model_from_table(name, {"cache": parts, **more}, name)


def tool(
    folder: Path, words: Sequence[str], models: str, *options: str, **environment: str
) -> list[Any]:
    """The bare tool: what it left for each process, with its count under ``count``."""
    for name in ("counts", "memsys"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    (folder / "models").write_text(models)
    subprocess.run(
        [launcher(folder), "--tool=tareinst", "--command-line-only=yes", "--quiet", "--vgdb=no",
         "--trace-children=yes", f"--count-folder={folder / 'counts'}",
         f"--memsys={folder / 'models'}", f"--memsys-folder={folder / 'memsys'}", *options, *words],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    found = []
    for path in sorted((folder / "memsys").glob("*.json")):
        counted = json.loads((folder / "counts" / path.name).read_text())
        found.append({**json.loads(path.read_text()), "count": counted})
    return found


def launcher(folder: Path) -> Path:
    own = folder / "tare-valgrind"
    return own if own.exists() else native_file("valgrind/tare-valgrind")
