"""What the manager's operations cost by call site: a count, told apart by who called.

The tool leaves three tables of each process beside its counts, documented in docs/instrument.md.
Here they become one tree of call sites, bounded: what the costliest call sites leave over of an
operation is kept as a sum, so that all together is always what was counted.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare import runner
from tare.errors import TareError
from tare.events import Events, collector_events
from tare.instrument import FORMAT, FORMAT_VERSION, Instrument, read_process_files
from tare.manager import Manager
from tare.program import Program
from tare.recording import TABLES, Frame, TableReader, read_frames
from tare.runner import Limits, Outcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tare.executor import Observe

MEASURES = ("calls", "instructions", "bytes")
MOST_SITES = 5_000
"""Call sites of an operation that are kept, of all processes of a run."""
OUTER_FRAMES, INNER_FRAMES = 192, 64
"""Of a deeper stack, what is kept of its two ends."""
LEFT_OUT = Frame("[frames left out]")
_OPERATIONS = (
    "malloc", "calloc", "realloc", "aligned", "new", "free", "delete", "other", "proof",
)  # fmt: skip
"""In the order of the tool's numbers."""
_PROOF = "proof"
_COLUMNS = {"costs": ("site", "operation", *MEASURES), "sites": TABLES["sites"]}
_MOST_MERGED = 4 * MOST_SITES

Stack = tuple[Frame, ...]
"""From the outermost frame to the innermost."""
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
    """As ``tare.instrument.run_once``; ``details`` has also ``call_sites``, which ``costs_of``
    reads."""
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
    innermost; None stands for all call sites that are not kept."""

    operation: str
    frames: Sequence[Mapping[str, Any]] | None
    calls: int
    instructions: int
    bytes: int


def costs_of(details: Mapping[str, Any]) -> Iterator[Cost]:
    """Those of a run, the costliest first, and what is left over of each operation last.

    Raises ValueError, or what wrong types do, where ``details`` are damaged."""
    found = details["call_sites"]
    frames, sites = found["frames"], found["sites"]
    for site, operation, *sums in found["costs"]:
        path: list[Mapping[str, Any]] = []
        while site:
            caller, frame = sites[site - 1]
            if not 0 <= caller < site:
                raise ValueError("a call site comes before its caller")
            path.append(frames[frame])
            site = caller
        yield Cost(operation, path[::-1], *sums)
    for operation, sums in found["rest"].items():
        yield Cost(operation, None, *sums)


# ---- what the tool left ----


def read_call_sites(folder: Path) -> dict[str, Any]:
    """The call sites of all processes that left their counts in ``folder``: ``frames``; ``sites``,
    each a caller, which is the number of a site from 1 or 0, and the number of a frame; ``costs``,
    each a site, an operation and ``MEASURES``; ``rest``, by operation; and ``all_costs``, how many
    there were."""
    merged: dict[tuple[Stack, str], Sums] = {}
    rest: dict[str, Sums] = {}
    every = 0
    for path, count in read_process_files(folder, FORMAT, FORMAT_VERSION):
        every += _add_process(path.with_suffix(""), count["operations"], merged, rest)
        if len(merged) > _MOST_MERGED:
            merged = _costliest(merged, rest)
    return {**_as_tree(_costliest(merged, rest)), "rest": rest, "all_costs": every}


def _add_process(
    stem: Path,
    operations: Mapping[str, Any],
    merged: dict[tuple[Stack, str], Sums],
    rest: dict[str, Sums],
) -> int:
    """Add what one process left; how many costs those are."""
    import numpy as np

    costs = _table(stem, "costs")
    if (costs["operation"] >= len(_OPERATIONS)).any():
        raise TareError(f"{stem}.costs has an operation that is none", "build Tare again")
    tree = _Tree(_table(stem, "sites"), read_frames(stem.with_name(f"{stem.name}.frames"))[0])
    left = {name: [one[each] for each in MEASURES] for name, one in operations.items()}
    order = np.argsort(costs["instructions"], kind="stable")[::-1][:MOST_SITES]
    for row in order.tolist():
        operation = _OPERATIONS[costs["operation"][row]]
        site = int(costs["site"][row])
        if operation == _PROOF or site > len(tree):
            continue
        sums = [int(costs[each][row]) for each in MEASURES]
        _add(merged, (tree.stack(site), operation), sums)
        left[operation] = [a - b for a, b in zip(left[operation], sums, strict=True)]
    if any(number < 0 for sums in left.values() for number in sums):
        raise TareError(f"{stem}.costs has more than was counted", "measure again")
    for operation, sums in left.items():
        if operation != _PROOF and any(sums):
            _add(rest, operation, sums)
    return int((costs["operation"] != _OPERATIONS.index(_PROOF)).sum())


def _table(stem: Path, name: str) -> Mapping[str, NDArray[np.uint64]]:
    """A whole table of a process; what is damaged of it is missing."""
    import numpy as np

    wanted = _COLUMNS[name]
    batches = list(TableReader(stem.with_name(f"{stem.name}.{name}"), name, wanted=wanted))
    return {
        column: np.concatenate([np.zeros(0, np.uint64), *(batch[column] for batch in batches)])
        for column in wanted
    }


class _Tree:
    """The call sites of a process, by number from 1. Sites from a caller on that comes after them
    are not there: the table is damaged."""

    def __init__(self, sites: Mapping[str, NDArray[np.uint64]], frames: Sequence[Frame]) -> None:
        import numpy as np

        self._frames = [_same_everywhere(frame) for frame in frames]
        whole = sites["caller"] <= np.arange(len(sites["caller"]), dtype=np.uint64)
        whole &= sites["frame"] < len(frames)
        length = len(whole) if whole.all() else int(np.argmin(whole))
        self._callers, self._frame_of = sites["caller"][:length], sites["frame"][:length]

    def __len__(self) -> int:
        return len(self._callers)

    def stack(self, site: int) -> Stack:
        """The frames that lead to ``site``; 0 has none."""
        path = []
        while site:
            path.append(self._frames[self._frame_of[site - 1]])
            site = int(self._callers[site - 1])
        path.reverse()
        if len(path) > OUTER_FRAMES + INNER_FRAMES:
            path[OUTER_FRAMES:-INNER_FRAMES] = [LEFT_OUT]
        return tuple(path)


def _same_everywhere(frame: Frame) -> Frame:
    """Two calls on one line are one frame."""
    return replace(frame, offset=0) if frame.function else frame


def _add(sums: dict[Any, Sums], key: Any, more: Sums) -> None:
    there = sums.get(key, [0] * len(MEASURES))
    sums[key] = [a + b for a, b in zip(there, more, strict=True)]


def _costliest(
    merged: Mapping[tuple[Stack, str], Sums], rest: dict[str, Sums]
) -> dict[tuple[Stack, str], Sums]:
    """The first ``MOST_SITES``, the costliest first; the others are added to ``rest``."""
    instructions = MEASURES.index("instructions")
    ranked = sorted(merged, key=lambda key: -merged[key][instructions])
    for key in ranked[MOST_SITES:]:
        _add(rest, key[1], merged[key])
    return {key: merged[key] for key in ranked[:MOST_SITES]}


def _as_tree(merged: Mapping[tuple[Stack, str], Sums]) -> dict[str, Any]:
    frames: dict[Frame, int] = {}
    sites: dict[tuple[int, int], int] = {}
    costs = []
    for (stack, operation), sums in merged.items():
        site = 0
        for frame in stack:
            step = site, frames.setdefault(frame, len(frames))
            site = sites.setdefault(step, len(sites) + 1)
        costs.append([site, operation, *sums])
    return {
        "frames": [vars(frame) for frame in frames],
        "sites": [list(step) for step in sites],
        "costs": costs,
    }
