"""What ``tare-coverage`` saw of a program's memory as each process ended, and whether the manager
served enough of it; observers/runner/coverage.cpp describes its lines.

That malloc is the manager's says nothing of a program that does not call it: one with an allocator
of its own under another name, or with a heap that it maps itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from msgspec import structs, to_builtins

from tare.memory_managers.manager import Manager
from tare.observers.private_allocators import private_allocator
from tare.records.coverage import (
    DETAIL,
    NOTABLE,
    OTHERS,
    OWN_ALLOCATORS,
    Coverage,
    Covered,
    Mapped,
    OwnAllocator,
)
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

KIND = "memory"
_FIELDS = 8
_OF_OWN_ALLOCATOR = 9
_OF_REFUSAL = 6
_MOST_FILES = 8
_Part = TypeVar("_Part", Mapped, OwnAllocator)


def coverage_of(lines: Iterable[Sequence[str]]) -> Coverage | None:
    """Of all processes of a run together, from the fields of the lines of the file of proofs; None
    where no process told."""
    sums = Counter[int]()
    files = Counter[str]()
    for fields in lines:
        if len(fields) < _FIELDS or fields[1] != KIND or len(fields) % 2:
            continue
        sizes = (*fields[4:_FIELDS], *fields[_FIELDS + 1 :: 2])
        if not all(size.isdecimal() for size in sizes):
            continue
        for place in range(4, _FIELDS):
            sums[place] += int(fields[place])
        for file, size in zip(fields[_FIELDS::2], fields[_FIELDS + 1 :: 2], strict=True):
            files[file] += int(size)
    if not sums:
        return None
    largest = files.most_common()
    mapped = [Mapped(file, size) for file, size in largest[:_MOST_FILES]]
    if rest := sum(size for _, size in largest[_MOST_FILES:]):
        mapped.append(Mapped(OTHERS, rest))
    return Coverage(sums[4], sums[6], sums[7], tuple(mapped))


def with_own_allocators(outcome: Outcome, lines: Iterable[Sequence[str]]) -> Outcome:
    """``outcome`` with the allocators that the program brings along, from the lines that the probe
    wrote of them; or ``not-covered`` where it called one in a way that no malloc can serve."""
    found: dict[tuple[str, str], OwnAllocator] = {}
    for fields in lines:
        if fields[1:2] == ["refused"] and len(fields) == _OF_REFUSAL:
            reason = f"it calls {fields[5]} of its own allocator, which no malloc can serve"
            return replace(outcome, status=Status.NOT_COVERED, reason=reason, values={})
        is_one = fields[1:2] == ["private"] and len(fields) == _OF_OWN_ALLOCATOR
        if not is_one or not fields[7].isdecimal():
            continue
        file, prefix, functions = fields[5], fields[6], int(fields[7])
        led = fields[8] == "led"
        if known := found.get((file, prefix)):
            led = led and known.is_redirected
            functions = max(functions, int(known.functions))
        found[file, prefix] = OwnAllocator(file, prefix, functions, led)
    if not found:
        return outcome
    named = tuple(map(_named, found.values()))
    return replace(outcome, details={**outcome.details, OWN_ALLOCATORS: to_builtins(named)})


def judged(outcome: Outcome, coverage: Coverage, manager: Manager, limits: Limits) -> Outcome:
    """``outcome`` of a good run with its coverage, or ``not-covered`` where the manager served less
    than ``limits`` ask for. A program as it is (``own``) is measured in any case, and what serves
    its malloc is the manager."""
    files = tuple(each for each in coverage.files if not each.file or each.file != outcome.server)
    coverage = structs.replace(coverage, files=files)
    if coverage.share < NOTABLE:
        coverage = structs.replace(coverage, files=tuple(map(_named, files)))
    outcome = replace(outcome, details={**outcome.details, DETAIL: to_builtins(coverage)})
    if manager.server is None or not (reason := _refusal(coverage, limits, manager.name)):
        return outcome
    return replace(outcome, status=Status.NOT_COVERED, reason=reason, values={})


def refusal(alone: Outcome, limits: Limits) -> str:
    """Why a program has no figure under any manager, by a run as it is (``own``); empty where it
    has. What it has from an allocator of its own that a manager can stand behind counts."""
    covered = alone.details_as(Covered)
    if covered.coverage is None:
        return ""
    led = {each.file for each in covered.own_allocators}
    others = tuple(each for each in covered.coverage.files if each.file not in led)
    return _refusal(structs.replace(covered.coverage, files=others), limits, "malloc")


def _refusal(coverage: Coverage, limits: Limits, manager: str) -> str:
    if coverage.share >= limits.least_coverage:
        return ""
    advice = coverage.files[0].advice
    return (
        f"{coverage.told(manager)}{f' ({advice})' if advice else ''}; --least-coverage 0 measures "
        "it anyway"
    )


def _named(part: _Part) -> _Part:
    found = private_allocator(Path(part.file)) if "/" in part.file else None
    if found is None:
        return part
    return structs.replace(part, allocator=found.name, advice=found.advice)
