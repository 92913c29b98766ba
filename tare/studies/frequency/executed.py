"""How often to collect, under a JVM's collectors: a program with several young and full periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tare.base.errors import UsageError
from tare.campaign.session import (
    Compared,
    Question,
    check_counts,
    in_rounds,
    managers_of,
    measure,
    programs_of,
)
from tare.memory_managers import runtimes
from tare.memory_managers.manager import Manager, options_of, resolve, with_options
from tare.records.machine import describe_machine
from tare.records.results import Results
from tare.studies.frequency import executed_report as study
from tare.studies.frequency.request import Frequency
from tare.studykit.sweeps import ascending, size_text

MIB = 1 << 20
DEFAULT_PERIODS = (4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB)
DEFAULT_FULL = (64 * MIB,)
MOST_HEAP = 2 << 30
"""Without heap=: so large that nothing but the periods makes the JVM collect."""


def serves(managers: Sequence[str]) -> bool:
    """Whether any of the managers is a collector of a runtime."""
    return any(resolve(name).runtime is not None for name in managers)


def frequency_executed(request: Frequency) -> Results:
    """As ``frequency``, of one program under collectors of a JVM.

    ``managers`` are jvm.serial, jvm.parallel or jvm.mmtk. ``periods`` are bytes allocated between
    young collections, of jvm.mmtk between all; none means 4, 8, 16 and 32 MiB. ``full`` are bytes
    between full ones, multiples of each period; none means 64 MiB, and no full ones always take
    part. It is not for jvm.mmtk.
    """
    if request.reclaim:
        raise UsageError("--reclaim is for a mark-sweep collector, not for a JVM", "leave it out")
    check_counts(request.runs, request.warmup)
    (chosen,) = programs_of(request.programs)
    for name in request.managers:
        _check(resolve(name), options_of(name))
    found = [
        study.Setting(_named(name, period, each), name, period, each)
        for name in dict.fromkeys(request.managers)
        for period in ascending(set(request.periods or DEFAULT_PERIODS))
        for each in (study.NEVER, *_full_periods(name, request.full))
    ]
    resolved, baseline = managers_of([each.manager for each in found], found[0].manager)

    compared = Compared([chosen], resolved, baseline)
    question = Question(
        study.STUDY,
        "mutator time of collection periods",
        compared,
        request.asked(),
        facts={"settings": [asdict(each) for each in found]},
    )
    return measure(question, in_rounds(study, compared, request), request.where())


def _full_periods(manager: str, asked: Sequence[int]) -> tuple[int, ...]:
    if _has(resolve(manager), "full-period"):
        return ascending(set(asked or DEFAULT_FULL))
    if asked:
        raise UsageError(
            f"{manager} has no option 'full-period': its full collections cannot be set",
            "leave out --full, or measure this collector separately",
        )
    return ()


def _named(manager: str, period: int, full: int) -> str:
    options = options_of(manager)
    heap = min(MOST_HEAP, describe_machine()["memory_bytes"] // 4) // MIB * MIB
    settings = {"heap": size_text(heap), **options, "period": size_text(period)}
    if full != study.NEVER:
        settings["full-period"] = size_text(full)
    return with_options(manager, settings)


def _check(manager: Manager, options: dict[str, str]) -> None:
    if manager.runtime is None:
        raise UsageError(
            f"{manager.name} is not a collector of a JVM, but other managers given are",
            "measure these separately: their periods are not comparable",
        )
    if not _has(manager, "period"):
        raise UsageError(
            f"{manager.name} has no option 'period': how often it collects cannot be set",
            "give jvm.serial, jvm.parallel or jvm.mmtk, or vary this one's heap with `tare lbo`",
        )
    if {"period", "full-period", "young"} & options.keys():
        raise UsageError(
            f"{manager.name}: --every and --full set the periods", "leave them out of the name"
        )


def _has(manager: Manager, option: str) -> bool:
    setting = manager.runtime
    assert setting is not None
    known = runtimes.runtime(setting.runtime).recipes()[f"{setting.runtime}.{setting.collector}"]
    return any(each.name == option for each in known.options)
