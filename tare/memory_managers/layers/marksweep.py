"""`marksweep(M, …)`: a conservative mark-sweep collector over an allocator, its options, and the
counters it leaves.

The layer is managers/marksweep, preloaded in front of the manager M. Each process under it writes
one file of counters; managers/marksweep/counters.hpp describes what they count.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tare.base.errors import MissingError, TareError, UsageError
from tare.base.libraries import NDArray, np
from tare.memory_managers import layers
from tare.memory_managers.catalogue import Option, Recipe

NAME = "marksweep"
OBJECT = "lib/libtare-marksweep.so"
COUNTERS_VARIABLE = "TARE_MARKSWEEP_COUNTERS"
EFFECT = "reclaimed by a conservative mark-sweep collector"
SERVES_MALLOC = True
HEAP_IS_FULL = 86
"""The exit status of a process whose live objects do not fit into ``heap``."""
_MOST_MARKERS = 16

RECIPE = Recipe(
    name=NAME,
    title="a layer over any allocator: a conservative mark-sweep collector frees objects",
    version="1",
    licence="Apache-2.0",
    homepage="https://doi.org/10.1145/3546918.3546926",
    kind="layer",
    default_weigh=False,
    build="package",
    folder=Path(__file__).parent,
    options=(
        Option(
            "every",
            "bytes allocated (in quarantine: freed) between collections; auto: by live memory",
            "size",
            "TARE_MARKSWEEP_EVERY",
            {"auto": "0", "never": str((1 << 64) - 1)},
            "auto",
        ),
        Option(
            "reclaim",
            "every Nth collection frees objects, the others only mark; 0: none frees",
            "int",
            "TARE_MARKSWEEP_RECLAIM",
            default="1",
        ),
        Option(
            "free",
            "the program's own frees: ignored, done at once, or done once no pointer is left",
            "choice",
            "TARE_MARKSWEEP_FREE",
            {"ignore": "ignore", "honour": "honour", "quarantine": "quarantine"},
            "ignore",
        ),
        Option(
            "heap",
            "bytes of pages with objects at which it collects; the program ends if all are live",
            "size",
            "TARE_MARKSWEEP_HEAP",
            {"any": "0"},
            "any",
        ),
        Option("markers", "threads that mark, 1 to 16", "int", "TARE_MARKSWEEP_MARKERS", {}, "1"),
        Option(
            "mark",
            "while all threads are stopped, or beside them but for two short pauses",
            "choice",
            "TARE_MARKSWEEP_MARK",
            {"stopped": "stopped", "concurrent": "concurrent"},
            "stopped",
        ),
        Option(
            "scan",
            "alignment of pointers in bytes; 4 for programs that pack them",
            "choice",
            "TARE_MARKSWEEP_SCAN",
            {"8": "8", "4": "4"},
            "8",
        ),
        Option(
            "verify",
            "free nothing, and count objects found dead that the program then frees",
            "choice",
            "TARE_MARKSWEEP_VERIFY",
            {"yes": "yes", "no": "no"},
            "no",
        ),
    ),
    note="Takes a manager first: marksweep(tcmalloc, every=64KiB). Any word that looks like a "
    "pointer counts as one. A program that hides pointers, in files or by arithmetic, must not run "
    "under it. ruby has pointers at addresses that are multiples of 4 only: it needs scan=4.",
)


def environment(options: Mapping[str, str]) -> dict[str, str]:
    """The variables that carry these options and the defaults of the others."""
    variables = RECIPE.environment(options, {})
    if int(variables["TARE_MARKSWEEP_EVERY"]) == 0 and options.get("every", "auto") != "auto":
        raise UsageError(f"{NAME}(every={options['every']}): must be at least 1B")
    if int(variables["TARE_MARKSWEEP_RECLAIM"]) < 0:
        raise UsageError(f"{NAME}(reclaim={options['reclaim']}): must not be negative")
    if not 1 <= int(variables["TARE_MARKSWEEP_MARKERS"]) <= _MOST_MARKERS:
        raise UsageError(f"{NAME}(markers={options['markers']}): must be 1 to {_MOST_MARKERS}")
    if options.get("mark") == "concurrent":
        if variables["TARE_MARKSWEEP_FREE"] != "ignore":
            raise UsageError(f"{NAME}(mark=concurrent, free={options['free']}): needs free=ignore")
        if not writes_can_be_watched():
            raise MissingError(
                f"{NAME}(mark=concurrent) needs Linux 6.7 and userfaultfd, not usable here",
                "leave mark=concurrent out",
            )
    return variables


def writes_can_be_watched() -> bool:
    """Whether the kernel tells a process which of its pages it writes to, without stopping it."""
    number = {"x86_64": 323, "aarch64": 282}.get(os.uname().machine)
    if number is None:
        return False
    only_user_faults, wanted = 1, 1 << 13 | 1 << 15
    descriptor = ctypes.CDLL(None).syscall(number, os.O_CLOEXEC | only_user_faults)
    if descriptor < 0:
        return False
    try:
        fcntl.ioctl(descriptor, 0xC018AA3F, struct.pack("<3Q", 0xAA, wanted, 0))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


PAUSE_VARIABLE = "TARE_MARKSWEEP_PAUSE"
"""Nanoseconds of pauses that are put in midway between collections, in turn of each kind of
``PAUSES``; for ``tare proximity``."""
PAUSES = {"spin": 8, "park": 16, "stop": 32}
"""The bits of a record's kind that tell pauses that were put in: the thread spun, it slept, or all
threads were stopped."""

_MAGIC = 0x324B52414D455254
_HEADER_BYTES = 4096
_NAMES_AT = 512
_SLOT_BYTES = 64
_MOST_SLOTS = 192
_RECORD_FIELDS = (
    "begin",
    "end",
    "marked_objects",
    "marked_bytes",
    "swept_objects",
    "swept_bytes",
    "active_bytes",
    "kind",
    "released",
    "cpu",
    "thread",
)
_RECORD_BYTES = 128
_RECORDS_AT = _HEADER_BYTES + _MOST_SLOTS * _SLOT_BYTES
_MOST_RECORDS = 65_536
_FIRST = 64
"""The bit of a record's kind: the first pause of a collection beside the program."""
_FOR_HEAP = 2
"""The bit of a record's kind: the collection was forced by ``heap``."""


@dataclass(frozen=True)
class Counts:
    """What a process counted, as in managers/marksweep/counters.hpp: first the fields of its
    header, then from ``allocated_objects`` on the sums over its threads."""

    collections: int
    reclaiming_collections: int
    uncounted: int
    pause_nanoseconds: int
    longest_nanoseconds: int
    stop_nanoseconds: int
    mark_nanoseconds: int
    sweep_nanoseconds: int
    outside_nanoseconds: int
    marked_objects: int
    marked_bytes: int
    root_bytes: int
    swept_objects: int
    swept_bytes: int
    slots: int
    skipped_collections: int
    peak_active_pages_bytes: int
    peak_requested_bytes: int
    peak_live_marked_bytes: int
    held_bytes: int
    false_reclaims: int
    most_threads: int
    records: int
    records_lost: int
    metadata_bytes: int
    pause_cpu_nanoseconds: int
    searched_bytes: int
    first_pauses: int
    longest_step_nanoseconds: int
    beside_nanoseconds: int
    stopped_instead: int
    wait_nanoseconds: int
    allocated_objects: int
    allocated_bytes: int
    freed_objects: int
    freed_bytes: int
    ignored_objects: int
    ignored_bytes: int
    freed_clock: int
    bad_frees: int


_OF_SLOTS = _SLOT_BYTES // 8
_HEADER = struct.Struct(f"<4Q{len(fields(Counts)) - _OF_SLOTS}Q")
_SLOTS_AMONG = [field.name for field in fields(Counts)].index("slots")
_EXTREMES = ("longest_nanoseconds", "longest_step_nanoseconds", "most_threads")
"""Of all processes the largest counts; of the other fields the sum."""


@dataclass(frozen=True)
class Process(layers.Process):
    """``collections`` has a row for each with the fields of a record in
    managers/marksweep/counters.hpp: ``begin`` and ``end`` of the pause and ``released``, when the
    thread that collected went on, in nanoseconds of CLOCK_MONOTONIC; ``cpu``, nanoseconds of the
    process in the pause; and what it found. ``pauses`` are those that were put in, ``first_pauses``
    the first of the two of collections beside the program."""

    counts: Counts
    collections: NDArray[np.void]
    pauses: NDArray[np.void]
    first_pauses: NDArray[np.void]


def read_process(path: Path) -> Process | None:
    """The counters of one process; None if it was killed before it had begun them.

    Raises TareError for a file that is none.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        if not any(header):
            return None
        if len(header) < _HEADER_BYTES:
            raise TareError(f"{path}: not a file of counters, {len(header)} bytes")
        magic, pid, _, forked, *numbers = _HEADER.unpack_from(header)
        if magic != _MAGIC or numbers[_SLOTS_AMONG] > _MOST_SLOTS:
            raise TareError(f"{path}: not a file of counters of this version of Tare")
        threads = file.read(numbers[_SLOTS_AMONG] * _SLOT_BYTES)
        by_thread = np.frombuffer(threads[: len(threads) // _SLOT_BYTES * _SLOT_BYTES], dtype="<u8")
        counts = Counts(*numbers, *map(int, by_thread.reshape(-1, _OF_SLOTS).sum(axis=0)))
        file.seek(_RECORDS_AT)
        rows = file.read(min(counts.records, _MOST_RECORDS) * _RECORD_BYTES)
    whole = len(rows) - len(rows) % _RECORD_BYTES
    records = np.frombuffer(rows[:whole], dtype=_record_type())
    put_in = (records["kind"] & sum(PAUSES.values())) != 0
    servers = layers.served_by(header[_NAMES_AT:])
    first = (records["kind"] & _FIRST) != 0
    collections = records[~put_in & ~first]
    return Process(pid, bool(forked), servers, counts, collections, records[put_in], records[first])


def _record_type() -> np.dtype[np.void]:
    return np.dtype(
        {
            "names": _RECORD_FIELDS,
            "formats": ["<i8"] * len(_RECORD_FIELDS),
            "itemsize": _RECORD_BYTES,
        }
    )


def values(processes: Sequence[Process]) -> dict[str, float]:
    """The metrics of a run, over all its processes; empty when some did not count."""
    total = _total(processes)
    if total.uncounted:
        return {}
    return {
        "collections": total.collections,
        "pause_seconds": total.pause_nanoseconds / 1e9,
        "max_pause_seconds": total.longest_nanoseconds / 1e9,
        "collector_seconds": stopped_seconds(processes),
        "pause_cpu_seconds": total.pause_cpu_nanoseconds / 1e9,
        "marked_bytes": total.marked_bytes,
        "swept_bytes": total.swept_bytes,
        "peak_active_bytes": total.peak_active_pages_bytes,
        "peak_requested_bytes": total.peak_requested_bytes,
    }


def stopped_seconds(processes: Sequence[Process]) -> float:
    """How long at least one process was stopped: what the pauses of all take together on a clock
    that all share. Pauses beyond those recorded are taken to overlap with none."""
    found = _stops(processes)
    recorded = np.concatenate(found) if found else np.empty(0, _record_type())
    unrecorded = _total(processes).pause_nanoseconds - int(_lengths(recorded).sum())
    recorded = recorded[np.argsort(recorded["begin"], kind="stable")]
    before = np.concatenate(([0], np.maximum.accumulate(recorded["end"])))[:-1]
    begins = np.maximum(recorded["begin"], before)
    union = int(np.maximum(recorded["end"] - begins, 0).sum())
    return (union + max(0, unrecorded)) / 1e9


def details(processes: Sequence[Process], _main: int) -> dict[str, Any]:
    """What the counters say beyond metrics: sums over the processes, and their pauses by length."""
    return {
        "processes": len(processes),
        **asdict(_total(processes)),
        "pause_histogram": pause_histogram(processes),
    }


def pause_histogram(processes: Sequence[Process]) -> list[list[int]]:
    """Rows of two lengths in nanoseconds, powers of two, and how many recorded pauses were at
    least as long as the first and shorter than the second. Rows of none are left out."""
    lengths = [_lengths(each) for each in _stops(processes)]
    every = np.concatenate(lengths) if lengths else np.empty(0, np.int64)
    powers = np.frexp(np.maximum(every, 1))[1].astype(np.int64) - 1
    found, counts = np.unique(powers, return_counts=True)
    return [
        [1 << int(power), 2 << int(power), int(count)]
        for power, count in zip(found, counts, strict=True)
    ]


def _stops(processes: Sequence[Process]) -> list[NDArray[np.void]]:
    return [each for process in processes for each in (process.first_pauses, process.collections)]


def _lengths(records: NDArray[np.void]) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = records["end"] - records["begin"]
    return lengths


def ran_out(processes: Sequence[Process], exit_code: int | None) -> str:
    """Why a run ended for lack of memory within ``heap``, or ""."""
    full = any(len(p.collections) and int(p.collections[-1]["kind"]) & _FOR_HEAP for p in processes)
    if exit_code != HEAP_IS_FULL or not full:
        return ""
    return "its live objects did not fit into the heap that the manager was given"


def _total(processes: Sequence[Process]) -> Counts:
    def over_all(name: str) -> int:
        found = [getattr(process.counts, name) for process in processes]
        return max(found, default=0) if name in _EXTREMES else sum(found)

    return Counts(**{field.name: over_all(field.name) for field in fields(Counts)})
