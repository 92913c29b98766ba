"""What to do about unused memory, and about calls that could be spared: of the
changes that were tried on the trace, those that bring enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tare.base.units import format_bytes, format_count, format_percent
from tare.heap_traces.predictions import LEAST_SHARE
from tare.records.actions import Action, Gain, Kind
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.studies.drag.details import Change, Details
from tare.studykit.advice import called, predicted, saving, verifying
from tare.studykit.findings import first_good_records

STUDY = "drag"
LEAST_INSTRUCTIONS = 0.03
"""Of all instructions: to keep objects for another use is work, and asks for care ever after."""
MOST_OTHERS = 2
POOL_INSTRUCTIONS = 20
"""What a pool takes to give an object and to take it back: two pushes and pops of a list."""


def actions(results: Results) -> list[Action]:
    """Of the baseline's trace of each program. Analyses of older versions of Tare tried nothing."""
    found: list[Action] = []
    for record in first_good_records(read_records(results.folder), STUDY, results.run.baseline):
        details = record.outcome.details_as(Details)
        for change in details.changes or ():
            found += _action(results, record, details, change)
    return found


def _action(results: Results, record: Record, details: Details, change: Change) -> Iterator[Action]:
    kind, place = change.kind, change.place
    where = called(place, change.caller)
    saved = change.saved(details.main.peaks.free)
    if saved is None:
        gain = calls_saved(details.counted, change)
        if gain is None or gain.value < LEAST_INSTRUCTIONS * gain.value / (1 - gain.ratio):
            return
        text = _CALLS[kind](change, where, format_percent(1 - gain.ratio))
        verify = verifying(results.run, "count", record.run.program)
    else:
        gain = saving("peak_free_bytes", float(details.peaks.free), saved)
        if kind is Kind.RESERVE and gain.ratio > 1 - LEAST_SHARE:
            gain = _copying_saved(details, change)
            if gain is None:
                return
            verify = verifying(results.run, "count", record.run.program)
        else:
            verify = verifying(results.run, STUDY, record.run.program)
        text = _PEAKS[kind](change, where)
    yield predicted(kind, text, gain, verify, place, change.others)


# ---- gains ----


def calls_saved(counted: Mapping[str, float], change: Change) -> Gain | None:
    """Of allocations with their frees; None where the run did not count instructions."""
    if not counted.get("instructions"):
        return None
    cost = 0.0
    there = {"malloc": change.malloc_instructions, "free": change.free_instructions}
    for name, here in there.items():
        everywhere = counted.get(f"{name}_instructions", 0)
        cost += everywhere / max(counted.get(f"{name}_calls", 0), 1) if here is None else here
    least, calls = max(cost - POOL_INSTRUCTIONS, 0), change.calls
    saved = (calls * cost, calls * least, calls * cost)
    return saving("instructions", counted["instructions"], saved, unit="")


def _copying_saved(details: Details, change: Change) -> Gain | None:
    whole = details.counted.get("instructions", 0)
    spent = float(change.copy_instructions)
    if not whole or spent < LEAST_INSTRUCTIONS * whole:
        return None
    return saving("instructions", whole, (spent, spent, spent), unit="")


# ---- sentences ----


def _free_earlier(change: Change, where: str) -> str:
    others = _with_others(change)
    text = (
        f"Free what {where} allocates{others}{',' if others else ''} when it is no longer used: "
        f"{format_bytes(change.at_peak)} of it are alive at the peak, after their last use"
    )
    if change.never_freed:
        text += ", and never freed"
    elif change.freed_at is not None:
        text += f", and freed only at {change.freed_at.name}"
    if change.teardown:
        text += " (reads by the code that frees them are not counted as uses)"
    return f"{text}."


def _with_others(change: Change) -> str:
    """The other places of one structure, a few of them."""
    names = list(dict.fromkeys(place.name for place in change.others))
    if not names:
        return ""
    left = len(names) - MOST_OTHERS
    more = f" and {left} more place{'s' if left > 1 else ''}" if left > 0 else ""
    return f", with what belongs to it from {', '.join(names[:MOST_OTHERS])}{more}"


def _leak(change: Change, where: str) -> str:
    return (
        f"Free what {where} allocates{_with_others(change)}: it grows as the program runs and is "
        f"never freed, and {format_bytes(change.at_peak)} of it are alive at the peak, after "
        "their last use."
    )


def _never_used(change: Change, where: str) -> str:
    return (
        f"Allocate at {where} only what is going to be used: {format_bytes(change.at_peak)} of "
        "it are alive at the peak that are never read or written."
    )


def _untouched(change: Change, where: str) -> str:
    return (
        f"Ask for less at {where}: of {format_bytes(change.held)} that are alive at the peak, "
        f"{format_bytes(change.at_peak)} are never touched. Pages that are never touched take "
        "no memory, so resident memory shrinks by less."
    )


def _reserve(change: Change, where: str) -> str:
    return (
        f"Reserve the final size of what grows at {where} before it is filled: it is copied into a "
        f"larger block {format_count(change.links)} times, "
        f"{format_bytes(change.copied_bytes)} in all, and for a moment both blocks exist."
    )


_PEAKS = {
    Kind.FREE_EARLIER: _free_earlier,
    Kind.LEAK: _leak,
    Kind.NEVER_USED: _never_used,
    Kind.UNTOUCHED: _untouched,
    Kind.RESERVE: _reserve,
}


def _short_lived(change: Change, where: str, share: str) -> str:
    size = format_bytes(change.bytes / max(change.objects, 1))
    return (
        f"Reuse one buffer, or a pool, for the objects of {where}: "
        f"{format_count(change.calls)} of {size} on average are freed soon after they are "
        f"allocated, and allocating and freeing them takes about {share} of all instructions."
    )


def _cross_thread(change: Change, where: str, share: str) -> str:
    return (
        f"Give the objects of {where} back to the thread that allocated them, for reuse: "
        f"another thread frees {format_count(change.calls)} of them, and allocating and freeing "
        f"them takes about {share} of all instructions."
    )


_CALLS = {Kind.SHORT_LIVED: _short_lived, Kind.CROSS_THREAD: _cross_thread}
