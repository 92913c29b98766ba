"""Layers: managers that stand in front of another, `delay(M, …)` and the like.

A module of this package is a layer; nothing else needs to know of it. A layer is an object of
Tare's own that is preloaded before the manager M. Each process under it leaves one file of counters
in a folder, and shows there which files hold the malloc and free behind it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from tare.base.errors import TareError, UsageError
from tare.memory_managers.catalogue import Recipe, options_in

_MOST_FILES = 100_000


@dataclass(frozen=True)
class Process:
    """What one process showed. ``servers`` are the files of the inner malloc and free."""

    pid: int
    forked: bool
    servers: tuple[str, str]


class Layer(Protocol):
    """The module of a layer. ``Any`` stands for its own kind of Process."""

    RECIPE: Recipe
    OBJECT: str
    """Below the package's native folder."""
    COUNTERS_VARIABLE: str
    EFFECT: str
    """What it does to the manager, to stand after the manager's title."""
    SERVES_MALLOC: bool
    """Whether malloc and free resolve to it; otherwise they are the manager's."""

    def environment(self, options: Mapping[str, str]) -> dict[str, str]:
        """The variables that carry these options and the defaults of the others. Raises UsageError
        for a value that cannot be."""

    def read_process(self, path: Path) -> Any:
        """The counters of one process; None if it was killed before it had begun them. Raises
        TareError for a file that is none."""

    def values(self, processes: Sequence[Any]) -> dict[str, float]:
        """The metrics of a run, over all its processes."""

    def details(self, processes: Sequence[Any], main: int) -> dict[str, Any]:
        """What the counters say beyond metrics; ``main`` is the process that Tare started."""

    def ran_out(self, processes: Sequence[Any], exit_code: int | None) -> str:
        """Why a run that failed ran out of memory by the layer's own limit, or ""."""


@cache
def layers() -> dict[str, Layer]:
    """All layers by name."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    found = [cast(Layer, importlib.import_module(f"{__name__}.{name}")) for name in names]
    return {layer.RECIPE.name: layer for layer in found}


@dataclass(frozen=True)
class LayerName:
    """``layer(inner, option=value, …)``."""

    layer: str
    inner: str
    options: dict[str, str]


def split_name(text: str) -> LayerName | None:
    """The parts of a name that begins with that of a layer; None for another name.

    Raises UsageError for a name that begins so and is malformed.
    """
    match = re.fullmatch(r"(?P<layer>[a-z]+)\s*(?:\((?P<inside>.*)\))?", text.strip(), re.DOTALL)
    if match is None or match["layer"] not in layers():
        return None
    inner, *given = split_at_commas(match["inside"] or "")
    if not inner or re.match(r"[a-z-]+\s*=", inner):
        raise UsageError(
            f"'{text}' does not say which manager is under {match['layer']}",
            f"give a manager first: {match['layer']}(glibc)",
        )
    return LayerName(match["layer"], inner, options_in(given, text))


def split_at_commas(text: str) -> list[str]:
    """The parts between the commas that stand outside of parentheses."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def read_folder(layer: Layer, folder: Path) -> list[Any]:
    """The counters of all processes of a run."""
    paths = sorted(folder.iterdir())
    if len(paths) > _MOST_FILES:
        raise TareError(f"{folder}: the run had more than {_MOST_FILES} processes")
    return [process for path in paths if (process := layer.read_process(path)) is not None]


def fault(
    processes: Sequence[Process], started: Sequence[int], serves: Callable[[str], bool]
) -> str:
    """Why a run does not count, or "". ``started`` holds the pid of each program that was seen to
    start under the layer; ``serves`` says whether a file is that of the manager underneath."""
    shown = [process.pid for process in processes if not process.forked]
    for process in processes:
        for server in process.servers:
            if not serves(server):
                return f"the layer of process {process.pid} is served by {server}"
    if missing := {pid for pid in started if started.count(pid) > shown.count(pid)}:
        return f"process {min(missing)} did not show what serves its layer"
    return ""


def served_by(names: bytes) -> tuple[str, str]:
    """The two files in the last part of a header: each half is a text that ends in a NUL."""
    half = len(names) // 2
    malloc, free = (
        part.split(b"\0")[0].decode(errors="replace") for part in (names[:half], names[half:])
    )
    return malloc, free
