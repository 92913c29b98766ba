"""What a count keeps of each call site, for comparing two of them."""

from __future__ import annotations

from tare.records.runs import Record
from tare.studies.count.sites import costs
from tare.studykit.changed_sites import SiteSums

KEPT_BY = ("count",)
TITLE = "Where memory is managed differently"
NOTE = ""
_SUMMED = ("calls", "instructions", "bytes")


def site_sums(record: Record) -> list[SiteSums]:
    """None where the count was not told apart by call site."""
    return [
        SiteSums(cost.operation, cost.frames[::-1], {name: getattr(cost, name) for name in _SUMMED})
        for cost in costs(record.outcome)
        if not cost.is_rest
    ]
