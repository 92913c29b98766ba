"""Heap profiles as text: jemalloc's (``prof.dump``) and gperftools' (``HEAPPROFILE``).

Each stack has objects and bytes that are live and, in square brackets, allocated in all. What was
sampled is scaled as jeprof and pprof scale it: an allocation of n bytes is seen with probability
1 - exp(-n/rate).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

from tare.base.units import format_bytes
from tare.importing.dumps import (
    MOST_COUNT,
    MOST_FRAMES,
    Dump,
    Modules,
    Site,
    Stacks,
    as_imported,
    attributed,
    head,
    malformed,
    numbered_lines,
    placed,
)
from tare.importing.jemalloc_statistics import add_account
from tare.importing.runs import Imported

TITLE = "heap profiles of jemalloc and gperftools (text)"
_JEMALLOC = re.compile(r"heap_v2/(\d{1,15})")
_COUNTS = r" *(\d{1,19}): *(\d{1,19}) *\[ *(\d{1,19}): *(\d{1,19})\]"
_GPERFTOOLS = re.compile(rf"heap profile:{_COUNTS} @ *(heapprofile|heap(?:_v2)?/\d{{1,15}})")
_OF_STACK = re.compile(rf"{_COUNTS} @((?: 0x[0-9a-f]{{1,16}})*)")
_OF_THREADS = re.compile(rf"  t\*:{_COUNTS}")
_STACK = re.compile(r"@((?: 0x[0-9a-f]{1,16})*)")
_LIBRARIES = "MAPPED_LIBRARIES:"


def recognises_runs(path: Path) -> bool:
    return head(path).startswith((b"heap_v2/", b"heap profile:"))


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    note(f"reading {path}")
    return as_imported(_read(path))


def read_runs_with(path: Path, statistics: Path, note: Callable[[str], None]) -> Imported:
    """With the free cells of slabs by site, of ``statistics`` of jemalloc from the same moment."""
    note(f"reading {path} and {statistics}")
    return as_imported(attributed(add_account(_read(path), statistics)))


def _read(path: Path) -> Dump:
    modules, stacks = Modules(), Stacks(path)
    lines = iter(numbered_lines(path))
    _, first = next(lines)
    if match := _JEMALLOC.fullmatch(first):
        manager, rate, tool = "jemalloc", int(match[1]), "jemalloc"
    elif match := _GPERFTOOLS.fullmatch(first):
        kind = match[5].partition("/")[2]
        manager, rate, tool = "tcmalloc", int(kind or 0), "gperftools"
    else:
        raise malformed(path, 1, "not the first line of a heap profile")
    stack: tuple[int, ...] | None = None
    in_libraries = False
    for number, line in lines:
        if in_libraries:
            if line and not modules.add(line):
                raise malformed(path, number, "not a mapped file")
        elif line == _LIBRARIES:
            in_libraries = True
        elif manager == "tcmalloc" and (match := _OF_STACK.fullmatch(line)):
            stacks.add(number, _addresses(match[5]), _site(path, number, match, rate))
        elif manager == "jemalloc" and (match := _STACK.fullmatch(line)):
            stack = _addresses(match[1])
        elif manager == "jemalloc" and (match := _OF_THREADS.fullmatch(line)):
            if stack is not None:
                stacks.add(number, stack, _site(path, number, match, rate))
        elif line and not re.fullmatch(rf"  t\d{{1,9}}:{_COUNTS}", line):
            raise malformed(path, number, "neither a stack nor its counts")
    if not in_libraries:
        raise malformed(path, number + 1, f"it ends before {_LIBRARIES} It is cut off.")
    estimated = (
        f"Objects were sampled, one each {format_bytes(rate)} on average: sizes by call site are "
        "estimates."
        if rate > 1
        else ""
    )
    program = modules.program.rpartition("/")[2] or path.name
    return Dump(tool, program, manager, placed(stacks, modules), estimated=estimated)


def _addresses(words: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in words.split()[:MOST_FRAMES])


def _site(path: Path, number: int, match: re.Match[str], rate: int) -> Site:
    counts = [int(match[place]) for place in range(1, 5)]
    if max(counts) >= MOST_COUNT:
        raise malformed(path, number, "a number that is too large")
    live_objects, live_bytes = _scaled(counts[0], counts[1], rate)
    objects, allocated = _scaled(counts[2], counts[3], rate)
    return Site((), live_bytes, live_objects, allocated, objects)


def _scaled(objects: int, size: int, rate: int) -> tuple[float, float]:
    if not objects or not size or rate <= 1:
        return objects, size
    scale = -1 / math.expm1(-size / objects / rate)
    return objects * scale, size * scale
