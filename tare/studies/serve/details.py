"""What the record of a start holds beyond its values."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tare.records.header import Amount


class Phase(Struct, frozen=True):
    """Seconds since the server was ready. ``name`` is ``warm-up``, ``load`` or ``idle``."""

    name: str
    start: Amount
    end: Amount


class Served(Struct, frozen=True):
    """``memory`` has pairs of seconds since the server was ready and resident bytes; ``loads`` the
    values of each load; ``reader`` is the load generator whose output was understood, or "".
    ``killed``: it did not end when it was told to."""

    ready_seconds: Amount
    memory: tuple[tuple[Amount, Amount], ...]
    phases: tuple[Phase, ...]
    loads: tuple[Mapping[str, Amount], ...]
    reader: str = ""
    killed: bool = False


class Details(Struct, frozen=True):
    serve: Served | None = None
