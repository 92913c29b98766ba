"""JSON and TOML from outside: what later code relies on is there, of its type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError


def check_fields(path: Path, where: str, table: Any, wanted: Mapping[str, Any]) -> None:
    """A folder can come from anywhere: what later code relies on must be there, of its type.

    ``wanted`` has a type for each name, several, or ``[str]`` for a list of texts. Raises
    UsageError, which names the field after ``where``, for one that is not so.
    """
    for name, kind in wanted.items():
        if not isinstance(table, dict) or not _is_of(table.get(name), kind):
            raise UsageError(f"{path}: {where}{name} is missing or of another type")


def _is_of(value: Any, kind: Any) -> bool:
    """Whether ``value`` is of the type ``kind``, or one of them; ``[str]`` is a list of texts."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(isinstance(item, kind[0]) for item in value)
    return isinstance(value, kind)


def no_number(word: str) -> float:
    """For ``parse_constant`` of ``json``: refuses NaN and Infinity, which JSON does not know."""
    raise ValueError(f"{word} is no number")
