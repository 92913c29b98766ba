"""What to do about resident memory: objects that pin free memory. (What grows to the end may be in
use until then: whether it leaks is for `drag` to tell, which sees uses.)"""

from __future__ import annotations

from collections.abc import Iterator

from tare.base.units import format_bytes, format_count
from tare.heap_traces.predictions import LEAST_BYTES, LEAST_SHARE
from tare.records.actions import Action, Kind
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.studies.space.details import Details
from tare.studykit.advice import predicted, saving, verifying
from tare.studykit.findings import first_good_records

STUDY = "space"


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
        on_pages, between = float(row.on_pages), float(row.between)
        if on_pages + between < max(LEAST_BYTES, LEAST_SHARE * resident):
            continue
        place = row.place
        text = (
            f"Allocate the objects of {place.name} apart from others, in blocks of their own: at "
            f"the peak {format_count(row.objects)} of them, {format_bytes(row.requested)} in "
            f"all, keep {format_bytes(on_pages + between)} of free memory from being reused or "
            "given back."
        )
        saved = (on_pages + between, on_pages, on_pages + between)
        gain = saving("peak_resident_bytes", resident, saved)
        yield predicted(Kind.PINNED, text, gain, verify, place)
