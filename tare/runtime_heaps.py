"""Heaps of runtimes' collectors that are given as multiples of the least one: ``jvm.g1(heap=2x)``.

How large the least heap is depends on the program, so it is sought before anything is measured, as
``tare minheap`` does, in a results folder of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tare.collectors import HEAP, multiple_of
from tare.errors import UsageError
from tare.manager import Manager, parse_name
from tare.measurement import Status
from tare.measuring import Watcher
from tare.minheap_executed import UNIT, minheap_executed
from tare.program import Program
from tare.results import read_records
from tare.runner import Limits
from tare.studies.minheap_executed import HIGH
from tare.sweeps import size_text

REPEATS = 2


def has_multiples(managers: Mapping[str, Manager]) -> bool:
    return any(_multiple(manager) for manager in managers.values())


def _multiple(manager: Manager) -> float:
    return multiple_of(manager.runtime.options.get(HEAP, "")) if manager.runtime else 0.0


def in_bytes(
    programs: Sequence[Program],
    managers: Mapping[str, Manager],
    limits: Limits | None,
    folder: Path,
    watcher: Watcher | None,
) -> tuple[dict[str, Manager], dict[str, dict[str, int]]]:
    """``managers`` with heaps in bytes; and of each whose heap was a multiple, the ``least_bytes``
    that were found and the ``heap_bytes`` that it has. The search is kept in ``folder``.

    Raises UsageError where there is no least heap, or more than one program.
    """
    if len(programs) != 1:
        raise UsageError(
            "a multiple of the least heap is different for each program",
            "measure one program, or give the heap in bytes, like heap=64MiB",
        )
    bases = {name: _without_heap(name) for name, each in managers.items() if _multiple(each)}
    sought = list(dict.fromkeys(bases.values()))
    results = minheap_executed(
        programs[0], sought, repeats=REPEATS, limits=limits, folder=folder, watcher=watcher
    )
    outcomes = {record.run.manager: record.outcome for record in read_records(results.folder)}
    settled, found = dict(managers), {}
    for name, base in bases.items():
        if outcomes[base].status is not Status.OK:
            raise UsageError(
                f"{base} has no least heap for this program: {outcomes[base].reason}",
                "give its heap in bytes, like heap=64MiB",
            )
        least = int(outcomes[base].values[HIGH])
        heap = math.ceil(_multiple(managers[name]) * least / UNIT) * UNIT
        found[name] = {"least_bytes": least, "heap_bytes": heap}
        setting = managers[name].runtime
        assert setting is not None
        options = {**setting.options, HEAP: size_text(heap)}
        settled[name] = replace(managers[name], runtime=replace(setting, options=options))
    return settled, found


def _without_heap(manager: str) -> str:
    name, options = parse_name(manager)
    settings = [f"{key}={value}" for key, value in options.items() if key != HEAP]
    return f"{name}({', '.join(settings)})" if settings else name
