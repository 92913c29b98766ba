"""What `tare trace` says of the trace that it recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.base.units import format_bytes, format_count, format_seconds
from tare.heap_traces.trace import Trace
from tare.records.results import telling_damage
from tare.report.fields import Field, Kind, Row, counts, numbers, quotient, sizes, table
from tare.report.model import Cell, Report, Section, Table

_MOST_PROCESSES_SHOWN = 20
_KINDS = {
    "free": "frees",
    "usable_size": "usable sizes",
    "sites": "call sites",
    "first_use": "first uses",
    "last_use": "last uses",
    "teardown": "which uses are teardown",
    "touched": "how far objects were touched",
    "unreachable": "when objects were found unreachable",
    "pointers": "stores of pointers",
    "nanoseconds": "times",
    "address": "addresses",
}
_OBSERVERS = {"recorder": "the recorder", "jvm": "the JVM's agent"}


def summary_report(trace: Trace) -> Report:
    """How much a trace holds, what was observed, and what is missing. UsageError where meta.json
    tells it in another way."""
    with telling_damage(trace):
        return _summary_report(trace)


def _summary_report(trace: Trace) -> Report:
    meta = trace.meta
    size = trace.size_bytes()
    tables = [_totals(meta, size)]
    if len(trace.processes) > 1:
        tables.append(_processes(trace))
    return Report(
        title=f"tare trace: {meta['program'].get('name', '')}",
        subtitle=f"under {meta['manager']}",
        sections=[Section("trace", "Heap trace", _findings(meta), tables)],
    )


def _findings(meta: Mapping[str, Any]) -> list[str]:
    findings = []
    if not meta["complete"]:
        findings.append(f"The trace is not complete: {meta['reason']}.")
    observed = [words for word, words in _KINDS.items() if word in meta["observed"]]
    findings.append(f"Besides births it has: {', '.join(observed)}.")
    if sample := meta.get("sample_bytes"):
        findings.append(
            f"It is a sample: on average, one object per {format_bytes(sample)} allocated. "
            "The objects and call sites below are those that were recorded."
        )
    if meta.get("switched"):
        findings.append(
            "Recording could be turned on and off: events.parquet says when. The objects and bytes "
            "below are those recorded while it was on."
        )
    if pid := meta.get("attached"):
        findings.append(
            f"The recorder was put into process {pid} while it ran. Not in the trace: objects born "
            "before, and calls by libraries that were loaded afterwards or by copies of malloc's "
            "address. What was alive at the end need not be a leak."
        )
    if (wall := meta.get("wall_seconds")) is not None:
        under = _OBSERVERS.get(meta["observer"], "Valgrind's core")
        what = "It was recorded for" if meta.get("attached") else "The run took"
        findings.append(f"{what} {format_seconds(wall)} under {under}.")
    return findings + _java_findings(meta)


def _java_findings(meta: Mapping[str, Any]) -> list[str]:
    """How complete the trace of a Java program is; nothing of another program."""
    found = meta.get("jvm")
    if not isinstance(found, dict) or not meta["complete"]:
        return []
    at_end, there = found["objects_at_end"], found["objects_found_at_end"]
    findings = [
        f"Deaths were found by collections of the whole heap, one per "
        f"{format_bytes(meta['reachability_bytes'])} allocated.",
        f"At its end {format_count(at_end)} objects of the trace were alive, and a walk over the "
        f"heap found {format_count(there)} of them; {format_count(found['missed_objects'])} others "
        f"({format_bytes(found['missed_bytes'])}) are not in the trace.",
    ]
    if meta.get("last_seen"):
        findings.append("The death of an object is when a store or a collection last showed it.")
    if references := found.get("references_at_end"):
        share = found["references_known"] / references
        findings.append(
            f"The recorded stores account for {100 * share:.2f}% of the "
            f"{format_count(references)} pointers in its objects at the end."
        )
    return findings


def _totals(meta: Mapping[str, Any], size: int) -> Table:
    allocated = sum(process["allocated_bytes"] for process in meta["processes"])
    realloc = "What was allocated; a realloc ends one object and begins another."
    at_once = "The most bytes live at one moment, as requested; summed over processes."
    stacks = "Distinct call stacks that allocated objects."
    fields: list[Field[Row]] = [
        counts("objects", realloc, "objects"),
        sizes(
            "bytes",
            "Bytes requested, over all objects; a realloc adds only growth.",
            lambda meta: allocated if allocated or meta["complete"] else None,
        ),
        sizes("most bytes", at_once, "max_live_bytes"),
        counts("call sites", stacks, "allocating_sites"),
        Field(
            "processes",
            "Programs that ran, including those after an exec.",
            lambda meta: Cell(format_count(len(meta["processes"]))),
        ),
        sizes("on disk", "All files of the trace.", lambda _meta: size),
        Kind("{:.1f} B".format)(
            "an object",
            "On disk, divided by the objects.",
            lambda meta: quotient(size, meta["objects"]),
        ),
    ]
    return table("table-trace", "What was recorded", [meta], fields)


def _processes(trace: Trace) -> Table:
    end = "How it ended; a process that recorded no end counts as killed."
    fields: list[Field[Row]] = [
        numbers("process", "Its number in the trace.", "process"),
        Field(
            "program",
            "The file that it ran.",
            lambda process: Cell(process["program"] or "unknown"),
            numeric=False,
        ),
        counts("objects", "What it allocated.", "objects"),
        Field(
            "end",
            end,
            lambda process: Cell("killed" if process["end"] == "running" else process["end"]),
            numeric=False,
        ),
    ]
    most = sorted(trace.processes, key=lambda process: -process["objects"])
    shown = sorted(most[:_MOST_PROCESSES_SHOWN], key=lambda process: process["process"])
    left = len(trace.processes) - len(shown)
    more = f"{left} more processes have" if left > 1 else "1 more process has"
    notes = [f"{more} fewer objects; see meta.json."] if left else []
    return table("table-processes", "Processes", shown, fields, notes)
