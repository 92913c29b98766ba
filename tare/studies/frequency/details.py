"""What the record of a run under the collector holds beyond its values; the layer's ``details``
says how."""

from __future__ import annotations

from msgspec import Struct

from tare.studykit.sweep_tables import Histogram


class Collected(Struct, frozen=True, kw_only=True):
    pause_histogram: Histogram = ()


class Details(Struct, frozen=True, kw_only=True):
    """Of a run without the collector, too."""

    marksweep: Collected = Collected()
