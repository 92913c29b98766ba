"""Tare weighs what memory management costs a program, and what it would cost under any other
manager.

``import tare`` offers the functions of ``tare.api``, loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tare.api import (
        check,
        compare,
        count,
        delay,
        difference,
        drag,
        examination,
        explore,
        export_text,
        frequency,
        limits_broken,
        load,
        managers,
        regions,
        space,
        suite_programs,
        summary,
        weigh,
        write_page,
    )

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "check",
    "compare",
    "count",
    "delay",
    "difference",
    "drag",
    "examination",
    "explore",
    "export_text",
    "frequency",
    "limits_broken",
    "load",
    "managers",
    "regions",
    "space",
    "suite_programs",
    "summary",
    "weigh",
    "write_page",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tare import api

        return getattr(api, name)
    raise AttributeError(f"module 'tare' has no attribute '{name}'")
