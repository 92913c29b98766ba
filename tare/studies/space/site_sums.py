"""What an analysis of a heap trace keeps of each call site that owns memory, for comparing two."""

from __future__ import annotations

from tare.base.units import format_percent
from tare.heap_traces.ownership import LEAST_SITE
from tare.records.runs import Record
from tare.studies.space.details import Owner, Owning
from tare.studies.space.ownership import DRAG
from tare.studykit.changed_sites import SiteSums

KEPT_BY = (DRAG, "space")
TITLE = "Who owns memory differently"
NOTE = (
    f"a call site with less than {format_percent(LEAST_SITE)} of everything is not kept, and "
    "counts as none. Each peak has its own moment."
)
_SUMMED = ("objects", "bytes", "peak_bytes", "never_freed_bytes")


def site_sums(record: Record) -> list[SiteSums]:
    """None of a folder of an older Tare, which did not look who owns memory."""
    owned = record.outcome.details_as(Owning).owners
    knows_uses = record.run.study == DRAG
    return (
        [SiteSums("", site.frames, _sums(site, knows_uses)) for site in owned.sites]
        if owned
        else []
    )


def totals(record: Record) -> dict[str, float]:
    """By metric, what its values leave out: of all call sites together."""
    owned = record.outcome.details_as(Owning).owners
    if owned is None:
        return {}
    return {
        "objects": owned.totals.objects,
        "allocated_bytes": owned.totals.bytes,
        "max_live_bytes": owned.totals.peak_bytes,
    }


def _sums(site: Owner, knows_uses: bool) -> dict[str, float]:
    drag = {"drag_bytes": float(site.vain)} if knows_uses else {}
    return {**{name: float(getattr(site, name)) for name in _SUMMED}, **drag}
