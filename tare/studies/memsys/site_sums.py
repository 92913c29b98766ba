"""What a simulation keeps of each call of the memory manager, for comparing two of them."""

from __future__ import annotations

from msgspec import structs

from tare.observers.memory_details import Details
from tare.records.runs import Record
from tare.studykit.changed_sites import SiteSums

KEPT_BY = ("memsys",)
TITLE = "Where the manager waits for memory differently"
NOTE = "of the first model, its costliest callers alone are kept: another one counts as none."
_SUMMED = ("calls", "instructions", "stall_cycles")


def site_sums(record: Record) -> list[SiteSums]:
    found = record.outcome.details_as(Details)
    return [
        SiteSums(
            site.operation,
            [structs.asdict(site)],
            {name: getattr(site, name) for name in _SUMMED},
        )
        for model in found.models[:1]
        for site in model.sites
    ]
