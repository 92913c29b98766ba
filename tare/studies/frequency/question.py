"""`tare.frequency` under native programs: which runs it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tare.campaign.session import Command, Where, check_counts, in_rounds, measure, programs_of
from tare.campaign.watching import Watcher
from tare.programs.program import Program
from tare.records.machine import describe_machine
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.frequency import report as frequency_study
from tare.studykit.sweeps import Variant, swept


def frequency(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    periods: Sequence[int] = (),
    reclaim: Sequence[int] = (),
    runs: int = 12,
    warmup: int = 1,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Mutator time of programs under a mark-sweep collector that collects more or less often.

    ``managers`` are the allocators that the collector stands before; none means glibc. ``periods``
    are bytes allocated between collections; none means 256 KiB to 16 MiB. ``reclaim`` has numbers
    N: free at each Nth collection only; none means 1, 4 and 16, and 0 and 1 are added. Nothing is
    freed without a collection, so runs without a limit of memory get half of the machine's.
    """
    check_counts(runs, warmup)

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return frequency_study.variants(
            allocators,
            periods or frequency_study.DEFAULT_PERIODS,
            reclaim or frequency_study.DEFAULT_RECLAIM,
        )

    chosen = programs_of(programs)
    resolved, baseline = swept(managers or frequency_study.DEFAULT_ALLOCATORS, variants)
    limits = limits or Limits()
    if limits.memory_bytes is None:
        limits = replace(limits, memory_bytes=describe_machine()["memory_bytes"] // 2)

    references = frequency_study.references(tuple(resolved))
    return measure(
        frequency_study.STUDY,
        "mutator time of collection periods",
        chosen,
        resolved,
        baseline,
        {"runs": runs, "warmup": warmup},
        in_rounds(frequency_study, chosen, resolved, baseline, runs, warmup, references),
        Where(seed, limits, folder, watcher),
    )
