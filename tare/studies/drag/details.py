"""What the record of an analysed run holds beyond its values; ``observe`` and
``tare.heap_traces.residence`` say how."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tare.heap_traces.frames import RecordedFrame
from tare.records.actions import Kind, Place
from tare.records.header import Amount
from tare.records.runs import Number


class Kept(Struct, frozen=True, kw_only=True):
    """``trace`` is the path of the trace, empty where it is not kept. Of runs that failed, too."""

    trace: str = ""


class Areas(Struct, frozen=True, kw_only=True):
    """Byte-times."""

    use: Amount
    lag: Amount
    drag_freed: Amount
    drag_unfreed: Amount
    void: Amount
    unreachable_drag: Amount

    @property
    def parts(self) -> dict[str, float]:
        """By what bytes are held for: together, all that is held."""
        drag = self.drag_freed + self.drag_unfreed
        return {"use": self.use, "lag": self.lag, "drag": drag, "void": self.void}

    @property
    def held(self) -> float:
        return sum(self.parts.values())

    @property
    def wasted(self) -> float:
        return self.held - self.use


class Totals(Struct, frozen=True, kw_only=True):
    objects: Number
    bytes: Number
    never_used_objects: Number
    never_used_bytes: Number
    never_freed_objects: Number
    never_freed_bytes: Number
    unknown_objects: Number


class Peaks(Struct, frozen=True, kw_only=True):
    """Bytes, by when objects are given back; None where that was not observed."""

    free: Number = 0
    unreachable: Number | None = None
    last_use: Number = 0
    needed: Number | None = None


class AtPeak(Struct, frozen=True, kw_only=True):
    """What was held at the peak: bytes by what for."""

    time: Number = 0
    objects: Number = 0
    use: Number = 0
    lag: Number = 0
    drag: Number = 0
    void: Number = 0


Means = tuple[Amount, ...]
"""Of each step of the run."""


class Profile(Struct, frozen=True, kw_only=True):
    use: Means = ()
    lag: Means = ()
    drag: Means = ()
    void: Means = ()
    unreachable: Means = ()


class Main(Struct, frozen=True, kw_only=True):
    """The process that holds most; where none has objects, nothing."""

    process: Number = 0
    end: Number = 0
    profile: Profile = Profile()
    peaks: Peaks = Peaks()
    at_peak: AtPeak = AtPeak()


class Site(Struct, frozen=True, kw_only=True):
    """A call site, with the byte-times of its objects. Its process ended at ``end``."""

    lag: Amount
    drag_freed: Amount
    drag_unfreed: Amount
    void: Amount
    wasted: Amount
    end: Amount
    objects: Number
    bytes: Number
    frames: tuple[RecordedFrame, ...]

    def mean(self, byte_time: float) -> float:
        """Bytes, over the run."""
        return byte_time / max(self.end, 1.0)


class Change(Struct, frozen=True, kw_only=True):
    """What a change of one place would bring; see ``tare.heap_traces.predictions``. ``peak`` and
    its bounds are None where it is the calls that would be saved."""

    kind: Kind
    place: Place
    others: tuple[Place, ...] = ()
    objects: Number = 0
    bytes: Number = 0
    at_peak: Number = 0
    held: Number = 0
    peak: Number | None = None
    peak_low: Number | None = None
    peak_high: Number | None = None
    never_freed: bool = False
    freed_at: Place | None = None
    teardown: bool = False
    caller: Place | None = None
    links: Number = 0
    copied_bytes: Number = 0
    copy_instructions: Number = 0
    calls: Number = 0
    malloc_instructions: Amount | None = None
    free_instructions: Amount | None = None

    def saved(self, largest: int) -> tuple[float, float, float] | None:
        """Bytes of a peak of ``largest``: what is expected, and at the least and the most."""
        if self.peak is None or self.peak_low is None or self.peak_high is None:
            return None
        return (
            float(largest - self.peak),
            float(largest - self.peak_high),
            float(largest - self.peak_low),
        )


class Reuse(Struct, frozen=True):
    """``frees``, and how many of them come right before an allocation of the same size."""

    frees: Number
    reusable: Number


class Details(Kept, frozen=True, kw_only=True):
    """``changes`` and ``reuse`` are None where an older Tare did not look."""

    clock: str
    processes: Number
    reachability: bool
    peaks: Peaks
    areas: Areas
    main: Main
    totals: Totals
    sites: tuple[Site, ...]
    wasting_sites: Number
    complete: bool
    reason: str
    sites_known: bool
    changes: tuple[Change, ...] | None = None
    reuse: Reuse | None = None
    counted: Mapping[str, Amount] = {}
