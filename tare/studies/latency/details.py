"""What the record of a run holds beyond its values."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tare.heap_traces.frames import RecordedFrame
from tare.records.header import Amount
from tare.records.runs import Number


class OfSize(Struct, frozen=True):
    """Calls that asked for up to ``bytes``, 0 for more than 1 MiB."""

    bytes: Number
    calls: Number
    p50_seconds: Amount | None
    p99_seconds: Amount | None


class OfOperation(Struct, frozen=True):
    calls: Number
    max_seconds: Amount
    percentiles: Mapping[str, Amount]
    """Seconds, by name: ``p50``."""
    sizes: tuple[OfSize, ...] = ()


class OfSite(Struct, frozen=True):
    """Long calls of one stack, the innermost frame first: ``seconds`` of all together; ``bytes``
    are what the longest asked for. The last three are how many had each cause."""

    operation: str
    frames: tuple[RecordedFrame, ...]
    calls: Number
    seconds: Amount
    max_seconds: Amount
    bytes: Number
    faulted: Number
    waited: Number
    preempted: Number


class Timed(Struct, frozen=True):
    """``clock_seconds`` is what reading the clock took, which is in no other time; ``wall_seconds``
    is the elapsed time of the program whose calls were timed. ``long_sites`` are those of a run
    that looks for causes."""

    clock_seconds: Amount
    wall_seconds: Amount
    operations: Mapping[str, OfOperation]
    long_sites: tuple[OfSite, ...] = ()


class Details(Struct, frozen=True):
    latency: Timed | None = None
