"""What the record of a pair of runs holds beyond its values; ``question`` and ``analysis`` say
how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tare.records.header import Amount


class Grouped(Struct, frozen=True):
    """As ``analysis.Groups``."""

    wall: tuple[Amount, ...]
    relative: tuple[Amount, ...]
    best: Amount
    chance: Amount


class Spread(Struct, frozen=True):
    """As ``analysis.Extremes``."""

    best: Amount
    worst: Amount
    best_by_chance: Amount
    worst_by_chance: Amount
    edges: tuple[Amount, ...]
    density: Mapping[str, tuple[Amount, ...]]


class Details(Struct, frozen=True):
    """``curves`` are by what came before and by clock; ``pause_ns`` has the median length of pauses
    of a kind, and how many there were."""

    curves: Mapping[str, Mapping[str, Any]]
    pause_ns: Mapping[str, tuple[Amount, ...]]
    kept_ns: Amount
    interrupted_ns: Amount
    groups: Grouped | None = None
    extremes: Spread | None = None
