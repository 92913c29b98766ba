"""What to do about resident memory: objects that pin free memory, or cost more than they hold.

What grows to the end may be in use until then: whether it leaks is for `drag` to tell, which sees
uses.
"""

from __future__ import annotations

from collections.abc import Iterator

from tare.base.units import format_bytes, format_count
from tare.heap_traces.predictions import LEAST_SHARE
from tare.records.actions import Action, Kind
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.studies.space.details import Details
from tare.studies.space.snapshot import TOUCHED_BYTES
from tare.studykit.advice import predicted, saving, verifying
from tare.studykit.findings import first_good_records

STUDY = "space"
LEAST_OVERHEAD = 0.05
"""Of resident memory: most programs have a little of it everywhere."""
MOSTLY = 0.9
"""Of what all objects ask for: what has so much of it lies apart from others already."""
MANY = 10
"""Objects of a block: one header and one rounding for so many is the low bound of what is saved."""


def actions(results: Results) -> list[Action]:
    """Of each program under the baseline. Analyses of older versions of Tare lack what it takes."""
    found: list[Action] = []
    for record in first_good_records(read_records(results.folder), STUDY, results.run.baseline):
        found += _pinned(results, record)
    return found


def _pinned(results: Results, record: Record) -> Iterator[Action]:
    details = record.outcome.details_as(Details)
    resident = float(details.peak.resident)
    verify = verifying(results.run, STUDY, record.run.program)
    for row in details.pinned:
        free = float(row.on_pages + row.between)
        many = row.overhead > free and row.overhead >= LEAST_OVERHEAD * resident
        alone = row.requested >= MOSTLY * details.peak.parts.requested
        if not many and (alone or free < max(TOUCHED_BYTES, LEAST_SHARE * resident)):
            continue
        objects = f"{format_count(row.objects)} of them, {format_bytes(row.requested)} in all"
        if many:
            text = (
                f"Allocate the objects of {row.place.name} many at a time, in blocks of their own: "
                f"at the peak {objects}, take {format_bytes(row.overhead)} more for headers and "
                "rounding."
            )
            saved = (float(row.overhead), (1 - 1 / MANY) * row.overhead, float(row.overhead))
        else:
            text = (
                f"Allocate the objects of {row.place.name} apart from others, in blocks of their "
                f"own: at the peak {objects}, keep {format_bytes(free)} of free memory from being "
                "reused or given back."
            )
            saved = (free, float(row.on_pages), free)
        gain = saving("peak_resident_bytes", resident, saved)
        yield predicted(Kind.PINNED, text, gain, verify, row.place)
