"""Heaps of collectors that are given as multiples of the least one: ``immix(heap=2x)``.

How large the minimum heap is depends on the trace, so it is sought before the replays are measured,
as ``tare minheap`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.units import format_bytes
from tare.memory_managers.manager import Manager, options_of, resolve, with_options
from tare.memory_managers.mmtk import HEAP, multiple_of
from tare.records.metrics import Status
from tare.records.results import RUN_FILE, read_document
from tare.records.runs import Limits
from tare.studykit.least_heap import replayed as minheap
from tare.studykit.least_heap.search import PAGE
from tare.studykit.replays import Replayable

TRIALS_FILE = "heap-trials.jsonl"
REPEATS = 3


def in_bytes(
    prepared: Replayable, managers: Mapping[str, Manager], limits: Limits | None
) -> tuple[dict[str, Manager], dict[str, dict[str, int]]]:
    """``managers`` with heaps in bytes; and of each whose heap was a multiple, the ``least_bytes``
    that were found, the ``heap_bytes`` that it has, and how many ``trials`` it took.

    A folder that is resumed keeps the heaps that it has. Raises UsageError where there is no least
    heap.
    """
    settled, found = dict(managers), {}
    kept = _kept(prepared.folder)
    for name, manager in managers.items():
        if not manager.replayer:
            continue
        options = options_of(name)
        if not (multiple := multiple_of(options.get(HEAP, ""))):
            continue
        del options[HEAP]
        if name in kept:
            found[name] = kept[name]
        else:
            base = with_options(name, options)
            prepared.watcher.note(f"seeking the minimum heap of {base}")
            least, trials = _least(prepared, resolve(base, replays=True), limits)
            heap = -(-int(multiple * least) // PAGE) * PAGE
            found[name] = {"least_bytes": least, "heap_bytes": heap, "trials": trials}
            told = f"{format_bytes(heap)} (minimum heap: {format_bytes(least)})"
            prepared.watcher.note(f"{name}: {told}")
        words = list(manager.replayer)
        words[words.index(f"--{HEAP}") + 1] = str(found[name]["heap_bytes"])
        settled[name] = replace(manager, replayer=tuple(words))
    return settled, found


def _kept(folder: Path) -> dict[str, dict[str, int]]:
    """The heaps of an interrupted run of the same."""
    if not (folder / RUN_FILE).exists():
        return {}
    heaps = read_document(folder).get("heaps")
    if not isinstance(heaps, dict):
        return {}
    return {
        name: heap
        for name, heap in heaps.items()
        if isinstance(heap, dict) and isinstance(heap.get("heap_bytes"), int)
    }


def _least(prepared: Replayable, manager: Manager, limits: Limits | None) -> tuple[int, int]:
    """The minimum heap, in bytes, and in how many trials it was found."""
    search = minheap.search_for(prepared.counted, None, REPEATS)
    seek = minheap.observe(search, prepared.schedule.with_name(TRIALS_FILE))
    workspace = prepared.schedule.parent
    outcome = seek(prepared.program, manager, limits or Limits(), workspace, None)
    if outcome.status is not Status.OK:
        raise UsageError(
            f"{manager.name} has no minimum heap for this trace: {outcome.reason}",
            "give its heap in bytes, like heap=64MiB",
        )
    return int(outcome.values["min_heap_high_bytes"]), int(outcome.values["trials"])
