"""How often to collect, for a heap trace: replays under collectors with several periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tare.base.errors import UsageError
from tare.campaign.session import Compared, Question, check_counts
from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import options_of, resolve, with_options
from tare.records.results import Results
from tare.studies.frequency import replayed_report as study
from tare.studies.frequency.request import FrequencyReplayed
from tare.studykit import replayer
from tare.studykit.least_heap import multiples
from tare.studykit.least_heap.replayed import HEADER_BYTES
from tare.studykit.least_heap.search import PAGE
from tare.studykit.replays import measure_replays, prepare
from tare.studykit.request import answers
from tare.studykit.sweeps import ascending, size_text

DEFAULT_COLLECTORS = ("immix", "genimmix")
DEFAULT_RECLAIM = (study.EACH_TIME, 4)
BASELINE = "glibc"
"""Runs as well, so that a collector must end with the objects that malloc and free end with."""
LONGEST_SHORTEST = 8 << 20
_PERIODS, _FEWEST_COLLECTIONS = 4, 8
_ROOM = 3
"""The heap, in what can lie in it at once: a copying collector needs twice that."""
_LEAST_HEAP = 16 << 20


@answers(FrequencyReplayed)
def frequency_replayed(request: FrequencyReplayed) -> Results:
    """Mutator time of a heap trace under collectors that trace and reclaim more or less often.

    ``managers`` are collectors; none means immix and genimmix. ``periods`` are bytes allocated
    between collections; none means 8, 16, 32 and 64 MiB, or less where the trace allocates little.
    ``reclaim`` has numbers N: reclaim at each Nth collection only; none means 1 and 4, and 1 is
    added. ``how`` says what is replayed.
    """
    check_counts(request.runs, request.warmup)
    collectors = _checked(request.managers or DEFAULT_COLLECTORS)
    rates = sorted({study.EACH_TIME, *(request.reclaim or DEFAULT_RECLAIM)})
    if rates[0] < 1:
        raise UsageError(
            "collectors of replays reclaim at some collections", "give --reclaim numbers from 1 up"
        )
    prepared = prepare(open_trace(request.trace), request.how, study.STUDY, request)
    counted = prepared.counted
    chosen = (
        ascending(set(request.periods))
        if request.periods
        else default_periods(counted["allocated_bytes"])
    )
    heap = ample_heap(counted, chosen[-1] * rates[-1])
    settings = [
        study.Setting(_named(collector, period, rate, heap), collector, period, rate)
        for collector in collectors
        for period in chosen
        for rate in rates
    ]
    resolved, baseline = replayer.managers_of([each.manager for each in settings], BASELINE)
    resolved, heaps = multiples.in_bytes(prepared, resolved, request.limits)
    question = Question(
        study.STUDY,
        "mutator time of collection periods",
        Compared([prepared.program], resolved, baseline),
        observers={study.OBSERVER: replayer.run_once},
        facts={"settings": [asdict(each) for each in settings], "heaps": heaps},
    )
    return measure_replays(prepared, study, request, question)


def default_periods(allocated: int) -> tuple[int, ...]:
    """8, 16, 32 and 64 MiB; for a trace that would see few collections then, shorter ones, so that
    the longest leads to 8."""
    longest = allocated // _FEWEST_COLLECTIONS
    shortest = LONGEST_SHORTEST
    while shortest > PAGE and shortest << (_PERIODS - 1) > longest:
        shortest >>= 1
    return tuple(shortest << step for step in range(_PERIODS))


def ample_heap(counted: Mapping[str, int], between: int) -> int:
    """Bytes of a heap that does not fill by itself when ``between`` bytes are allocated between
    two reclamations."""
    headers = 1 + HEADER_BYTES * counted["objects"] / max(counted["allocated_bytes"], 1)
    living = min(counted["allocated_bytes"], counted["peak_bytes"] + between)
    heap = max(_LEAST_HEAP, int(_ROOM * headers * living))
    return -(-heap // PAGE) * PAGE


def _checked(names: Sequence[str]) -> list[str]:
    for name in names:
        if not resolve(name, replays=True).replayer:
            raise UsageError(
                f"{name} is not a collector of replays",
                "give one, like -m immix; for a collector over malloc give a program, not a trace",
            )
        if taken := {"period", "reclaim"}.intersection(options_of(name)):
            raise UsageError(
                f"{name}: --every and --reclaim set its {' and '.join(sorted(taken))}",
                "leave them out of the name",
            )
    return list(dict.fromkeys(names))


def _named(collector: str, period: int, rate: int, heap: int) -> str:
    settings = {"heap": size_text(heap), **options_of(collector), "period": size_text(period)}
    if rate != study.EACH_TIME:
        settings["reclaim"] = str(rate)
    return with_options(collector, settings)


__all__ = ["ample_heap", "default_periods", "frequency_replayed"]
