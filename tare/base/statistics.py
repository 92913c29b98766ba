"""Medians, bootstrap intervals, the noise floor and the verdicts drawn from them.

Intervals of medians are 95% percentile bootstraps with a recorded seed, so that the same
measurements always print the same figures. The tests hold them against SciPy's; they are written
out in NumPy because importing scipy.stats takes longer than measuring a short program a hundred
times. Of runs that took turns in a random order ``round_interval`` says more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from tare.base.libraries import NDArray, np

Floats: TypeAlias = "NDArray[np.float64]"

CONFIDENCE = 0.95
RESAMPLES = 2000
FEWEST_FOR_INTERVAL = 6
"""A sample of n values encloses its median with probability 1 - 2^(1-n): 95% needs six."""
FEWEST_FOR_VERDICT = 3
TOO_FEW_RUNS = "too few runs"


@dataclass(frozen=True)
class Interval:
    """A point estimate and the bounds of its 95% interval, in the unit of the data."""

    median: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def _resampled_medians(sample: Floats, rng: np.random.Generator) -> Floats:
    """Medians of ``RESAMPLES`` samples drawn from ``sample`` with replacement.

    The k-th smallest of n uniform draws follows Beta(k, n - k + 1), so the median of a resample is
    drawn at once, without its n values: a million measurements cost no more than ten.
    """
    ordered = np.sort(sample)
    n = ordered.size
    k = (n + 1) // 2
    place = rng.beta(k, n - k + 1, RESAMPLES)
    lower = _at(ordered, place)
    if n % 2 == 1:
        return lower
    next_place = place + (1 - place) * rng.beta(1, n - k, RESAMPLES)
    return (lower + _at(ordered, next_place)) / 2


def _at(ordered: Floats, place: Floats) -> Floats:
    """The values at ``place``, from 0 to 1, of the sorted sample."""
    return ordered[np.minimum((place * ordered.size).astype(np.intp), ordered.size - 1)]


def _percentiles(values: Floats) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def median_interval(values: Sequence[float], seed: int = 0) -> Interval | None:
    """Median and its interval; None without values.

    Under ``FEWEST_FOR_INTERVAL`` values the bounds are the smallest and the largest value: no 95%
    interval of a median exists for so few.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        return None
    median = float(np.median(sample))
    smallest, largest = float(sample.min()), float(sample.max())
    if sample.size < FEWEST_FOR_INTERVAL or smallest == largest:
        return Interval(median, smallest, largest)
    medians = _resampled_medians(sample, np.random.default_rng(seed))
    return Interval(median, *_percentiles(medians))


def ratio_interval(
    values: Sequence[float], baseline: Sequence[float], seed: int = 0
) -> Interval | None:
    """Ratio of the median of ``values`` to that of ``baseline``, with its interval.

    None where a ratio has no meaning: no values, or a baseline that can be zero. With few values
    on either side the bounds are the extreme ratios that the values allow.
    """
    top = np.asarray(values, dtype=np.float64)
    bottom = np.asarray(baseline, dtype=np.float64)
    if top.size == 0 or bottom.size == 0 or bottom.min() <= 0:
        return None
    ratio = float(np.median(top) / np.median(bottom))
    constant = top.min() == top.max() and bottom.min() == bottom.max()
    if constant or min(top.size, bottom.size) < FEWEST_FOR_INTERVAL:
        return Interval(ratio, float(top.min() / bottom.max()), float(top.max() / bottom.min()))
    rng = np.random.default_rng(seed)
    ratios = _resampled_medians(top, rng) / _resampled_medians(bottom, rng)
    return Interval(ratio, *_percentiles(ratios))


Rounds: TypeAlias = Sequence[tuple[Sequence[float], Sequence[float]]]
"""Of each round of runs in random order: the values, and those of the baseline."""

ROUNDS_TOGETHER = 2
"""Rounds whose values are held against each other. One is enough for bounds that are exact, but
needs more rounds; with many, what drifts from round to round hides small differences."""


def round_interval(rounds: Rounds, error: float) -> Interval | None:
    """The median ratio of a value to a baseline value measured next to it, and the bounds that hold
    the true one but with probability ``error``.

    The order within a round was drawn, so that under the same manager each order of the values is
    as probable as any other, whatever the machine does meanwhile: this holds for noise of any
    shape, with drift and with bursts. None where there are too few rounds for such bounds.
    """
    blocks = _blocks([pair for pair in rounds if len(pair[0]) and len(pair[1])])
    if not blocks or any(min(value) <= 0 for pair in blocks for value in pair):
        return None
    left_out = _left_out([(len(values), len(base)) for values, base in blocks], error)
    if left_out < 0:
        return None
    each = [np.log(np.asarray(v))[:, None] - np.log(np.asarray(base)) for v, base in blocks]
    ratios = np.sort(np.concatenate([block.ravel() for block in each]))
    bounds = np.median(ratios), ratios[left_out], ratios[-1 - left_out]
    return Interval(*(float(np.exp(bound)) for bound in bounds))


def _blocks(rounds: Rounds) -> list[tuple[list[float], list[float]]]:
    """Each ``ROUNDS_TOGETHER`` neighbours made one; what is left goes to the last."""
    blocks: list[tuple[list[float], list[float]]] = []
    for number, (values, base) in enumerate(rounds):
        if (
            number % ROUNDS_TOGETHER == 0 and number + ROUNDS_TOGETHER <= len(rounds)
        ) or not blocks:
            blocks.append(([], []))
        blocks[-1][0].extend(values)
        blocks[-1][1].extend(base)
    return blocks


@cache
def rounds_needed(error: float, baseline_runs: int) -> int:
    """From how many rounds on ``round_interval`` has bounds."""
    needed = FEWEST_FOR_INTERVAL
    while True:
        blocks = _blocks([([1.0], [1.0] * baseline_runs)] * needed)
        if _left_out([(len(values), len(base)) for values, base in blocks], error) >= 0:
            return needed
        needed += 1


def _left_out(sizes: Sequence[tuple[int, int]], error: float) -> int:
    """How many of the ratios may lie beyond each bound; -1 where even all of them are too few."""
    chances = np.ones(1)
    for values, base in sizes:
        chances = np.convolve(chances, _chances_of_wins(values, base))
    return int(np.searchsorted(np.cumsum(chances), error / 2, side="right")) - 1


@cache
def _chances_of_wins(values: int, base: int) -> Floats:
    """How probable each number of pairs in which the value is larger is, by chance."""
    if not values or not base:
        return np.ones(1)
    chances = np.zeros(values * base + 1)
    largest_is_value = values / (values + base)
    with_value = _chances_of_wins(values - 1, base)
    chances[base : base + with_value.size] += largest_is_value * with_value
    with_base = _chances_of_wins(values, base - 1)
    chances[: with_base.size] += (1 - largest_is_value) * with_base
    return chances


def geometric_mean_ratio(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0
) -> Interval | None:
    """Geometric mean, over programs, of the ratio of medians; each program weighs the same.

    ``pairs`` holds (values, baseline values) of each program. Programs are the population that
    was chosen, not a sample from a larger one, so only the runs within each are resampled.
    """
    if not pairs:
        return None
    rng = np.random.default_rng(seed)
    points: list[float] = []
    logarithms = np.zeros(RESAMPLES)
    for values, baseline in pairs:
        top = np.asarray(values, dtype=np.float64)
        bottom = np.asarray(baseline, dtype=np.float64)
        if top.size == 0 or bottom.size == 0 or bottom.min() <= 0 or top.min() <= 0:
            return None
        points.append(float(np.log(np.median(top) / np.median(bottom))))
        logarithms += np.log(_resampled_medians(top, rng) / _resampled_medians(bottom, rng))
    ratios = np.exp(logarithms / len(pairs))
    return Interval(float(np.exp(np.mean(points))), *_percentiles(ratios))


def noise_floor(baseline: Sequence[float], seed: int = 0) -> float | None:
    """How far two halves of the baseline's own runs can seem to differ, as a fraction (0.03: 3%).

    ``baseline`` is in the order of measurement; its even and odd runs play two managers. None
    when there are too few runs to split, or when the values can be zero.
    """
    halves = ratio_interval(baseline[0::2], baseline[1::2], seed)
    if halves is None or len(baseline) < 2 * 2 or halves.low <= 0:
        return None
    return max(halves.high, 1 / halves.low) - 1


def verdict(ratio: Interval | None, floor: float | None, fewest_runs: int) -> str:
    """What may be said of a ratio: ``lower``, ``higher``, ``no difference seen``, ``too few runs``
    or ``no data``."""
    if ratio is None:
        return "no data"
    inside_floor = floor is not None and 1 / (1 + floor) <= ratio.median <= 1 + floor
    if ratio.holds(1.0) or inside_floor:
        return "no difference seen"
    if fewest_runs < FEWEST_FOR_VERDICT:
        return TOO_FEW_RUNS
    return "lower" if ratio.median < 1 else "higher"
