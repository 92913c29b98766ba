"""`delay(M, …)`: the layer that delays reclamation, its options, and the counters it leaves.

The layer is managers/delay, preloaded in front of the manager M. Each process under it writes one
file of counters; managers/delay/counters.hpp describes what they count.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tare.base.errors import TareError, UsageError
from tare.memory_managers import layers
from tare.memory_managers.catalogue import Option, Recipe

NAME = "delay"
OBJECT = "lib/libtare-delay.so"
COUNTERS_VARIABLE = "TARE_DELAY_COUNTERS"
EFFECT = "its frees held back and done in bulk"
SERVES_MALLOC = True
_LARGEST_SIZE = 1 << 30

RECIPE = Recipe(
    name=NAME,
    title="a layer over any allocator: frees are held back and done in bulk",
    version="1",
    licence="Apache-2.0",
    homepage="https://doi.org/10.1145/3546918.3546926",
    kind="layer",
    default_weigh=False,
    build="package",
    folder=Path(__file__).parent,
    options=(
        Option(
            "size",
            "bytes held until all are released, 1B to 1GiB",
            "size",
            "TARE_DELAY_SIZE",
            default="64KiB",
        ),
        Option(
            "scope",
            "whether bytes are counted for each thread or for all threads together",
            "choice",
            "TARE_DELAY_SCOPE",
            {"thread": "thread", "global": "global"},
            "thread",
        ),
        Option(
            "buffer",
            "size of a thread's list of held objects: as needed, or fixed",
            "choice",
            "TARE_DELAY_BUFFER",
            {"grow": "grow", "40KiB": "40960", "128KiB": "131072", "2MiB": "2097152"},
            "grow",
        ),
        Option(
            "order",
            "which object is released first: the oldest or the youngest",
            "choice",
            "TARE_DELAY_ORDER",
            {"fifo": "fifo", "lifo": "lifo"},
            "fifo",
        ),
        Option(
            "realloc",
            "the old object of a realloc that moves: held too, or freed by the allocator at once",
            "choice",
            "TARE_DELAY_REALLOC",
            {"delay": "delay", "pass": "pass"},
            "delay",
        ),
        Option(
            "poison",
            "fill held memory, and stop the program if it was written to",
            "choice",
            "TARE_DELAY_POISON",
            {"yes": "yes", "no": "no"},
            "no",
        ),
    ),
    note="Takes a manager first: delay(mimalloc, size=1MiB). A collector cannot be delayed.",
)


def environment(options: Mapping[str, str]) -> dict[str, str]:
    """The variables that carry these options and the defaults of the others."""
    variables = RECIPE.environment(options, {})
    if not 1 <= int(variables["TARE_DELAY_SIZE"]) <= _LARGEST_SIZE:
        raise UsageError(f"{NAME}(size={options['size']}): must be between 1B and 1GiB")
    return variables


_MAGIC = 0x33594C4544455254
_HEADER_BYTES = 4096
_HEADER = struct.Struct("<7Q")
_MOST_SLOTS = 240
_SLOT_BYTES = 704
_PAUSE_BUCKETS = 32
_FIRST_PAUSE_BITS = 4
_THREADS_SHOWN = 240


@dataclass(frozen=True)
class Pauses:
    """How many collections took how long, and by buckets of powers of two; as in counters.hpp."""

    collections: int
    nanoseconds: int
    buckets: tuple[int, ...]


@dataclass(frozen=True)
class Slot:
    """Counts of one thread, or of several one after the other; as in counters.hpp."""

    pauses: Pauses
    small_pauses: Pauses
    threads: int
    thread: int
    volume_collections: int
    capacity_collections: int
    exit_collections: int
    memory_collections: int
    objects: int
    bytes: int
    held_bytes: int
    sampled_objects: int
    sampled_nanoseconds: int
    longest_nanoseconds: int
    largest_bytes: int
    released_at_once: int


_PAUSES = struct.Struct(f"<{2 + _PAUSE_BUCKETS}Q")
_NUMBERS = struct.Struct(f"<{len(fields(Slot)) - 2}Q")


@dataclass(frozen=True)
class Process(layers.Process):
    uncounted: int
    passed_objects: int
    slots: tuple[Slot, ...]


def read_process(path: Path) -> Process | None:
    """The counters of one process; None if it was killed before it had begun them.

    Raises TareError for a file that is none.
    """
    with path.open("rb") as file:
        data = file.read(_HEADER_BYTES + _MOST_SLOTS * _SLOT_BYTES)
    if not any(data[:_HEADER_BYTES]):
        return None
    if len(data) < _HEADER_BYTES:
        raise TareError(f"{path}: not a file of counters, {len(data)} bytes")
    magic, pid, _, used, uncounted, passed, forked = _HEADER.unpack_from(data)
    if magic != _MAGIC or used > (len(data) - _HEADER_BYTES) // _SLOT_BYTES:
        raise TareError(f"{path}: not a file of counters of this version of Tare")
    servers = layers.served_by(data[_HEADER.size : _HEADER_BYTES])
    slots = tuple(_read_slot(data, _HEADER_BYTES + index * _SLOT_BYTES) for index in range(used))
    return Process(pid, bool(forked), servers, uncounted, passed, slots)


def _read_slot(data: bytes, offset: int) -> Slot:
    pauses = _read_pauses(data, offset)
    small_pauses = _read_pauses(data, offset + _PAUSES.size)
    numbers = _NUMBERS.unpack_from(data, offset + 2 * _PAUSES.size)
    return Slot(pauses, small_pauses, *numbers)


def _read_pauses(data: bytes, offset: int) -> Pauses:
    collections, nanoseconds, *buckets = _PAUSES.unpack_from(data, offset)
    return Pauses(collections, nanoseconds, tuple(buckets))


def values(processes: Sequence[Process]) -> dict[str, float]:
    """The metrics of a run, over all its processes and threads; empty when some did not count.

    Of small collections one in some is timed, so the sum of pauses is an estimate.
    """
    if any(process.uncounted for process in processes):
        return {}
    slots = [slot for process in processes for slot in process.slots]
    return {
        "collections": sum(map(_collections, slots)),
        "volume_collections": sum(s.volume_collections + s.released_at_once for s in slots),
        "capacity_collections": sum(s.capacity_collections for s in slots),
        "pause_seconds": sum(map(_pause_nanoseconds, slots)) / 1e9,
        "max_pause_seconds": max((s.longest_nanoseconds for s in slots), default=0) / 1e9,
        "quarantined_bytes": sum(s.bytes for s in slots),
    }


def _collections(slot: Slot) -> int:
    return (
        slot.volume_collections
        + slot.capacity_collections
        + slot.exit_collections
        + slot.memory_collections
        + slot.released_at_once
    )


def _small_weight(slot: Slot) -> float:
    """What the pauses of small collections must be multiplied by: the last of a thread are not in
    them. All other collections were timed one by one."""
    small = _collections(slot) - slot.pauses.collections
    timed = slot.small_pauses.collections
    return small / timed if timed else 0.0


def _pause_nanoseconds(slot: Slot) -> float:
    return slot.pauses.nanoseconds + slot.small_pauses.nanoseconds * _small_weight(slot)


def _pause_histogram(slots: Sequence[Slot]) -> list[list[float]]:
    """Lower and upper end in nanoseconds, and how many collections took so long, an estimate."""
    counts = [0.0] * _PAUSE_BUCKETS
    for slot in slots:
        weight = _small_weight(slot)
        for bucket in range(_PAUSE_BUCKETS):
            counts[bucket] += slot.pauses.buckets[bucket]
            counts[bucket] += slot.small_pauses.buckets[bucket] * weight
    ends = [0, *(1 << (_FIRST_PAUSE_BITS + bucket) for bucket in range(_PAUSE_BUCKETS))]
    return [[ends[bucket], ends[bucket + 1], count] for bucket, count in enumerate(counts) if count]


def details(processes: Sequence[Process], main: int) -> dict[str, Any]:
    """What the counters say beyond metrics: sums, and each thread of the process ``main``."""
    slots = [slot for process in processes for slot in process.slots]
    mine = [slot for process in processes if process.pid == main for slot in process.slots]
    return {
        "processes": len(processes),
        "uncounted": sum(process.uncounted for process in processes),
        "passed_objects": sum(process.passed_objects for process in processes),
        **_described(slots),
        "pause_histogram": _pause_histogram(slots),
        "threads": [
            {"thread": slot.thread, "threads": slot.threads, **_described([slot])}
            for slot in mine[:_THREADS_SHOWN]
        ],
    }


def _described(slots: Sequence[Slot]) -> dict[str, float]:
    """Sums, means and extremes of slots. An object that was released at once was held for no
    time."""
    listed = sum(slot.objects for slot in slots)
    at_once = sum(slot.released_at_once for slot in slots)
    objects = listed + at_once
    collections = sum(map(_collections, slots))
    sampled = sum(slot.sampled_objects for slot in slots)
    held = sum(slot.sampled_nanoseconds for slot in slots) / sampled / 1e9 if sampled else 0.0
    pauses = sum(map(_pause_nanoseconds, slots)) / 1e9
    return {
        "collections": collections,
        "volume_collections": sum(s.volume_collections for s in slots) + at_once,
        "capacity_collections": sum(s.capacity_collections for s in slots),
        "exit_collections": sum(s.exit_collections for s in slots),
        "memory_collections": sum(s.memory_collections for s in slots),
        "objects": objects,
        "released_at_once": at_once,
        "bytes": sum(s.bytes for s in slots),
        "largest_bytes": max((s.largest_bytes for s in slots), default=0),
        "max_pause_seconds": max((s.longest_nanoseconds for s in slots), default=0) / 1e9,
        "mean_pause_seconds": pauses / collections if collections else 0.0,
        "mean_held_bytes": sum(s.held_bytes for s in slots) / objects if objects else 0.0,
        "mean_held_seconds": held * listed / objects if objects else 0.0,
    }


def ran_out(_processes: Sequence[Process], _exit_code: int | None) -> str:
    """A delay has no limit of its own."""
    return ""
