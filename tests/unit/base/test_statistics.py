"""Statistics on data whose answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tare.base import statistics
from tare.base.statistics import (
    Interval,
    geometric_mean_ratio,
    median_interval,
    noise_floor,
    ratio_interval,
    verdict,
)

FloatArray = npt.NDArray[np.float64]
positive = st.floats(1e-6, 1e6, allow_nan=False)
samples = st.lists(positive, min_size=1, max_size=25)


@given(samples)
@settings(max_examples=60, deadline=None)
def test_median_lies_in_its_interval_and_the_interval_in_the_data(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval is not None
    assert min(values) <= interval.low <= interval.median <= interval.high <= max(values)


@given(samples, samples, st.floats(0.01, 100))
@settings(max_examples=40, deadline=None)
def test_a_ratio_scales_with_its_numerator(
    values: list[float], baseline: list[float], factor: float
) -> None:
    once = ratio_interval(values, baseline, seed=3)
    scaled = ratio_interval([value * factor for value in values], baseline, seed=3)
    assert once is not None
    assert scaled is not None
    assert scaled.median == pytest.approx(once.median * factor)
    assert scaled.low == pytest.approx(once.low * factor)
    assert scaled.high == pytest.approx(once.high * factor)


@given(samples)
@settings(max_examples=40, deadline=None)
def test_a_sample_against_itself_has_ratio_one(values: list[float]) -> None:
    interval = ratio_interval(values, values)
    assert interval is not None
    assert interval.median == pytest.approx(1)
    assert interval.holds(1.0) or interval.low == pytest.approx(interval.high)


def test_the_interval_covers_the_true_ratio_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(42)
    trials, hits = 300, 0
    for trial in range(trials):
        slow = rng.lognormal(0.2, 0.1, 20)
        base = rng.lognormal(0.0, 0.1, 20)
        interval = ratio_interval(slow.tolist(), base.tolist(), seed=trial)
        assert interval is not None
        hits += interval.holds(float(np.exp(0.2)))
    assert 0.90 <= hits / trials <= 0.99


@pytest.mark.parametrize("size", [24, 25])
def test_intervals_agree_with_those_of_scipy(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 20_000)  # as many as theirs below
    rng = np.random.default_rng(3)
    values, baseline = rng.lognormal(0.1, 0.1, size), rng.lognormal(0.0, 0.1, 31)

    def ratio(top: FloatArray, bottom: FloatArray, axis: int = -1) -> Any:
        return np.median(top, axis=axis) / np.median(bottom, axis=axis)

    theirs = stats.bootstrap(
        (values, baseline), ratio, method="percentile", n_resamples=20_000, paired=False,
        vectorized=True, rng=np.random.default_rng(4),
    ).confidence_interval  # fmt: skip
    ours = ratio_interval(values.tolist(), baseline.tolist())
    assert ours is not None
    assert ours.low == pytest.approx(theirs.low, rel=0.01)
    assert ours.high == pytest.approx(theirs.high, rel=0.01)
    theirs = stats.bootstrap(
        (values,), np.median, method="percentile", n_resamples=20_000,
        rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    alone = median_interval(values.tolist())
    assert alone is not None
    assert alone.low == pytest.approx(theirs.low, rel=0.01)
    assert alone.high == pytest.approx(theirs.high, rel=0.01)


def test_the_same_data_and_seed_give_the_same_interval() -> None:
    values = [1.0, 1.1, 1.2, 1.05, 0.98, 1.3, 1.07]
    assert median_interval(values, seed=5) == median_interval(values, seed=5)


def test_few_values_give_the_extremes() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == Interval(2.0, 1.0, 3.0)
    assert ratio_interval([2.0, 4.0], [1.0, 2.0]) == Interval(2.0, 1.0, 4.0)


@pytest.mark.parametrize(
    ("values", "baseline"), [([], [1.0]), ([1.0], []), ([1.0], [0.0]), ([1.0], [1.0, 0.0])]
)
def test_a_ratio_without_meaning_is_none(values: list[float], baseline: list[float]) -> None:
    assert ratio_interval(values, baseline) is None


def test_geometric_mean_of_known_ratios() -> None:
    mean = geometric_mean_ratio([([2.0] * 8, [1.0] * 8), ([1.0] * 8, [2.0] * 8)])
    assert mean is not None
    assert mean.median == pytest.approx(1.0)
    assert mean.low == pytest.approx(1.0)
    assert mean.high == pytest.approx(1.0)
    assert geometric_mean_ratio([]) is None
    assert geometric_mean_ratio([([1.0], [])]) is None


@given(st.lists(st.tuples(samples, samples), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_geometric_mean_is_that_of_the_ratios(
    pairs: list[tuple[list[float], list[float]]],
) -> None:
    mean = geometric_mean_ratio(pairs)
    assert mean is not None
    ratios = [np.median(values) / np.median(base) for values, base in pairs]
    assert mean.median == pytest.approx(float(np.exp(np.mean(np.log(ratios)))))


def test_the_noise_floor_of_constant_data_is_zero() -> None:
    assert noise_floor([2.0] * 12) == 0


def test_the_noise_floor_grows_with_the_noise() -> None:
    rng = np.random.default_rng(1)
    quiet = noise_floor(rng.normal(100, 0.1, 40).tolist())
    loud = noise_floor(rng.normal(100, 10, 40).tolist())
    assert quiet is not None
    assert loud is not None
    assert 0 < quiet < 0.01 < loud


def test_the_noise_floor_needs_enough_positive_values() -> None:
    assert noise_floor([1.0, 1.0, 1.0]) is None
    assert noise_floor([0.0] * 10) is None


@pytest.mark.parametrize(
    ("ratio", "floor", "runs", "expected"),
    [
        (None, None, 10, "no data"),
        (Interval(0.9, 0.85, 0.95), 0.02, 10, "lower"),
        (Interval(1.1, 1.05, 1.15), 0.02, 10, "higher"),
        (Interval(1.1, 1.05, 1.15), None, 10, "higher"),
        (Interval(0.9, 0.85, 1.01), 0.02, 10, "no difference seen"),
        (Interval(0.99, 0.985, 0.995), 0.02, 10, "no difference seen"),
        (Interval(0.5, 0.4, 0.6), None, 2, "too few runs"),
    ],
)
def test_verdicts(ratio: Interval | None, floor: float | None, runs: int, expected: str) -> None:
    assert verdict(ratio, floor, runs) == expected


def test_equal_managers_are_rarely_called_different() -> None:
    rng = np.random.default_rng(7)
    wrong = 0
    for trial in range(200):
        base = rng.normal(1, 0.05, 20).tolist()
        other = rng.normal(1, 0.05, 10).tolist()
        word = verdict(ratio_interval(other, base, trial), noise_floor(base, trial), 10)
        wrong += word != "no difference seen"
    assert wrong <= 12, f"{wrong} of 200 equal pairs were called different"


def test_a_clear_difference_is_found() -> None:
    rng = np.random.default_rng(8)
    base = rng.normal(1, 0.01, 20).tolist()
    faster = rng.normal(0.9, 0.01, 10).tolist()
    assert verdict(ratio_interval(faster, base), noise_floor(base), 10) == "lower"


def test_fewest_for_interval_is_where_a_median_interval_first_exists() -> None:
    n = statistics.FEWEST_FOR_INTERVAL
    assert 1 - 2.0 ** (1 - n) >= statistics.CONFIDENCE > 1 - 2.0 ** (2 - n)
