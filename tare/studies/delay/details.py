"""What the record of a run under the layer holds beyond its values; the layer's ``details`` says
how."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tare.studykit.sweep_tables import Histogram


class Held(Struct, frozen=True, kw_only=True):
    pause_histogram: Histogram = ()
    threads: tuple[Any, ...] = ()


class Details(Struct, frozen=True, kw_only=True):
    """Of a run without the layer, too."""

    delay: Held = Held()
