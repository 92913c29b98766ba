"""What papers gave, to stand beside what was measured: CSV files in the folders of studies."""

from __future__ import annotations

import csv
import functools
from collections.abc import Sequence
from typing import Any

from tare.base.native import PACKAGE
from tare.report.fields import Row


@functools.cache
def published(study: str, name: str = "published") -> Sequence[Row]:
    """The lines of ``NAME.csv``. Numbers are numbers, and what is empty is None."""
    path = PACKAGE / "studies" / study / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {title: _value(text) for title, text in line.items()} for line in csv.DictReader(file)
        ]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
