"""What a count keeps of each call site, for comparing two of them."""

from __future__ import annotations

from msgspec import Struct

from tare.observers.call_sites import CallSites, costs_of
from tare.records.runs import Record
from tare.studykit.changed_sites import SiteSums

KEPT_BY = ("count",)
TITLE = "Where memory is managed differently"
NOTE = ""
_SUMMED = ("calls", "instructions", "bytes")


class _Told(Struct):
    """Of the details of a count, which other studies may keep without the rest."""

    call_sites: CallSites | None = None


def site_sums(record: Record) -> list[SiteSums]:
    """None where the count was not told apart by call site."""
    found = record.outcome.details_as(_Told).call_sites
    return [
        SiteSums(cost.operation, cost.frames[::-1], {name: getattr(cost, name) for name in _SUMMED})
        for cost in (costs_of(found) if found else ())
        if not cost.is_rest
    ]
