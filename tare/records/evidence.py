"""What can be said of managers from their runs: the one place where a difference is called one.

Every figure that is compared goes through ``judge``. It knows how many comparisons are made beside
it, so that a manager against itself is called different in at most one answer of twenty, whatever
the noise; and it says what difference would have been seen.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tare.base import statistics
from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL, FEWEST_FOR_VERDICT, TOO_FEW_RUNS, Interval
from tare.records.metrics import METRICS

LOWER, HIGHER, UNSEEN, NO_DATA = "lower", "higher", "no difference seen", "no data"

WALL, PROCESSOR, MEMORY = "wall_seconds", "processor_seconds", "peak_resident_bytes"
COUNTED, COUNTED_BY_CPU = "instructions", "cpu_instructions"
CLAIMS = (WALL, PROCESSOR, MEMORY)
"""What an answer makes claims of, of each manager."""
ERROR = 0.05
"""How often an answer may make a false claim."""
LITTLE = 0.02
"""Memory management that is a smaller share of the instructions leaves little to gain."""
SAME = 0.03
"""A gain of at most this is not worth a change: where nothing more is possible, "keep" is said."""
COUNTED_ONCE = 0.05
"""Instructions that were counted once repeat within this in programs whose threads wait for each
other, and far closer in others."""
LEAST_COUNTED = 0.005
_TO_SEE = 1.3
"""How much larger than the half width of its interval a difference is that is seen in four of five
answers: (2.9 + 0.84) / 2.9 standard errors."""
_TO_PASS = 1.5
"""The same of the noise floor, by the simulated machines of few rounds."""
TIME_UNITS = ("s", "1/s")
"""Units of what a busy machine changes."""


@dataclass(frozen=True)
class Judged:
    """``ratio`` has the bounds of 95% that are shown; ``sure`` those that hold for all comparisons
    of an answer at once. ``needed`` is how many runs a verdict takes; ``visible`` the smallest
    reduction that would have been seen, as a fraction."""

    word: str
    ratio: Interval | None = None
    sure: Interval | None = None
    runs: int = 0
    needed: int = FEWEST_FOR_INTERVAL
    visible: float | None = None


@dataclass(frozen=True)
class Runs:
    """Values of one metric under one manager in the order of measurement, by their invocation."""

    values: Sequence[float] = ()
    invocations: Sequence[int] = ()

    @property
    def last(self) -> int:
        return max(self.invocations, default=0)


def error_of(alternatives: int, error: float = ERROR) -> float:
    """The error that each comparison of an answer with so many managers may have, so that the whole
    answer has ``error``."""
    return error / (len(CLAIMS) * max(1, alternatives))


def judge(runs: Runs, base: Runs, unit: str, error: float, seed: int = 0) -> Judged:
    """The verdict on ``runs`` against the baseline's. A time needs runs enough for an interval; of
    other figures fewer can speak, where their own spread is small beside the difference."""
    ratio = statistics.ratio_interval(runs.values, base.values, seed)
    number = min(len(runs.values), len(base.values))
    share = _share(base, runs)
    needed = statistics.rounds_needed(error, share)
    if ratio is None:
        return Judged(NO_DATA, runs=number, needed=needed)
    rounds = _rounds(runs, base)
    sure = statistics.round_interval(rounds, error) if len(rounds) >= needed else None
    if sure is None:
        word = TOO_FEW_RUNS if unit in TIME_UNITS else _by_spread(runs.values, base.values)
        visible = None if word == TOO_FEW_RUNS else _visible_spread(runs.values, base.values)
        return Judged(word, ratio, None, number, needed, visible)
    shown = _widened(statistics.round_interval(rounds, ERROR), ratio)
    floor = noise_floor(base, seed) or 0.0
    word = UNSEEN
    if sure.high < 1 and ratio.median * (1 + floor) < 1:
        word = LOWER
    elif sure.low > 1 and ratio.median > 1 + floor:
        word = HIGHER
    visible = max(_visible(sure), 1 - (1 + floor) ** -_TO_PASS)
    return Judged(word, shown, sure, number, needed, visible)


def noise_floor(base: Runs, seed: int = 0) -> float | None:
    """How far the baseline seems to differ from itself, its two runs of each round held against
    each other, as a fraction. None where there are too few."""
    pairs: dict[int, list[float]] = defaultdict(list)
    for invocation, value in zip(base.invocations, base.values, strict=True):
        pairs[invocation // 2].append(value)
    rounds = [([pair[0]], [pair[1]]) for _, pair in sorted(pairs.items()) if len(pair) == 2]
    itself = statistics.round_interval(rounds, ERROR)
    if itself is None:
        return statistics.noise_floor(base.values, seed)
    return max(itself.high, 1 / itself.low) - 1


def judge_apart(values: Sequence[float], base: Sequence[float], seed: int = 0) -> Judged:
    """Of runs of which it is not known that they took turns."""
    ratio = statistics.ratio_interval(values, base, seed)
    number = min(len(values), len(base))
    floor = statistics.noise_floor(base, seed)
    return Judged(statistics.verdict(ratio, floor, number), ratio, None, number)


def _share(base: Runs, runs: Runs) -> int:
    """How often a baseline runs in each round: twice, but where others are held against a manager
    that is no baseline."""
    return 2 if base.last + 1 > 1.5 * (runs.last + 1) else 1


def _rounds(runs: Runs, base: Runs) -> statistics.Rounds:
    """The values of each round that has some of both."""
    found: dict[int, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for side, mine, other in ((0, runs, base), (1, base, runs)):
        share = _share(mine, other)
        for invocation, value in zip(mine.invocations, mine.values, strict=True):
            found[invocation // share][side].append(value)
    return [found[number] for number in sorted(found) if all(found[number])]


def _widened(interval: Interval | None, ratio: Interval) -> Interval:
    """Bounds of the ratio within rounds, made to hold the ratio of the medians."""
    if interval is None:
        return ratio
    middle = ratio.median
    return Interval(middle, min(interval.low, middle), max(interval.high, middle))


def _visible(sure: Interval) -> float:
    half = max(math.log(sure.high / sure.median), math.log(sure.median / sure.low))
    return 1 - math.exp(-_TO_SEE * half)


def _by_spread(values: Sequence[float], base: Sequence[float]) -> str:
    """Of few runs: values that lie farther from the other side's than either spreads."""
    if min(len(values), len(base)) < FEWEST_FOR_VERDICT:
        return TOO_FEW_RUNS
    spread = max(max(values) - min(values), max(base) - min(base))
    if max(values) + spread < min(base):
        return LOWER
    if min(values) - spread > max(base):
        return HIGHER
    return UNSEEN if max(values) >= min(base) and min(values) <= max(base) else TOO_FEW_RUNS


def _visible_spread(values: Sequence[float], base: Sequence[float]) -> float:
    spread = max(max(values) - min(values), max(base) - min(base))
    return min(1.0, 2 * spread / median(base))


@dataclass(frozen=True)
class Evidence:
    """What one metric says of the managers other than the baseline, by their names."""

    metric: str
    judged: Mapping[str, Judged] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, Judged]:
        return {name: each for name, each in self.judged.items() if each.ratio is not None}

    @property
    def runs(self) -> int:
        """The fewest that any manager's figure rests on."""
        return min((each.runs for each in self.known.values()), default=0)

    @property
    def needed(self) -> int:
        return max((each.needed for each in self.known.values()), default=FEWEST_FOR_INTERVAL)

    @property
    def has_too_few(self) -> bool:
        return any(each.word == TOO_FEW_RUNS for each in self.known.values())

    @property
    def lower(self) -> Sequence[str]:
        """The managers seen to need less, the least first."""
        found = {
            name: each.ratio.median
            for name, each in self.known.items()
            if each.word == LOWER and each.ratio is not None
        }
        return sorted(found, key=lambda name: found[name])

    @property
    def tied(self) -> Sequence[str]:
        """Those seen to need less, whose ratio lies within the interval of the least one's."""
        if not self.lower:
            return []
        best = self.known[self.lower[0]].ratio
        assert best is not None
        return [
            name
            for name in self.lower
            if (ratio := self.known[name].ratio) is not None and ratio.median <= best.high
        ]

    @property
    def visible(self) -> float | None:
        """The reduction that would have been seen under every manager; None where none is known."""
        each = [judged.visible for judged in self.known.values()]
        known = [value for value in each if value is not None]
        return max(known) if known and len(known) == len(each) else None

    @property
    def most_gain(self) -> float | None:
        """What another manager saves at most, as a fraction, where that is known of all."""
        lows = [each.sure.low if each.sure else None for each in self.known.values()]
        known = [low for low in lows if low is not None]
        return max(0.0, 1 - min(known)) if known and len(known) == len(lows) else None

    @property
    def keeps(self) -> bool:
        """Whether the baseline can be said to need no more than the others, but for a little."""
        gain = self.most_gain
        return gain is not None and gain <= SAME and not self.lower


def evidence(
    measurements: pl.DataFrame, program: str, baseline: str, metric: str, seed: int
) -> Evidence:
    """What the runs of one study say by ``metric``."""
    runs = runs_of(measurements.filter(pl.col("program") == program, pl.col("metric") == metric))
    mine = {manager: each for (_, manager, _), each in runs.items()}
    base = mine.pop(baseline, Runs())
    error = error_of(len(mine))
    unit = METRICS[metric].unit
    return Evidence(metric, {name: judge(m, base, unit, error, seed) for name, m in mine.items()})


def runs_of(measurements: pl.DataFrame) -> dict[tuple[str, str, str], Runs]:
    """The good runs by program, manager and metric."""
    good = measurements.filter(pl.col("status") == "ok").sort("order")
    keys = ["program", "manager", "metric"]
    return {
        (str(key[0]), str(key[1]), str(key[2])): Runs(
            part["value"].to_list(), part["invocation"].to_list()
        )
        for key, part in good.group_by(keys, maintain_order=True)
    }


def counted(measurements: pl.DataFrame, program: str, baseline: str) -> Evidence:
    """What instructions say that were counted on a simulated processor, once or a few times."""
    of_program = measurements.filter(pl.col("program") == program, pl.col("metric") == COUNTED)
    mine = {manager: runs.values for (_, manager, _), runs in runs_of(of_program).items()}
    base = mine.pop(baseline, ())
    return Evidence(COUNTED, {name: _judge_counts(each, base) for name, each in mine.items()})


def _judge_counts(values: Sequence[float], base: Sequence[float]) -> Judged:
    if not values or not base or min(base) <= 0:
        return Judged(NO_DATA)
    number = min(len(values), len(base))
    middle = median(values) / median(base)
    spread = COUNTED_ONCE
    if number >= FEWEST_FOR_VERDICT:
        ranges = [(max(each) - min(each)) / median(each) for each in (values, base)]
        spread = max(LEAST_COUNTED, 2 * max(ranges))
    ratio = Interval(middle, middle * (1 - spread), middle * (1 + spread))
    word = LOWER if middle < 1 - spread else HIGHER if middle > 1 + spread else UNSEEN
    return Judged(word, ratio, ratio, number, 1, min(1.0, spread))
