"""`tare.frequency` under native programs: which runs it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tare.base.errors import UsageError
from tare.campaign.session import Compared, Question, check_counts, in_rounds, measure, programs_of
from tare.records.machine import describe_machine
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.frequency import report as frequency_study
from tare.studies.frequency.executed import frequency_executed, serves
from tare.studies.frequency.request import Frequency
from tare.studykit.request import answers
from tare.studykit.sweeps import Variant, swept


@answers(Frequency)
def frequency(request: Frequency) -> Results:
    """Mutator time of programs under a mark-sweep collector that collects more or less often.

    ``managers`` are the allocators that the collector stands before; none means glibc. ``periods``
    are bytes allocated between collections; none means 256 KiB to 16 MiB. ``reclaim`` has numbers
    N: free at each Nth collection only; none means 1, 4 and 16, and 0 and 1 are added. Nothing is
    freed without a collection, so runs without a limit of memory get half of the machine's.
    """
    if serves(request.managers):
        return frequency_executed(request)
    if request.full:
        raise UsageError("--full is for a java command, with -m jvm.serial or jvm.parallel")
    check_counts(request.runs, request.warmup)

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return frequency_study.variants(
            allocators,
            request.periods or frequency_study.DEFAULT_PERIODS,
            request.reclaim or frequency_study.DEFAULT_RECLAIM,
        )

    chosen = programs_of(request.programs)
    resolved, baseline = swept(request.managers or frequency_study.DEFAULT_ALLOCATORS, variants)
    limits = request.limits or Limits()
    if limits.memory_bytes is None:
        limits = replace(limits, memory_bytes=describe_machine()["memory_bytes"] // 2)
    compared = Compared(chosen, resolved, baseline)
    question = Question(
        frequency_study.STUDY, "mutator time of collection periods", compared, request.asked()
    )
    references = frequency_study.references(tuple(resolved))
    plan = in_rounds(frequency_study, compared, request, references)
    return measure(question, plan, request.where(limits=limits))
