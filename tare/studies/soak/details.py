"""What the record of a soak holds beyond its values."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tare.records.header import Amount

MOST_LOOKS = 10_000


class Look(Struct, frozen=True):
    """Resident bytes of the manager in a round: when most bytes are alive, and at its end."""

    round: Amount
    at_peak: Amount
    at_end: Amount


class Soaked(Struct, frozen=True):
    """``peak_bytes`` and ``end_bytes`` are those alive at these moments, the same in each round."""

    rounds: Amount
    seconds: Amount
    peak_bytes: Amount
    end_bytes: Amount
    looks: Annotated[tuple[Look, ...], Meta(max_length=MOST_LOOKS)]


class Details(Struct, frozen=True):
    soak: Soaked | None = None
