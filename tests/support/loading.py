"""Loads all of Tare, for processes that fork for each command."""

from __future__ import annotations

import importlib
import os
import pkgutil

import tare

LIBRARIES = ("jinja2", "numpy", "pandas", "polars", "pyarrow.compute", "pyarrow.parquet")
"""What Tare loads when it first uses it; pyarrow loads pandas where it is installed."""


def load_all() -> None:
    """Nothing works in threads then, so that a fork is as good as a new process. Threads that some
    libraries start wait for work, and a fork has none of them."""
    for module in pkgutil.walk_packages(tare.__path__, "tare."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in LIBRARIES:
        importlib.import_module(name)
