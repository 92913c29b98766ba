"""Reads what the agent in a JVM left: observers/jvm/format.h says what lies where."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tare.base.errors import TareError

_MAGIC = 0x314D564A45524154
_HEADER_BYTES = 4096
_HEADER = struct.Struct("<11Q")
_STOP = struct.Struct("<3Q")
_MOST_STOPS = 1 << 20
_LATEST = 1 << 62
"""Times beyond are none that a clock has shown."""


@dataclass(frozen=True)
class Stop:
    """The collector had stopped the program. ``cpu_ns`` is without the compiler's."""

    start_ns: int
    finish_ns: int
    cpu_ns: int


@dataclass(frozen=True)
class Stops:
    """What one JVM left; ``ended_ns`` is 0 when it did not end in an orderly way."""

    pid: int
    ended_ns: int
    dropped: int
    collector_cpu_ns: int
    compiler_cpu_ns: int
    observer_cpu_ns: int
    forced_collections: int
    stops: tuple[Stop, ...]


def read_stops(path: Path) -> Stops | None:
    """What the agent left; None if the JVM was killed before it had begun. Raises TareError for a
    file that is none."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            raise TareError(f"{path}: not a file of the agent, {len(header)} bytes")
        magic, pid, _, ended, count, dropped, collector, compiler, observer, _, forced = (
            _HEADER.unpack_from(header)
        )
        if not magic:
            return None
        if magic != _MAGIC or count > _MOST_STOPS:
            raise TareError(f"{path}: not a file of the agent of this version of Tare")
        body = file.read(count * _STOP.size)
    if len(body) < count * _STOP.size:
        raise TareError(f"{path}: not a file of the agent, it ends too early")
    stops = [Stop(*fields) for fields in _STOP.iter_unpack(body)]
    if any(not stop.start_ns <= stop.finish_ns < _LATEST for stop in stops):
        raise TareError(f"{path}: times of stops that cannot be")
    return Stops(pid, ended, dropped, collector, compiler, observer, forced, tuple(stops))
