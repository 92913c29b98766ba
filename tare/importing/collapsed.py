"""Collapsed stacks of async-profiler: a line for each, ``outermost;…;innermost VALUE``.

With ``-e alloc -o collapsed --total`` the values are bytes, which the file does not say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tare.base.text import writable
from tare.heap_traces.recording import Frame
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

TITLE = "collapsed stacks of async-profiler (bytes allocated)"
_LINE = re.compile(r"(\S.*?) (\d{1,19})")
_MARK = re.compile(r"_\[[a-z0-9]\]$")
"""How a frame was compiled. The class of what is allocated has one, and is no frame."""


def recognises_runs(path: Path) -> bool:
    first = head(path).split(b"\n")[0].decode("utf-8", "replace")
    return ";" in first and not first.startswith(("<", "{")) and _LINE.fullmatch(first) is not None


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    note(f"reading {path}")
    sites = []
    for number, line in numbered_lines(path):
        if (match := _LINE.fullmatch(line)) is None:
            raise malformed(path, number, "no stack with its value")
        if (value := int(match[2])) >= MOST_COUNT:
            raise malformed(path, number, "a number that is too large")
        frames = match[1].split(";")[-MOST_FRAMES:]
        if len(frames) > 1 and _MARK.search(frames[-1]):
            del frames[-1]
        sites.append(Site(tuple(map(_frame, reversed(frames))), bytes=value))
    return as_imported(
        Dump(
            "async-profiler",
            path.name,
            "unknown",
            sites,
            estimated="Values are taken for bytes allocated (--total), estimated from samples.",
        )
    )


def _frame(text: str) -> Frame:
    return Frame(function=writable(_MARK.sub("", text)).replace("/", "."))
