"""memray's recordings of Python: what was live at the peak. memray alone reads its own files, so
they come as ``memray transform csv`` writes them, or it is started.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tare.base.errors import MissingError
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
from tare.importing.tools import first_bytes, written_by

TITLE = "memray (its own files, or memray transform csv)"
_COLUMNS = "allocator,num_allocations,size,tid,thread_name,stack_trace"
_LZ4 = b"\x04\x22\x4d\x18"
_MOST_DIGITS = 19
_MOST_BYTES = 1 << 30


def recognises_runs(path: Path) -> bool:
    return _is_raw(path) or head(path).startswith(_COLUMNS.encode())


def _is_raw(path: Path) -> bool:
    """Plain, or in a frame of LZ4, whose first block begins with the same letters."""
    start = first_bytes(path)
    return start.startswith((b"memray\0", _LZ4)) and b"memray\0" in start


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    if not _is_raw(path):
        note(f"reading {path}")
        return _imported(path)
    memray = _tool(path)
    note(f"having {' '.join(memray)} read {path}")

    def command(target: Path) -> list[str]:
        return [*memray, "transform", "--force", "--output", str(target), "csv", str(path)]

    with written_by(path, command, _MOST_BYTES) as text:
        return _imported(text)


def _tool(path: Path) -> list[str]:
    if found := shutil.which("memray"):
        return [found]
    if find_spec("memray") is not None:
        return [sys.executable, "-m", "memray"]
    raise MissingError(
        f"{path} is a recording in memray's own form, and memray is not installed",
        "pip install memray; or where it is: memray transform csv FILE -o FILE.csv, and import "
        "that",
    )


def _imported(path: Path) -> Imported:
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
