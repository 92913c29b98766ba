"""memray's recordings of Python, as ``memray transform csv`` writes what was live at the peak."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from tare.base.text import writable
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import LONGEST_NAME
from tare.importing.dumps import (
    MOST_COUNT,
    MOST_FRAMES,
    Dump,
    Site,
    as_imported,
    head,
    malformed,
    numbered_lines,
)
from tare.importing.runs import Imported

TITLE = "memray (memray transform csv)"
_COLUMNS = "allocator,num_allocations,size,tid,thread_name,stack_trace"
_MOST_DIGITS = 19


def recognises_runs(path: Path) -> bool:
    return head(path).startswith(_COLUMNS.encode())


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    note(f"reading {path}")
    sites = []
    rows = csv.reader(line for _, line in numbered_lines(path))
    try:
        for row in rows:
            if rows.line_num > 1:
                sites.append(_site(path, rows.line_num, row))
    except csv.Error as error:
        raise malformed(path, rows.line_num, str(error)) from None
    notes = ["memray replaces malloc, so the recording says nothing about managers."]
    return as_imported(Dump("memray", path.name, "unknown", sites, notes=notes, at_peak=True))


def _site(path: Path, number: int, row: list[str]) -> Site:
    if len(row) != _COLUMNS.count(",") + 1:
        raise malformed(path, number, f"{len(row)} columns")
    counts = []
    for word in row[1:3]:
        if not (word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS):
            raise malformed(path, number, f"{word[:40]!r} in place of a number")
        if int(word) >= MOST_COUNT:
            raise malformed(path, number, "a number that is too large")
        counts.append(int(word))
    objects, size = counts
    frames = [_frame(text) for text in row[5].split("|")[:MOST_FRAMES] if text]
    return Site(tuple(frames), live_bytes=size, live_objects=objects)


def _frame(text: str) -> Frame:
    function, _, place = writable(text[:LONGEST_NAME]).partition(";")
    file, _, line = place.rpartition(";")
    return Frame(function, file=file, line=int(line) if line.isdecimal() and len(line) < 9 else 0)
