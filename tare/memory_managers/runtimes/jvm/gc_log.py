"""Reads a JVM's log of its collections, as ``SELECTION`` asks for it, of Java 11 to 25.

The lines are decorated with nanoseconds of CLOCK_MONOTONIC and their tags:

    [24059213772901ns][gc,start] GC(0) Pause Young (Allocation Failure)
    [24059218772901ns][gc      ] GC(0) Pause Young (Allocation Failure) 17M->2M(61M) 4.512ms
    [24059218822901ns][safepoint] Safepoint "GenCollectForAllocation", … Total: 4612345 ns

A line that means nothing here is passed over, so a torn or strange log gives less, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tare.base.errors import TareError

SELECTION = "gc,gc+init,gc+start,gc+heap+exit,gc+exit=debug,gc+heap+coops=debug,safepoint"
OF_MMTK = "gc,gc+init,gc+start,safepoint"
"""The same, of MMTk: it crashes when it should print its heap, which to it is all addresses."""
DECORATIONS = "timenanos,tags"
_MOST_BYTES = 1 << 30
_LONGEST_LINE = 1 << 12

_LINE = re.compile(r"\[(\d{1,18})ns\]\[([a-z0-9,]+) *\] ?(.*)")
_OF_COLLECTION = re.compile(r"GC\((\d{1,9})\) (.*)")
_SIZES = re.compile(
    r" (\d{1,15})([BKMGT])(?:\(\d+%\))?->(\d{1,15})([BKMGT])(?:\((?:\d+[BKMGT]|\d+%)\))?"
)
_DURATION = re.compile(r" \d+[.,]\d+m?s$")
_CAPACITY = re.compile(r"(?:Heap )?Max Capacity: (\d{1,15})([BKMGT])$")
_CAPACITY_OF_11 = re.compile(r"Heap address: 0x[0-9a-f]+, size: (\d{1,9}) MB")
_SAFEPOINT = re.compile(r'Safepoint "([^"]{0,100})", .*Total: +(\d{1,18}) ns')
_STOPPED_11 = re.compile(
    r"Total time for which application threads were stopped: (\d{1,9})[.,](\d{7}) seconds"
)
_ENTERING_11 = re.compile(r"Entering safepoint region: (\S{1,100})")
_USED_AT_EXIT = re.compile(
    r"(?:garbage-first heap|def new generation|tenured generation|PSYoungGen|ParOldGen|DefNew|"
    r"Tenured|Young Generation|Old Generation).* used (\d{1,15})([BKMG])\b"
)
_USED_IN_EPSILON = re.compile(r"Heap: .* (\d{1,15})([BKMG]) \([\d.]+%\) used")
_STALL = re.compile(r"Allocation Stall \(.*\) (\d{1,12}[.,]\d{1,6})ms$")
_CAUSED = ("Pause Young", "Pause Full", "Garbage", "Minor", "Major")
_UNITS = {unit: 1 << (10 * power) for power, unit in enumerate("BKMGT")}


@dataclass(frozen=True)
class Safepoint:
    """The program was stopped, from the wish to the going on."""

    start_ns: int
    end_ns: int
    operation: str


@dataclass
class Logged:
    """What the lines of one collection say. ``stopped_at`` are the ends of its pauses."""

    number: int
    first_ns: int
    last_ns: int
    titles: set[str]
    stopped_at: list[int]
    cause: str = ""
    used_before: int | None = None
    used_after: int | None = None

    @property
    def kind(self) -> str:
        """young, mixed, full or concurrent."""
        if any(title.startswith("Pause Full") for title in self.titles):
            return "full"
        if any("(Mixed)" in title for title in self.titles):
            return "mixed"
        if any(title.startswith(("Pause Young", "Minor")) for title in self.titles):
            return "young"
        return "concurrent"


@dataclass(frozen=True)
class GcLog:
    """``uses`` is what the JVM says it collects with; ``allocated_bytes`` holds only where every
    collection is a pause, as the log rounds it."""

    version: str
    uses: str
    heap_bytes: int | None
    collections: tuple[Logged, ...]
    safepoints: tuple[Safepoint, ...]
    allocated_bytes: int
    stall_ns: int


def read_gc_log(path: Path) -> GcLog:
    """What a log says. Raises TareError for one that is too large."""
    version = uses = ""
    heap_bytes: int | None = None
    collections: dict[int, Logged] = {}
    safepoints: list[Safepoint] = []
    entering = ""
    used = allocated = at_exit = stall_ns = 0
    for at, tags, text in _lines(path):
        if tags == "safepoint":
            if found := _ENTERING_11.match(text):
                entering = found[1]
            elif safepoint := _safepoint(at, text, entering):
                safepoints.append(safepoint)
        elif found := _OF_COLLECTION.match(text):
            sizes = _add(collections, at, int(found[1]), found[2])
            if sizes is not None:
                allocated += max(sizes[0] - used, 0)
                used = sizes[1]
        elif found := _STALL.match(text):
            stall_ns += round(float(found[1].replace(",", ".")) * 1e6)
        elif tags == "gc" and text.startswith("Using "):
            uses = text.removeprefix("Using ")
        elif tags == "gc,init" and text.startswith("Version: "):
            version = text.removeprefix("Version: ").split(" ")[0]
        elif found := _CAPACITY.match(text):
            heap_bytes = _bytes(found[1], found[2])
        elif heap_bytes is None and (found := _CAPACITY_OF_11.match(text)):
            heap_bytes = _bytes(found[1], "M")
        elif tags in ("gc,heap,exit", "gc,exit") and (found := _USED_AT_EXIT.search(text)):
            at_exit += _bytes(found[1], found[2])
        elif found := _USED_IN_EPSILON.match(text):
            at_exit = _bytes(found[1], found[2])
    allocated += max(at_exit - used, 0)
    return GcLog(
        version,
        uses,
        heap_bytes,
        tuple(sorted(collections.values(), key=lambda each: each.first_ns)),
        tuple(safepoints),
        allocated,
        stall_ns,
    )


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    if path.stat().st_size > _MOST_BYTES:
        raise TareError(
            f"the log of collections {path.name} is larger than 1GiB",
            "measure a shorter run, or one with a larger heap",
        )
    with path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE):
            match = _LINE.match(line.decode("ascii", errors="replace").rstrip("\n"))
            if match is not None:
                yield int(match[1]), match[2], match[3].strip()


def _bytes(number: str, unit: str) -> int:
    return int(number) * _UNITS[unit]


def _safepoint(at: int, text: str, entering: str) -> Safepoint | None:
    if found := _SAFEPOINT.match(text):
        return Safepoint(at - int(found[2]), at, found[1])
    if found := _STOPPED_11.match(text):
        total = int(found[1]) * 1_000_000_000 + int(found[2]) * 100
        return Safepoint(at - total, at, entering)
    return None


def _add(collections: dict[int, Logged], at: int, number: int, text: str) -> tuple[int, int] | None:
    """Take a line of a collection in; the bytes in use before and after, where it tells them."""
    duration = _DURATION.search(text)
    sizes = _SIZES.search(text)
    title = text[: sizes.start() if sizes else duration.start() if duration else len(text)]
    logged = collections.setdefault(number, Logged(number, at, at, set(), []))
    logged.last_ns = at
    if not title.startswith(("Pause", "Concurrent", "Garbage", "Minor", "Major")):
        return None
    logged.titles.add(title)
    if title.startswith(_CAUSED):
        logged.cause = logged.cause or _cause(title)
    if duration and title.startswith("Pause"):
        logged.stopped_at.append(at)
    if sizes is None:
        return None
    before, after = _bytes(sizes[1], sizes[2]), _bytes(sizes[3], sizes[4])
    if logged.used_before is None:
        logged.used_before = before
    logged.used_after = after
    return before, after


def _cause(title: str) -> str:
    """The last part in parentheses, which may hold some: Pause Full (System.gc())."""
    if not title.endswith(")"):
        return ""
    depth = 0
    for index in range(len(title) - 1, -1, -1):
        depth += (title[index] == ")") - (title[index] == "(")
        if depth == 0:
            return title[index + 1 : -1]
    return ""
