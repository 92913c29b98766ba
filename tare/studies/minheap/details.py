"""What the record of a search for a container's limit holds beyond its values."""

from __future__ import annotations

from msgspec import Struct

from tare.records.header import Amount


class Timed(Struct, frozen=True):
    wall_seconds: Amount
    processor_seconds: Amount
    resident_bytes: Amount


class Near(Struct, frozen=True):
    """Runs with a limit of so many times the least one, or without one; ``killed`` for want of
    memory and ``failed`` otherwise are not among those that were ``timed``."""

    multiple: Amount
    timed: tuple[Timed, ...] = ()
    killed: Amount = 0
    failed: Amount = 0


class Details(Struct, frozen=True):
    near: tuple[Near, ...] = ()
