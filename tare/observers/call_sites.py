"""What the manager's operations cost by call site: a count, told apart by who called.

The tool leaves three tables of each process beside its counts, documented in site_files.h and
costs.h in observers/instrument/sites. Here they become one tree of call sites,
bounded: a call site that is not among the costliest is added to the last call on its stack that one
of these has, too. So all together is always what was counted, and what a call leads to is always
whole.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from tare.base.errors import TareError
from tare.base.libraries import NDArray, np
from tare.heap_traces.frames import RecordedFrame
from tare.heap_traces.recording import TABLES, Frame, TableReader, read_frames
from tare.heap_traces.symbols import unfold
from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.event_files import Events, collector_events
from tare.observers.instrument import FORMAT, FORMAT_VERSION, Instrument, read_process_files
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.runs import Limits, Number, Outcome

MEASURES = ("calls", "instructions", "bytes")
MOST_SITES = 5_000
"""Pairs of a call site and an operation that are kept, of all processes of a run."""
DEEPEST = 4096
"""Frames of a stack, from the outermost on."""
_OPERATIONS = (
    "malloc", "calloc", "realloc", "aligned", "new", "free", "delete", "other", "proof",
)  # fmt: skip
"""In the order of the tool's numbers."""
_PROOF = "proof"
_COLUMNS = {"costs": ("site", "operation", *MEASURES), "sites": TABLES["sites"]}
_MOST_NODES = 50_000
"""Of the tree that is kept; the last stack may add to it."""
_MOST_MERGED = 500_000
_MOST_READ = 2_000_000
"""Call sites of a process."""

_INSTRUCTIONS = MEASURES.index("instructions")

Sums = list[int]
"""A number for each of ``MEASURES``."""


def observer_of(events: Events) -> Observe:
    """``run_once`` that looks for ``events``, too."""
    return functools.partial(run_once, events=events)


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    events: Events = (),
) -> Outcome:
    """As ``tare.observers.instrument.run_once``; ``details`` has also ``call_sites``, as
    ``CallSites``."""
    observer = _SitesInstrument(events=(*events, *collector_events(manager)))
    return runner.run_once(program, manager, limits, workspace, keep_output, observer)


class _SitesInstrument(Instrument):
    def __init__(self, events: Events) -> None:
        super().__init__("--count-sites=yes", events=events)

    def complete(self, folder: Path, pids: Collection[int], outcome: Outcome) -> Outcome:
        counted = super().complete(folder, pids, outcome)
        if "operations" not in counted.details:
            return counted
        sites = read_call_sites(folder / "counts")
        return replace(counted, details={**counted.details, "call_sites": sites})


@dataclass(frozen=True)
class Cost:
    """What an operation cost that one call stack led to. ``frames`` are from the outermost to the
    innermost. With ``is_rest`` it is all that they led to at call sites that are not kept."""

    operation: str
    frames: Sequence[RecordedFrame]
    is_rest: bool
    calls: int
    instructions: int
    bytes: int


class CallSites(Struct, frozen=True):
    """What ``read_call_sites`` made, read back."""

    frames: tuple[RecordedFrame, ...]
    sites: tuple[tuple[Number, Number], ...]
    costs: tuple[tuple[Number, str, bool, Number, Number, Number], ...]
    all_costs: Number


def costs_of(found: CallSites) -> Iterator[Cost]:
    """Raises ValueError or IndexError where a site or a frame is not there."""
    for site, operation, is_rest, *sums in found.costs:
        path: list[RecordedFrame] = []
        while site:
            caller, frame = found.sites[site - 1]
            if caller >= site:
                raise ValueError("a call site comes before its caller")
            path.append(found.frames[frame])
            site = caller
        yield Cost(operation, path[::-1], is_rest, *sums)


# ---- what the tool left ----


def read_call_sites(folder: Path) -> dict[str, Any]:
    """The call sites of all processes that left their counts in ``folder``: ``frames``; ``sites``,
    each a caller, which is the number of a site from 1 or 0, and the number of a frame; ``costs``,
    each a site, an operation, whether it is a rest, and ``MEASURES``; and ``all_costs``, how many
    there were."""
    merged = _Merged()
    every = 0
    for path, count in read_process_files(folder, FORMAT, FORMAT_VERSION):
        every += _add_process(path.with_suffix(""), count["operations"], merged)
        if len(merged.sites) > _MOST_MERGED:
            merged = merged.pruned()
    merged = merged.pruned()
    frames = list(merged.frames)
    used = {frame: number for number, frame in enumerate(sorted({f for _, f in merged.sites}))}
    return {
        "frames": [vars(frames[frame]) for frame in used],
        "sites": [[caller, used[frame]] for caller, frame in merged.sites],
        "costs": [[*key, *sums] for key, sums in merged.costs.items()],
        "all_costs": every,
    }


class _Merged:
    """The call sites of several processes. ``sites`` has numbers from 1 by caller and frame, and a
    caller comes before what it calls; ``costs`` are by site, operation and whether they are a
    rest."""

    def __init__(self, frames: dict[Frame, int] | None = None) -> None:
        self.frames: dict[Frame, int] = {} if frames is None else frames
        self.sites: dict[tuple[int, int], int] = {}
        self.costs: dict[tuple[int, str, bool], Sums] = {}

    def frame(self, frame: Frame) -> int:
        """The number of a frame; two calls on one line are one."""
        if frame.function:
            frame = replace(frame, offset=0)
        return self.frames.setdefault(frame, len(self.frames))

    def site(self, caller: int, frame: int) -> int:
        return self.sites.setdefault((caller, frame), len(self.sites) + 1)

    def add(self, site: int, operation: str, sums: Sums, *, is_rest: bool) -> None:
        key = site, operation, is_rest
        there = self.costs.get(key, [0] * len(MEASURES))
        self.costs[key] = [a + b for a, b in zip(there, sums, strict=True)]

    def pruned(self) -> _Merged:
        """With the costliest call sites, in their order; what is not kept is a rest."""
        steps = list(self.sites)
        ranked = sorted(self.costs, key=lambda key: -self.costs[key][_INSTRUCTIONS])
        kept: set[tuple[int, str, bool]] = set()
        whole = {0}
        for key in ranked:
            if key[2] or len(kept) == MOST_SITES or len(whole) > _MOST_NODES:
                continue
            kept.add(key)
            site = key[0]
            while site not in whole:
                whole.add(site)
                site = steps[site - 1][0]
        result, numbers = _Merged(self.frames), {0: 0}
        for site, (caller, frame) in enumerate(steps, 1):
            if site in whole:
                numbers[site] = result.site(numbers[caller], frame)
        for key in ranked:
            site, operation, _ = key
            while site not in whole:
                site = steps[site - 1][0]
            result.add(numbers[site], operation, self.costs[key], is_rest=key not in kept)
        return result


def _add_process(stem: Path, operations: Mapping[str, Any], merged: _Merged) -> int:
    """Add what one process left; how many costs those are."""
    costs = _table(stem, "costs")
    if (costs["operation"] >= len(_OPERATIONS)).any():
        raise TareError(f"{stem}.costs has an unknown operation", "build Tare again")
    places = _add_sites(stem, merged)
    left = {name: [one[each] for each in MEASURES] for name, one in operations.items()}
    rows = zip(*(costs[column].tolist() for column in _COLUMNS["costs"]), strict=True)
    every = 0
    for site, number, *sums in rows:
        operation = _OPERATIONS[number]
        if operation == _PROOF or site >= len(places):
            continue
        every += 1
        place, is_rest = places[site]
        merged.add(place, operation, sums, is_rest=is_rest)
        left[operation] = [a - b for a, b in zip(left[operation], sums, strict=True)]
    if any(number < 0 for sums in left.values() for number in sums):
        raise TareError(f"{stem}.costs has more than was counted", "measure again")
    for operation, sums in left.items():
        if operation != _PROOF and any(sums):
            merged.add(0, operation, sums, is_rest=True)
    return every


def _add_sites(stem: Path, merged: _Merged) -> list[tuple[int, bool]]:
    """By the number of a site in one process: its number in ``merged``, or that of the last call on
    its stack that is there and True. Where the tables are damaged the list ends too soon."""
    sites = _table(stem, "sites")
    recorded, _ = read_frames(stem.with_name(f"{stem.name}.frames"))
    calls = [[merged.frame(frame) for frame in reversed(each)] for each in unfold(recorded)]
    places, depths = [(0, False)], [0]
    rows = (sites[column][:_MOST_READ].tolist() for column in ("caller", "frame"))
    for caller, call in zip(*rows, strict=True):
        if caller >= len(places) or call >= len(calls):
            break
        site, _ = places[caller]
        depths.append(depths[caller] + len(calls[call]))
        is_rest = depths[-1] > DEEPEST
        if not is_rest:
            for frame in calls[call]:
                site = merged.site(site, frame)
        places.append((site, is_rest))
    return places


def _table(stem: Path, name: str) -> Mapping[str, NDArray[np.uint64]]:
    """A whole table of a process; what is damaged of it is missing."""
    wanted = _COLUMNS[name]
    batches = list(TableReader(stem.with_name(f"{stem.name}.{name}"), name, wanted=wanted))
    return {
        column: np.concatenate([np.zeros(0, np.uint64), *(batch[column] for batch in batches)])
        for column in wanted
    }
