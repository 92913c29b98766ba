"""What the runs of the search show of each setting, and which of them look best."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tare.records.metrics import Status
from tare.records.runs import Record

WALL, PROCESSOR, MEMORY = "wall_seconds", "processor_seconds", "peak_resident_bytes"
_OF_ONE_THREAD = (0.5, 1.05)
"""Processor time over wall time of a program that computes with one thread at a time."""
NEAREST = 6
"""So many runs of the baseline, the nearest ones, are what the time of a run is held against: a
machine's speed drifts within minutes."""
FEWEST_FOR_NOISE, UNKNOWN_NOISE = 4, 0.05
_DEVIATIONS = 1.5
"""A standard deviation in median absolute deviations."""
TIED = 0.01
"""Settings whose time or memory differs by no more than this count as the same."""


@dataclass(frozen=True)
class Seen:
    """Medians of ``runs`` good runs: ratios to the baseline, and the peak of memory in bytes."""

    name: str
    time: float
    memory: float
    peak_bytes: float
    runs: int

    @property
    def options(self) -> int:
        """How many are set."""
        return self.name.count("=")


@dataclass(frozen=True)
class Bounds:
    """What an answer must keep to: its time at most so much longer than the baseline's, as a
    fraction, and its peak in bytes at most this."""

    slower_by: float | None = None
    memory_limit: int | None = None

    def fits(self, seen: Seen) -> bool:
        return self.memory_limit is None or seen.peak_bytes <= self.memory_limit

    def allows(self, seen: Seen) -> bool:
        slow = self.slower_by is not None and seen.time > 1 + self.slower_by
        return self.fits(seen) and not slow


def good(records: Sequence[Record], manager: str | None = None) -> list[Record]:
    return [
        record
        for record in records
        if record.outcome.status is Status.OK
        and not record.run.warmup
        and manager in (None, record.run.manager)
    ]


def failed(records: Sequence[Record], baseline: str) -> set[str]:
    """The settings of which a run did not end well, or printed something else than the baseline
    always does."""
    printed = {record.outcome.output_sha256 for record in good(records, baseline)}
    return {
        each.run.manager
        for each in records
        if each.outcome.status is not Status.OK
        or (len(printed) == 1 and each.outcome.output_sha256 not in printed)
    }


def seen_of(records: Sequence[Record], baseline: str) -> dict[str, Seen]:
    """By name, the settings all of whose runs went well. Empty without runs of the baseline."""
    bases = sorted(good(records, baseline), key=lambda record: record.run.order)
    if not bases:
        return {}
    orders = [record.run.order for record in bases]
    memory, time = _median(bases, MEMORY), time_metric(records, baseline)

    def time_ratio(record: Record) -> float:
        place = bisect(orders, record.run.order)
        first = max(0, min(place - NEAREST // 2, len(bases) - NEAREST))
        return _value(record, time) / _median(bases[first : first + NEAREST], time)

    by_name: dict[str, list[Record]] = defaultdict(list)
    for record in good(records):
        by_name[record.run.manager].append(record)
    wrong = failed(records, baseline)
    return {
        name: Seen(
            name,
            median(map(time_ratio, mine)),
            _median(mine, MEMORY) / memory,
            _median(mine, MEMORY),
            len(mine),
        )
        for name, mine in by_name.items()
        if name not in wrong
    }


def time_metric(records: Sequence[Record], baseline: str) -> str:
    """What settings are ranked by: the processor's time, which other programs disturb less, where
    one thread does the work, else wall time."""
    bases = good(records, baseline)
    low, high = _OF_ONE_THREAD
    shares = [_value(record, PROCESSOR) / _value(record, WALL) for record in bases]
    return PROCESSOR if shares and low <= median(shares) <= high else WALL


def noise_of(records: Sequence[Record], baseline: str, metric: str) -> float:
    """How far one run of the baseline lies from the others, as a fraction."""
    values = [_value(record, metric) for record in good(records, baseline)]
    if len(values) < FEWEST_FOR_NOISE:
        return UNKNOWN_NOISE
    return _DEVIATIONS * median(abs(value / median(values) - 1) for value in values)


def _median(records: Sequence[Record], metric: str) -> float:
    return median(_value(record, metric) for record in records)


def _value(record: Record, metric: str) -> float:
    return float(record.outcome.values.get(metric, 0.0))


Role = Callable[[Sequence[Seen]], list[Seen]]
"""Orders settings, the best first, by one of the things that they may be wanted for."""


def roles(bounds: Bounds, noise: float) -> Sequence[Role]:
    """Least time; least memory; least memory in no more time than the baseline takes. Of those that
    are as good, within the ``noise`` of times, the one with least memory and fewest options goes
    first."""
    tied = max(TIED, noise)

    def fastest(found: Sequence[Seen]) -> list[Seen]:
        fitting = sorted(filter(bounds.allows, found), key=lambda seen: seen.time)
        same = [seen for seen in fitting if seen.time <= fitting[0].time * (1 + tied)]
        by_memory = sorted(same, key=lambda seen: (_steps(seen.memory), seen.options, seen.time))
        return [*by_memory, *fitting[len(same) :]]

    def smallest(found: Sequence[Seen]) -> list[Seen]:
        allowed = sorted(filter(bounds.allows, found), key=lambda seen: seen.memory)
        same = [seen for seen in allowed if seen.memory <= allowed[0].memory * (1 + TIED)]
        by_options = sorted(same, key=lambda seen: (seen.options, seen.time))
        return [*by_options, *allowed[len(same) :]]

    def at_no_cost(found: Sequence[Seen]) -> list[Seen]:
        return smallest([seen for seen in found if seen.time <= 1 + TIED])

    return [fastest, smallest, *([at_no_cost] if bounds.slower_by is None else [])]


def _steps(ratio: float) -> int:
    return round(ratio / TIED)


def front(found: Sequence[Seen]) -> list[Seen]:
    """Those that no other beats in both time and memory, the fastest first."""
    kept: list[Seen] = []
    for seen in sorted(found, key=lambda seen: (seen.time, seen.memory)):
        if not kept or seen.memory < kept[-1].memory:
            kept.append(seen)
    return kept
