"""Modules that the documentation once named, under those names: scripts written then still run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

MODULES = {
    "tare.api": "tare",
    "tare.drag_run": "tare.studies.drag.observe",
    "tare.errors": "tare.base.errors",
    "tare.limits": "tare.checking.limits",
    "tare.program": "tare.programs.program",
    "tare.runner": "tare.records.runs",
    "tare.trace": "tare.heap_traces.trace",
    "tare.tracing": "tare.observers.asked",
}
"""Where each is now."""


class _Finder:
    """Asked last: what is there by itself goes before. (What it could be derived from,
    ``importlib.abc``, takes as long to load as all else of ``import tare``.)"""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(fullname, cast(Any, _Loader())) if fullname in MODULES else None


class _Loader:
    """Gives the module itself, which keeps the specification that it has."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(MODULES[spec.name])
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own


def find_earlier_names() -> None:
    """Let imports find them."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
