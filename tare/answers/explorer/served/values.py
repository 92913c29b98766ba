"""Values of SQL as a page or a table of CSV can have them."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from tare.base.text import FORMULA_STARTS, shortened, visible

LONGEST_TEXT = 300
_EXACT = 1 << 53
"""Larger whole numbers are no numbers of JavaScript."""


def sendable(value: Any) -> Any:
    """As JSON: null, numbers and truth as they are, all else as a text that can be shown."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return shortened(visible(str(value)[: 4 * LONGEST_TEXT]), LONGEST_TEXT)


def in_csv(value: Any) -> Any:
    """A text which a spreadsheet would run as a formula starts with ``'``."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value
