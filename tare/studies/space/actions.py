"""What to do about resident memory: objects that pin free memory, and places that never stop
growing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tare.base.units import format_bytes, format_count
from tare.heap_traces.frames import place_of
from tare.heap_traces.growth import GROWS
from tare.heap_traces.predictions import LEAST_BYTES, LEAST_SHARE
from tare.heap_traces.spots import is_changeable
from tare.records.actions import Action, Kind
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.studykit.advice import named, place_in, predicted, saving, verifying
from tare.studykit.findings import first_good_records

STUDY = "space"
_OF_USES = "drag"
"""The study that can tell a leak from what is in use to the end."""


def actions(results: Results) -> list[Action]:
    """Of each program under the baseline. Analyses of older versions of Tare lack what it takes."""
    found: list[Action] = []
    records = read_records(results.folder)
    knows_uses = bool(first_good_records(records, _OF_USES, results.run["baseline"]))
    for record in first_good_records(records, STUDY, results.run["baseline"]):
        found += _pinned(results, record)
        if not knows_uses:
            found += _growing(results, record)
    return found


def _pinned(results: Results, record: Record) -> Iterator[Action]:
    details = record.outcome.details
    resident = float(details["peak"]["resident"])
    verify = verifying(results.run, STUDY, record.run.program)
    for row in details.get("pinned", ()):
        on_pages, between = float(row["on_pages"]), float(row["between"])
        if on_pages + between < max(LEAST_BYTES, LEAST_SHARE * resident):
            continue
        place = place_in(row["place"])
        text = (
            f"Allocate the objects of {named(place)} apart from others, in blocks of their own: at "
            f"the peak {format_count(row['objects'])} of them, {format_bytes(row['requested'])} in "
            f"all, alone keep {format_bytes(on_pages + between)} of free memory from being used "
            "again or given back."
        )
        saved = (on_pages + between, on_pages, on_pages + between)
        gain = saving("peak_resident_bytes", resident, saved)
        yield predicted(Kind.PINNED, text, gain, verify, place)


def _growing(results: Results, record: Record) -> Iterator[Action]:
    """Sites that grow to the end and are not freed then: what they gained is least what a free
    would bring, as their objects may be needed until they are."""
    details: Mapping[str, Any] = record.outcome.details
    largest = float(details["largest_live"])
    unfreed = {
        (site["process"], site["site"]): site["never_freed_bytes"]
        for site in details["growth"]["never_freed"]
    }
    verify = verifying(results.run, STUDY, record.run.program)
    for site in details["growth"]["sites"]:
        kept = float(min(unfreed.get((site["process"], site["site"]), 0), site["levels"][-1]))
        place = place_of(site["frames"])
        if site["kind"] != GROWS or place is None or not is_changeable(place):
            continue
        if 2 * kept < site["levels"][-1] or kept < max(LEAST_BYTES, LEAST_SHARE * largest):
            continue
        text = (
            f"Free what {named(place)} allocates: it grows as the program runs, and "
            f"{format_bytes(kept)} of it are never freed; tare drag tells whether they are in use."
        )
        gain = saving("peak_free_bytes", largest, (kept, 0.0, kept))
        yield predicted(Kind.LEAK, text, gain, verify, place)
