"""Call stacks as a tree of calls, made into call sites."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tare.base.errors import UsageError
from tare.base.libraries import NDArray, np
from tare.heap_traces.recording import Frame
from tare.importing.events import RecordingWriter
from tare.importing.lines import Numbers

_MOST_SITES = 1 << 22
_NEW = re.compile(r"operator new(\[\])?\(")


def write_sites(
    writer: RecordingWriter,
    instructions: Numbers,
    parents: Numbers,
    frames: Sequence[Sequence[Frame]],
    addresses: Numbers,
) -> Numbers:
    """Write the sites of call stacks; the site of each stack, with a 0 before them.

    Stacks are numbered from 1: each has the number of its call's instruction, and that of the stack
    which the call was made from, a smaller one or 0. ``frames`` has for each instruction, the first
    is number 0, a frame and those that have it inlined, the innermost first; ``addresses`` has its
    address. Where the innermost frame is operator new, the site is that of its caller.
    """
    counts = np.array([len(each) for each in frames], np.int64)
    flat = [frame for each in frames for frame in each]
    first_frame = np.cumsum(counts) - counts
    rows = counts[instructions]
    last = np.concatenate(([0], np.cumsum(rows)))
    total = int(last[-1])
    if total > _MOST_SITES:
        raise UsageError(f"it has {total} call sites: more than Tare reads")
    stack = np.repeat(np.arange(len(rows)), rows)
    depth = np.arange(total) - last[stack]
    callers = np.where(depth == 0, last[parents[stack]], np.arange(total))
    of_row = (first_frame[instructions] + rows - 1)[stack] - depth
    writer.add_frames(flat)
    writer.add_sites(
        callers.astype(np.uint64), of_row.astype(np.uint64), addresses[instructions[stack]]
    )
    is_new = np.array([_NEW.match(frame.function) is not None for frame in flat], np.bool_)
    return _callers_of(is_new[of_row], callers, last).astype(np.uint64)


def _callers_of(
    skipped: NDArray[np.bool_], callers: NDArray[np.int64], sites: NDArray[np.int64]
) -> NDArray[np.int64]:
    """``sites``, and in place of one that is to be skipped the nearest caller that is not."""
    skipped = np.concatenate(([False], skipped))
    callers = np.concatenate(([0], callers))
    while (here := skipped[sites]).any():
        sites = np.where(here, callers[sites], sites)
    return sites
