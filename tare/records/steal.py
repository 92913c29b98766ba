"""What the host of a virtual machine took of its processors while a program ran."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tare.records.runs import Record

MUCH = 0.03
_LEAST_SECONDS = 0.02
"""The kernel counts in hundredths of a second; one of them tells nothing of a short run."""


class Steal(Struct, frozen=True):
    """Of the processors that a run could use, the seconds that the host gave to others, and their
    share in all that they would have worked meanwhile."""

    seconds: float
    share: float


class _Details(Struct):
    steal: Steal | None = None


def much(records: Sequence[Record]) -> list[float]:
    """The share of each run that lost more than ``MUCH``."""
    seen = [record.outcome.details_as(_Details).steal for record in records]
    return [
        steal.share
        for steal in seen
        if steal and steal.share > MUCH and steal.seconds >= _LEAST_SECONDS
    ]
