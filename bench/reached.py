"""Bars that are missed, and known to be: the figure that was reached instead, and why. A row may be
as bad as that and no worse, so that a bench tells what became slower."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from bench.row import Row


@dataclass(frozen=True)
class Reached:
    """``figure`` is the worst median that was seen, in the unit of the bar (ratio or seconds), of
    the rows whose text ``what`` matches, in the wildcards of a shell."""

    what: str
    figure: float
    why: str


@cache
def known() -> Sequence[Reached]:
    """As the file has them."""
    tables = tomllib.loads(Path(__file__).with_name("reached.toml").read_text())["row"]
    return [Reached(**table) for table in tables]


def reached(row: Row) -> Reached | None:
    """What is known of a row that missed its bar."""
    if row.met is not False or row.low is None:
        return None
    return next((each for each in known() if fnmatchcase(row.what, each.what)), None)
