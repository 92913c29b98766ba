"""What the resident memory of a process is for that Tare did not start: its births were not seen.

Of glibc's malloc the heaps are walked from outside (``glibc_heap``). jemalloc and gperftools'
malloc report themselves, by a call that the process is made to do. Other allocators do neither:
then only what lies outside the heap is known.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from tare.base.errors import UsageError
from tare.base.libraries import NDArray, np
from tare.importing.jemalloc_statistics import account as jemalloc_account
from tare.observers import attaching
from tare.observers.attaching import Target
from tare.observers.process_memory import Area, ProcessMemory
from tare.records.header import Amount
from tare.records.metrics import Status
from tare.records.runs import Number, Outcome
from tare.studies.space import glibc_heap
from tare.studies.space.ranges import Coverage, Ranges, both, from_pairs, nothing, union, without
from tare.studies.space.snapshot import Snapshot
from tare.studies.space.split import Areas, Objects, divided

PARTS = ("live", "cached", "external", "retained", "metadata", "other", "unexplained")
_METRICS = {"live": "in_use_bytes", "cached": "thread_cached_bytes"}
WALKED, TOLD, UNKNOWN = "walked", "told", "unknown"
_MOST_ACCOUNT = 64 << 20
_MOST_SIZES = 50
_PROPERTY = "MallocExtension_GetNumericProperty"
CODE, DATA, STACKS, SHARED, NAMELESS, KERNEL = (
    "files: code and constants",
    "static data",
    "stacks",
    "shared memory",
    "nameless memory that it mapped itself",
    "the kernel's",
)


class Kind(Struct, frozen=True):
    kind: str
    resident: Number


class Size(Struct, frozen=True):
    """Cells of one usable size: how many are live, and bytes of those that are free or cached."""

    size: Number
    objects: Number
    live: Number
    free: Number


class Details(Struct, frozen=True, kw_only=True):
    """``how`` the heap was divided. Of a walk there are ``sizes``, the number of ``arenas``, and
    whether cells in caches and fast bins were told from live ones."""

    pid: Number
    server: str
    allocator: str
    how: str
    resident: Number
    swapped: Number
    parts: dict[str, Amount]
    kinds: tuple[Kind, ...]
    live_objects: Number | None = None
    sizes: tuple[Size, ...] = ()
    arenas: Number = 0
    undivided: Number = 0
    caches_known: bool = True
    fast_known: bool = True
    over: str = ""
    """Why the waiting was over."""
    seconds: Amount = 0.0
    """How long its memory was read for."""


@dataclass(frozen=True)
class Account:
    """What an allocator says of its heap, in bytes; gperftools' does not tell of its tables."""

    live: int
    cached: int
    external: int
    retained: int
    metadata: int | None


def outcome_of(target: Target, over: str = "") -> Outcome:
    """The division of its resident memory now, in ``values`` and as ``Details``."""
    server = attaching.allocator_of(target)
    allocator = _allocator(target, server)
    account = _told(target) if allocator in ("jemalloc", "tcmalloc") else None
    begin = time.monotonic()
    try:
        with ProcessMemory(target.pid) as memory:
            found = _unwalked(memory, account) if server else _walked(memory)
            swapped = sum(area.swapped for area in memory.areas)
            resident = memory.resident
    except PermissionError:
        raise attaching.not_allowed(target.pid, "its memory cannot be read") from None
    except OSError:
        raise UsageError(f"process {target.pid} ended while it was looked at") from None
    if not target.is_there():
        raise UsageError(f"process {target.pid} ended while it was looked at")
    values = {"resident_bytes": float(resident)}
    values |= {_METRICS.get(n, f"{n}_bytes"): float(size) for n, size in found["parts"].items()}
    if found.get("live_objects") is not None:
        values["live_objects"] = float(found["live_objects"])
    details = {
        "pid": target.pid,
        "server": server,
        "allocator": allocator,
        "resident": resident,
        "swapped": swapped,
        "over": over,
        "seconds": time.monotonic() - begin,
        **found,
    }
    return Outcome(Status.OK, values=values, server=server, details={"process": details})


def _allocator(target: Target, server: str) -> str:
    if not server:
        return "glibc"
    known = attaching.exported_by(target, server, ("malloc_stats_print", _PROPERTY))
    if "malloc_stats_print" in known:
        return "jemalloc"
    return "tcmalloc" if _PROPERTY in known else Path(server).name


# ---- glibc ----


def _walked(memory: ProcessMemory) -> dict[str, Any]:
    heaps = glibc_heap.heaps_of(memory, memory.areas, memory.stacks)
    live, free, cached = heaps.live, heaps.free, heaps.cached
    sizes = live[:, 1] - live[:, 0]
    objects = Objects(live[:, 0], sizes, sizes, np.zeros(len(live), np.int64))
    runs = union(memory.runs)
    snapshot = Snapshot(
        name="",
        origin=0,
        time=0,
        forked=False,
        spent_seconds=0.0,
        lowest_ratio=1.0,
        mappings=[],
        rss_bytes=memory.resident,
        swapped_bytes=0,
        huge_bytes=0,
        runs=without(runs, heaps.undivided),
        guards=nothing(),
        own=nothing(),
        held=cached,
        start=nothing(),
        mapped=np.zeros((0, 3), np.int64),
        threads=np.zeros(0, np.int64),
    )
    none = nothing()
    areas = Areas(heap=heaps.areas, manager_data=none, observer=none, uncounted=none, mapped={})
    ever = union(live, free, cached)
    whole, _ = divided(snapshot, objects, ever, areas, glibc_heap.HEADER)
    kinds = _kinds(memory, heaps.areas)
    other = sum(kinds.values())
    parts = {
        "live": whole.parts["requested"],
        "cached": whole.parts["delayed"],
        **{name: whole.parts[name] for name in ("external", "retained", "metadata")},
        "other": other,
    }
    parts["unexplained"] = memory.resident - sum(parts.values())
    return {
        "how": WALKED,
        "parts": parts,
        "kinds": _rows(kinds),
        "live_objects": len(live),
        "sizes": _sizes(live, np.concatenate([free, cached])),
        "arenas": heaps.arenas,
        "undivided": _size(without(runs, without(runs, heaps.undivided))),
        "caches_known": heaps.caches_known,
        "fast_known": heaps.fast_known,
    }


def _size(ranges: Ranges) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def _sizes(live: NDArray[np.int64], free: NDArray[np.int64]) -> list[dict[str, int]]:
    """Those with most bytes, live and free."""
    counted: Counter[int] = Counter()
    left: Counter[int] = Counter()
    for cells, counter in ((live, counted), (free, left)):
        unique, numbers = np.unique(cells[:, 1] - cells[:, 0], return_counts=True)
        counter.update(dict(zip(unique.tolist(), numbers.tolist(), strict=True)))
    most = sorted({*counted, *left}, key=lambda size: -size * (counted[size] + left[size]))
    return [
        {"size": size, "objects": counted[size], "live": size * counted[size],
         "free": size * left[size]}
        for size in most[:_MOST_SIZES]
    ]  # fmt: skip


# ---- allocators that report ----


def _told(target: Target) -> Account:
    with tempfile.TemporaryDirectory(prefix="tare-account-") as name:
        folder = Path(name).resolve()
        attaching.account_of(target, folder)
        if (path := folder / "jemalloc.json").is_file():
            values, _ = jemalloc_account(path)
            return Account(
                live=int(values["live_bytes"] - values["cached_bytes"]),
                cached=int(values["cached_bytes"]),
                external=int(values["external_bytes"]),
                retained=int(values["retained_bytes"]),
                metadata=int(values["metadata_bytes"]),
            )
        return _of_tcmalloc((folder / "tcmalloc.txt").read_text()[:_MOST_ACCOUNT])


def _of_tcmalloc(text: str) -> Account:
    rows = (line.split() for line in text.splitlines())
    found = {name.partition(".")[2]: int(value) for name, value in rows}
    return Account(
        live=found["current_allocated_bytes"],
        cached=found["current_total_thread_cache_bytes"],
        external=found["central_cache_free_bytes"] + found["transfer_cache_free_bytes"],
        retained=found["pageheap_free_bytes"],
        metadata=None,
    )


def _unwalked(memory: ProcessMemory, account: Account | None) -> dict[str, Any]:
    kinds = _kinds(memory, nothing())
    heap = kinds.pop(NAMELESS, 0)
    told = vars(account) if account else {}
    parts = {name: size for name, size in told.items() if size is not None}
    parts["other"] = sum(kinds.values())
    parts["unexplained"] = memory.resident - sum(parts.values())
    return {
        "how": TOLD if account else UNKNOWN,
        "parts": {name: parts[name] for name in PARTS if name in parts},
        "kinds": _rows({**kinds, "nameless memory, the heap among it": heap}),
    }


# ---- outside the heap ----


def _kinds(memory: ProcessMemory, heap: Ranges) -> Counter[str]:
    """Resident bytes outside the heap, by what is mapped there."""
    resident = union(memory.runs)
    stacks = without(both(from_pairs(memory.stacks), resident), heap)
    told = [Coverage(one[:, 0], one[:, 1]) for one in (both(resident, heap), stacks)]
    found: Counter[str] = Counter()
    before: Area | None = None
    for area in memory.areas:
        ends = np.array([area.start, area.end])
        in_heap, in_stacks = (int(np.diff(one.below(ends))[0]) for one in told)
        is_behind = before is not None and before.end == area.start and before.name[:1] == "/"
        found[STACKS] += in_stacks
        found[_kind(area, is_behind)] += max(area.resident - in_heap - in_stacks, 0)
        before = area
    return +found


def _kind(area: Area, is_behind_file: bool) -> str:
    if area.name == "[stack]":
        return STACKS
    if area.access[1::2] == "ws" or area.name.startswith(("/dev/shm/", "/memfd:", "/SYSV")):
        return SHARED
    if area.name.startswith("/"):
        return DATA if area.is_own else CODE
    if area.is_nameless or area.name == "[heap]":
        return DATA if is_behind_file and area.is_own and area.is_nameless else NAMELESS
    return KERNEL


def _rows(kinds: dict[str, int]) -> list[dict[str, Any]]:
    ordered = sorted(kinds.items(), key=lambda row: -row[1])
    return [{"kind": kind, "resident": size} for kind, size in ordered if size]
