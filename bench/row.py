"""One line of the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """``bar`` is what must be reached, empty where nothing was promised."""

    what: str
    measured: str
    bar: str = ""
    met: bool = True
