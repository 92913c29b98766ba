"""What a running program wrote of its heap: live objects by call site, and the manager's account.

A profile is of some objects, from which sizes are estimated; statistics are exact, and know no call
site. Together they tell which sites' objects lie in slabs that are partly empty: each size class's
free cells are charged to the sites that hold objects of it, by their bytes.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import LONGEST_NAME, unfold
from tare.importing.runs import Imported, ImportedRun, Text, named
from tare.records.metrics import Status

MOST_SITES = 1000
MOST_FRAMES = 400
MOST_COUNT = 1 << 63
_MOST_STACKS = 1_000_000
_NEAR = 0.02
"""Sampling moves a mean size by less than this from the size of the class."""
_ALLOCATOR = re.compile(r"lib(jemalloc|tcmalloc|tare-)[^/]*$")
_ALLOCATING = re.compile(
    r"(_?rjem_|je_|tc_|__libc_)?(malloc|calloc|realloc|memalign|aligned_alloc|posix_memalign"
    r"|[msdr]allocx)$|(_?rjem_|je_)?(prof|arena|imalloc|ialloc|tcache)_|operator new"
    r"|DoSampledAllocation|\(?anonymous namespace\)?::do_"
)
_MAPPING = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) +[-r][-w][-x][-ps] +([0-9a-f]{1,16}) +\S+ +\d+ *(.*)"
)
_ET_EXEC = b"\x02\x00"


@dataclass(frozen=True)
class Site:
    """Of objects allocated by one stack, the innermost frame first."""

    frames: tuple[Frame, ...]
    live_bytes: float = 0
    live_objects: float = 0
    bytes: float = 0
    objects: float = 0
    external: float = 0


@dataclass(frozen=True)
class SizeClass:
    """``cells`` is what the slabs of a class have room for; ``objects`` are taken."""

    size: int
    objects: int
    cells: int

    @property
    def external(self) -> int:
        return (self.cells - self.objects) * self.size


@dataclass(frozen=True)
class Dump:
    """``estimated`` says how sizes of sites come about, where they are not exact."""

    tool: str
    program: str
    manager: str
    sites: Sequence[Site] = ()
    classes: Sequence[SizeClass] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    estimated: str = ""
    notes: Sequence[str] = ()
    at_peak: bool = False
    """Instead of at its end."""


def malformed(path: Path, line: int, what: str) -> UsageError:
    return UsageError(f"{path}, line {line}: {what}")


def numbered_lines(path: Path) -> Iterable[tuple[int, str]]:
    """The lines of a file of text, from 1. UsageError where it ends before its end."""
    text, number = Text(path), 0
    for number, line in enumerate(text.lines(), 1):
        yield number, line.rstrip("\n")
    if text.damage:
        raise malformed(path, number + 1, text.damage)


def whole_text(path: Path, most: int) -> bytes:
    """What is small enough to be read at once, compressed or not."""
    text = Text(path)
    parts, size = [], 0
    for line in text.lines():
        size += len(line)
        if size > most:
            raise UsageError(f"{path} is longer than {most >> 20} MiB")
        parts.append(line)
    if text.damage:
        raise UsageError(f"{path}: {text.damage}")
    return "".join(parts).encode()


def count(value: object) -> int:
    """A number of a file, or ValueError."""
    if type(value) is not int or not 0 <= value < MOST_COUNT:
        raise ValueError(f"{str(value)[:40]!r} in place of a number")
    return value


# ---- places ----


class Modules:
    """Which file an address of a dumped process lies in, of lines as in ``/proc/PID/maps``."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._parts: list[tuple[int, int, str]] = []
        self._bases: dict[str, int] = {}
        self.program = ""

    def add(self, line: str) -> bool:
        """False where it is no such line. They ascend, as the kernel writes them."""
        if (match := _MAPPING.fullmatch(line.strip())) is None:
            return False
        start, end, offset = (int(match[number], 16) for number in (1, 2, 3))
        path = match[4][:LONGEST_NAME]
        if not path.startswith("/"):
            return True
        self.program = self.program or path
        base = self._bases.setdefault(path, _base(path, start, offset))
        self._starts.append(start)
        self._parts.append((end, base, path))
        return True

    def frame(self, address: int) -> Frame:
        """Of a return address, which is that of the next instruction."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at >= 0 and address < self._parts[at][0]:
            _, base, path = self._parts[at]
            return Frame(object=path, offset=max(address - base - 1, 0))
        return Frame()


def _base(path: str, start: int, offset: int) -> int:
    """What to take from an address for the one that the file has."""
    try:
        with open(path, "rb") as file:
            if file.read(18)[16:] == _ET_EXEC:
                return 0
    except (OSError, ValueError):
        pass
    return start - offset


def placed(stacks: Mapping[tuple[int, ...], Site], modules: Modules) -> list[Site]:
    """The sites by addresses with frames that have names, without the allocator's own."""
    addresses = list({address for stack in stacks for address in stack})
    named_frames = unfold([modules.frame(address) for address in addresses])
    found = dict(zip(addresses, named_frames, strict=True))
    return [
        replace(site, frames=tuple(_without_allocator([f for a in stack for f in found[a]])))
        for stack, site in stacks.items()
    ]


def _without_allocator(frames: Sequence[Frame]) -> Sequence[Frame]:
    inside = [
        number
        for number, frame in enumerate(frames[:16])
        if _ALLOCATOR.search(frame.object) or _ALLOCATING.match(frame.function)
    ]
    return frames[inside[-1] + 1 :] if inside else frames


class Stacks(dict[tuple[int, ...], Site]):
    """What was read of a profile by addresses: the sums of each stack."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def add(self, line: int, stack: tuple[int, ...], site: Site) -> None:
        self[stack] = summed(self.get(stack), site)
        if len(self) > _MOST_STACKS:
            raise malformed(self._path, line, f"more than {_MOST_STACKS:,} stacks")


def summed(one: Site | None, other: Site) -> Site:
    if one is None:
        return other
    return replace(
        one,
        **{name: getattr(one, name) + getattr(other, name)
           for name in ("live_bytes", "live_objects", "bytes", "objects", "external")},
    )  # fmt: skip


# ---- whose objects keep slabs ----


def attributed(dump: Dump) -> Dump:
    """The dump with the free cells of each class charged to its sites."""
    sizes = [each.size for each in dump.classes]
    held: list[dict[int, float]] = [_by_class(site, sizes) for site in dump.sites]
    whole: dict[int, float] = defaultdict(float)
    for shares in held:
        for size, share in shares.items():
            whole[size] += share
    free = {each.size: each.external for each in dump.classes}
    sites = [
        replace(
            site, external=sum(free[size] * part / whole[size] for size, part in shares.items())
        )
        for site, shares in zip(dump.sites, held, strict=True)
    ]
    charged = sum(site.external for site in sites)
    return replace(dump, sites=sites, values={**dump.values, "charged_external_bytes": charged})


def _by_class(site: Site, sizes: Sequence[int]) -> dict[int, float]:
    """The bytes of a site by size class: of its mean size, which most sites have alone; else the
    two next to it, so that both bytes and objects add up."""
    if not site.live_objects or not sizes or site.live_bytes <= 0:
        return {}
    mean = site.live_bytes / site.live_objects
    near = min(sizes, key=lambda size: abs(size - mean))
    if abs(near - mean) <= _NEAR * near:
        return {near: site.live_bytes}
    at = bisect.bisect_left(sizes, mean)
    if at == len(sizes):
        return {}  # large objects have no slabs
    if at == 0:
        return {sizes[0]: site.live_bytes}
    small, large = sizes[at - 1], sizes[at]
    of_large = site.live_objects * (mean - small) / (large - small)
    return {small: (site.live_objects - of_large) * small, large: of_large * large}


# ---- as a run ----


def as_imported(dump: Dump) -> Imported:
    merged: dict[tuple[Frame, ...], Site] = {}
    for site in dump.sites:
        frames = site.frames[:MOST_FRAMES]
        merged[frames] = summed(merged.get(frames), replace(site, frames=frames))
    sites = sorted(merged.values(), key=lambda site: (-site.live_bytes, -site.bytes))
    totals, kept, others = _sums(sites), sites[:MOST_SITES], sites[MOST_SITES:]
    values = dict(dump.values)
    for name, metric in (_AT_PEAK if dump.at_peak else _METRICS).items():
        if totals[name]:
            values.setdefault(metric, totals[name])
    if not values:
        raise UsageError(f"the {dump.tool} dump of {dump.program} holds no object")
    details: dict[str, Any] = {
        "dump": {
            "estimated": dump.estimated,
            "sites": [{"frames": [*map(_recorded, site.frames)], **_sums([site])} for site in kept],
            "others": {"sites": len(others), **_sums(others)},
            "totals": totals,
            "classes": [
                {"size": each.size, "objects": each.objects, "cells": each.cells}
                for each in dump.classes
                if each.cells
            ],
        }
    }
    run = ImportedRun(named(dump.program), dump.manager, Status.OK, values=values, details=details)
    notes = [dump.estimated] if dump.estimated else []
    return Imported(tool=dump.tool, runs=[run], notes=[*notes, *dump.notes])


_METRICS = {
    "live_bytes": "live_bytes",
    "live_objects": "live_objects",
    "bytes": "allocated_bytes",
    "objects": "objects",
}
_AT_PEAK = {"live_bytes": "max_live_bytes", "live_objects": "max_live_objects"}


def _sums(sites: Sequence[Site]) -> dict[str, int]:
    names = ("live_bytes", "live_objects", "bytes", "objects", "external")
    return {name: round(sum(getattr(site, name) for site in sites)) for name in names}


def _recorded(frame: Frame) -> dict[str, Any]:
    return {
        "function": frame.function[:LONGEST_NAME] or None,
        "object": frame.object or None,
        "file": frame.file[:LONGEST_NAME] or None,
        "line": frame.line or None,
        "offset": frame.offset or None,
    }


def head(path: Path, size: int = 4096) -> bytes:
    """How a file begins, compressed or not; nothing of what is no file or cannot be read."""
    if not path.is_file():
        return b""
    lines = itertools.islice(Text(path).lines(), 4)
    return "".join(lines).encode()[:size]
