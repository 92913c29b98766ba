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

from msgspec import structs, to_builtins

from tare.memory_managers.manager import Manager
from tare.observers.private_allocators import private_allocator
from tare.records.coverage import DETAIL, NOTABLE, OTHERS, Coverage, Mapped
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

KIND = "memory"
_FIELDS = 8
_MOST_FILES = 8


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


def judged(outcome: Outcome, coverage: Coverage, manager: Manager, limits: Limits) -> Outcome:
    """``outcome`` of a good run with its coverage, or ``not-covered`` where the manager served less
    than ``limits`` ask for. A program as it is (``own``) is measured in any case, and what serves
    its malloc is the manager."""
    files = tuple(each for each in coverage.files if not each.file or each.file != outcome.server)
    coverage = structs.replace(coverage, files=files)
    if coverage.share < NOTABLE:
        coverage = structs.replace(coverage, files=tuple(map(_named, files)))
    outcome = replace(outcome, details={**outcome.details, DETAIL: to_builtins(coverage)})
    if manager.server is None or not (reason := refusal(coverage, limits, manager.name)):
        return outcome
    return replace(outcome, status=Status.NOT_COVERED, reason=reason, values={})


def refusal(coverage: Coverage | None, limits: Limits, manager: str = "malloc") -> str:
    """Why a program with this coverage has no figure under any manager; empty where it has."""
    if coverage is None or coverage.share >= limits.least_coverage:
        return ""
    advice = coverage.files[0].advice
    return (
        f"{coverage.told(manager)}{f' ({advice})' if advice else ''}; --least-coverage 0 measures "
        "it all the same"
    )


def _named(mapped: Mapped) -> Mapped:
    found = private_allocator(Path(mapped.file)) if "/" in mapped.file else None
    if found is None:
        return mapped
    return structs.replace(mapped, allocator=found.name, advice=found.advice)
