"""``import tare`` offers the same; this is its earlier name, which scripts may still use."""

from __future__ import annotations

from typing import Any

import tare


def __getattr__(name: str) -> Any:
    return getattr(tare, name)
