"""Heaps of runtimes' collectors that are given as multiples of the least one: ``jvm.g1(heap=2x)``.

How large the minimum heap is depends on the program, so it is sought before anything is measured,
as ``tare minheap`` does, in a results folder of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.base.text import plain
from tare.campaign.watching import Watcher
from tare.memory_managers.manager import Manager, options_of, with_options
from tare.memory_managers.mmtk import HEAP, multiple_of
from tare.memory_managers.runtimes import Setting
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Limits, Outcome
from tare.studykit.sweeps import size_text

REPEATS = 2
Heap = dict[str, int]


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
) -> tuple[dict[str, dict[str, Manager]], dict[str, Any]]:
    """By program, ``managers`` with heaps in bytes; and of each whose heap was a multiple, the
    ``least_bytes`` that were found and the ``heap_bytes`` that it has, by program where there are
    several. The search is kept in ``folder``.

    Raises UsageError where there is no minimum heap.
    """
    if len(programs) == 1:
        settled, heaps = _of_program(programs[0], managers, limits, folder, watcher)
        return {programs[0].name: settled}, dict(heaps)
    by_program: dict[str, dict[str, Manager]] = {}
    found: dict[str, dict[str, Heap]] = {}
    for program in programs:
        beside = folder / plain(program.name)
        by_program[program.name], heaps = _of_program(program, managers, limits, beside, watcher)
        for manager, heap in heaps.items():
            found.setdefault(manager, {})[program.name] = heap
    return by_program, found


def _of_program(
    program: Program,
    managers: Mapping[str, Manager],
    limits: Limits | None,
    folder: Path,
    watcher: Watcher | None,
) -> tuple[dict[str, Manager], dict[str, Heap]]:
    # Takes long to load, and few ask for it.
    from tare.studykit.least_heap.executed import HIGH, UNIT, minheap_executed

    bases = {name: _without_heap(name) for name, each in managers.items() if _multiple(each)}
    sought = list(dict.fromkeys(bases.values()))
    results = minheap_executed(
        program, sought, repeats=REPEATS, limits=limits, folder=folder, watcher=watcher
    )
    outcomes = {record.run.manager: record.outcome for record in read_records(results.folder)}
    settled, found = dict(managers), {}
    for name, base in bases.items():
        if outcomes[base].status is not Status.OK:
            raise UsageError(
                f"{base} has no minimum heap for {program.name}: {outcomes[base].reason}",
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


def observer(settled: Mapping[str, Mapping[str, Manager]], observe: Observe) -> Observe:
    """Watches a run as ``observe`` does, in the heap that its program has in ``settled``."""
    settings = {
        program: {name: each.runtime for name, each in managers.items() if each.runtime}
        for program, managers in settled.items()
    }
    return partial(_run_in_heap, settings, observe)


def _run_in_heap(
    settings: Mapping[str, Mapping[str, Setting]],
    observe: Observe,
    program: Program,
    manager: Manager,
    *others: Any,
) -> Outcome:
    setting = settings[program.name].get(manager.name, manager.runtime)
    return observe(program, replace(manager, runtime=setting), *others)


def _without_heap(manager: str) -> str:
    options = options_of(manager)
    return with_options(manager, {key: options[key] for key in options if key != HEAP})
