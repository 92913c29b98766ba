"""What the record of an analysed run holds beyond its values; ``observe`` says how."""

from __future__ import annotations

from msgspec import Struct

from tare.heap_traces.frames import RecordedFrame
from tare.records.actions import Place
from tare.records.header import Amount
from tare.records.runs import Number

Frames = tuple[RecordedFrame, ...]
"""Innermost first; empty where the call site is not known."""


class Took(Struct, frozen=True, kw_only=True):
    """Of runs that failed, too."""

    wall_seconds: Amount = 0.0
    analysis_seconds: Amount = 0.0


# ---- who owns the memory ----


class Sums(Struct, frozen=True, kw_only=True):
    """Of call sites, as ``tare.heap_traces.ownership`` has them. ``kept`` is known where resident
    pages were recorded, what is unused where uses were."""

    peak_bytes: Number
    peak_objects: Number
    bytes: Number
    objects: Number
    temporary_bytes: Number
    temporary_objects: Number
    never_freed_bytes: Number
    never_freed_objects: Number
    kept: Number = 0
    peak_drag: Number = 0
    peak_void: Number = 0
    peak_idle: Number | None = None

    @property
    def vain(self) -> int:
        """Bytes at the peak that are not needed again. Older analyses do not tell teardown apart
        from use."""
        return self.peak_drag + self.peak_void if self.peak_idle is None else self.peak_idle


class Owner(Sums, frozen=True, kw_only=True):
    frames: Frames


class Others(Sums, frozen=True, kw_only=True):
    """As many call sites as ``sites`` together."""

    sites: Number


class Stack(Sums, frozen=True, kw_only=True):
    """``stack`` has numbers of frames, the outermost first."""

    stack: tuple[Number, ...]


class Owned(Struct, frozen=True, kw_only=True):
    """``threads`` is how many allocated; 0 where an older Tare did not look."""

    threads: Number = 0
    totals: Sums
    sites: tuple[Owner, ...]
    others: Others
    frames: Frames
    stacks: tuple[Stack, ...]


class Owning(Took, frozen=True, kw_only=True):
    """Of runs of any study; None where an older Tare did not look."""

    owners: Owned | None = None


# ---- resident memory ----


class Parts(Struct, frozen=True, kw_only=True):
    """Bytes, which add up to the resident ones."""

    requested: Amount
    internal: Amount
    metadata: Amount
    external: Amount
    retained: Amount
    delayed: Amount
    other: Amount
    unexplained: Amount


class Moment(Struct, frozen=True, kw_only=True):
    """What ``tare.studies.space.split`` made of one snapshot."""

    allocated: Number
    resident: Number
    parts: Parts
    heap: Amount
    observer: Number
    swapped: Number

    def part(self, name: str) -> float:
        size: float = getattr(self.parts, name)
        return size


class Keeping(Struct, frozen=True, kw_only=True):
    """What objects take, and what free memory they keep resident."""

    objects: Number
    requested: Number
    internal: Number
    kept: Number
    sparse_pages: Number
    alone: Number
    sparse_bytes: Number


class KeepingSite(Keeping, frozen=True, kw_only=True):
    frames: Frames


class SizeClass(Keeping, frozen=True, kw_only=True):
    up_to: Number


class Occupancy(Struct, frozen=True, kw_only=True):
    steps: tuple[Number, ...]
    empty: Number
    never: Number


class PageMap(Struct, frozen=True, kw_only=True):
    pages_in_cell: Number
    live: tuple[Amount, ...]


class GrowingSite(Struct, frozen=True, kw_only=True):
    kind: str
    gained: Number
    per_allocated: Amount
    levels: tuple[Amount, ...]
    frames: Frames


class LeakingSite(Struct, frozen=True, kw_only=True):
    never_freed_bytes: Number
    never_freed_objects: Number
    frames: Frames


class Growth(Struct, frozen=True, kw_only=True):
    """As ``tare.heap_traces.growth`` found it."""

    sites: tuple[GrowingSite, ...]
    growing_sites: Number
    never_freed: tuple[LeakingSite, ...]
    leaking_sites: Number
    never_freed_bytes: Number
    never_freed_objects: Number


class PinningPlace(Struct, frozen=True, kw_only=True):
    """A place whose objects alone keep free bytes resident, or whose small ones need ``overhead``,
    for headers and rounding, which an older Tare did not look at."""

    place: Place
    objects: Number
    requested: Number
    on_pages: Number
    between: Number
    overhead: Number = 0


class Mapped(Struct, frozen=True, kw_only=True):
    """Nameless memory that the code of a file mapped itself."""

    file: str
    resident: Number


class Process(Struct, frozen=True, kw_only=True):
    pid: Number
    program: str
    peak_bytes: Number


class Details(Owning, frozen=True, kw_only=True):
    peak: Moment
    timeline: tuple[Moment, ...]
    sites: tuple[KeepingSite, ...]
    keeping_sites: Number
    sizes: tuple[SizeClass, ...]
    pinned: tuple[PinningPlace, ...] = ()
    mapped: tuple[Mapped, ...] = ()
    occupancy: Occupancy
    page_map: PageMap
    largest_live: Number
    allocated_bytes: Number
    growth: Growth
    forked: bool
    processes: tuple[Process, ...]
    snapshot_seconds: Amount
    coarseness: Amount
    damage: tuple[str, ...]
    sites_known: bool
    collects: bool
    kernel_peak_bytes: Amount
