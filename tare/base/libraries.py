"""Libraries that take long to load: each is loaded when something of it is first used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["NDArray", "jinja2", "markupsafe", "np", "optuna", "pa", "pc", "pl", "pq"]


class _Unloaded(ModuleType):
    """Stands for a module, submodules too, and is safe where several threads use it first; loaders
    that put a lazy module into ``sys.modules`` are neither."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import jinja2
    import markupsafe
    import numpy as np
    import optuna
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from numpy.typing import NDArray
else:
    NDArray = Any
    jinja2 = _Unloaded("jinja2")
    markupsafe = _Unloaded("markupsafe")
    np = _Unloaded("numpy")
    optuna = _Unloaded("optuna")
    pl = _Unloaded("polars")
    pa = _Unloaded("pyarrow")
    pc = _Unloaded("pyarrow.compute")
    pq = _Unloaded("pyarrow.parquet")
