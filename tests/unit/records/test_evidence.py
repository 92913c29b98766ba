"""What is said of simulated machines whose answer is known: how often it is false, and how soon a
true difference is named. Each machine is drawn from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl
import pytest

from tare.base.statistics import Floats, round_interval, rounds_needed
from tare.records.evidence import (
    CLAIMS,
    COUNTED,
    ERROR,
    SAME,
    Judged,
    Runs,
    counted,
    error_of,
    evidence,
    judge,
)
from tare.records.results import measurement_schema

pytestmark = pytest.mark.thorough

Noise = Callable[[np.random.Generator, int], Floats]


def _bursts(rng: np.random.Generator, count: int) -> Floats:
    busy = np.repeat(rng.choice([0.0, 1.0], count // 10 + 1, p=[0.8, 0.2]), 10)[:count]
    return busy + rng.normal(0, 0.03, count)


NOISE: Mapping[str, Noise] = {
    "calm": lambda rng, n: rng.normal(0, 0.01, n),
    "noisy": lambda rng, n: rng.normal(0, 0.3, n),
    "heavy-tailed": lambda rng, n: np.abs(rng.standard_t(1.5, n)) * 0.05,
    "bimodal": lambda rng, n: rng.choice([0.0, 0.4], n) + rng.normal(0, 0.01, n),
    "drifting": lambda rng, n: np.linspace(0, 0.5, n) + rng.normal(0, 0.03, n),
    "wandering": lambda rng, n: np.cumsum(rng.normal(0, 0.05, n)) + rng.normal(0, 0.03, n),
    "bursts": _bursts,
    "two values": lambda rng, n: rng.choice([0.0, 0.2], n),
}
"""Of the logarithms of the values, in the order of measurement."""
MANAGERS = 4
BILLS = 150


def bill(noise: Noise, rng: np.random.Generator, rounds: int) -> tuple[Runs, list[Runs]]:
    """The baseline's runs and those of the other managers, all the same, in rounds of random
    order."""
    size = MANAGERS + 2
    drawn = np.exp(noise(rng, rounds * size)).reshape(rounds, size)
    shuffled = rng.permuted(drawn, axis=1)
    base = Runs(shuffled[:, :2].ravel().tolist(), range(2 * rounds))
    others = [Runs(shuffled[:, 2 + m].tolist(), range(rounds)) for m in range(MANAGERS)]
    return base, others


def scaled(runs: Runs, factor: float) -> Runs:
    return Runs([factor * value for value in runs.values], runs.invocations)


def is_false(judged: Judged) -> bool:
    """Of a manager against itself: a difference that is claimed, or one that is excluded though
    it is the truth."""
    excluded = judged.sure is not None and not judged.sure.holds(1.0)
    return judged.word in ("lower", "higher") or excluded


@pytest.mark.parametrize("rounds", [1, 3, 6, 10, 21])
@pytest.mark.parametrize("name", NOISE)
def test_a_manager_against_itself_is_called_different_in_one_bill_of_twenty(
    name: str, rounds: int
) -> None:
    rng = np.random.default_rng(7)
    false = 0
    for _ in range(BILLS):
        claims = []
        for metric in CLAIMS:
            base, others = bill(NOISE[name], rng, rounds)
            unit = "B" if "bytes" in metric else "s"
            claims += [judge(each, base, unit, error_of(MANAGERS)) for each in others]
        false += any(map(is_false, claims))
    allowed = ERROR * BILLS + 2.5 * (ERROR * (1 - ERROR) * BILLS) ** 0.5
    assert false <= allowed


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("rounds", [6, 10, 20])
def test_what_is_called_visible_is_seen(name: str, rounds: int) -> None:
    """In most bills: a difference as large as the judgement says is named, and in its direction."""
    rng = np.random.default_rng(8)
    seen, tried = 0, 0
    for _ in range(60):
        base, others = bill(NOISE[name], rng, rounds)
        before = judge(others[0], base, "s", error_of(MANAGERS))
        if before.visible is None or before.visible >= 0.99:
            continue
        tried += 1
        base, others = bill(NOISE[name], rng, rounds)
        after = judge(scaled(others[0], 1 - before.visible), base, "s", error_of(MANAGERS))
        seen += after.word == "lower"
        assert after.word != "higher"
    assert not tried or seen / tried >= 0.6


@pytest.mark.parametrize(
    ("name", "factor"),
    [("calm", 0.97), ("noisy", 0.4), ("bimodal", 0.5), ("drifting", 0.9), ("bursts", 0.8)],
)
def test_true_differences_are_named_from_ten_rounds_on(name: str, factor: float) -> None:
    rng = np.random.default_rng(9)
    named = 0
    for _ in range(60):
        base, others = bill(NOISE[name], rng, 10)
        found = judge(scaled(others[0], factor), base, "s", error_of(MANAGERS))
        named += found.word == "lower"
    assert named >= 48


@pytest.mark.parametrize("name", NOISE)
def test_keep_is_not_said_of_a_baseline_that_loses(name: str) -> None:
    """Where another manager saves twice what is called little."""
    rng = np.random.default_rng(10)
    false = 0
    for _ in range(BILLS):
        base, others = bill(NOISE[name], rng, 10)
        better = [scaled(others[0], 1 - 2 * SAME), *others[1:]]
        each = [judge(runs, base, "s", error_of(MANAGERS)) for runs in better]
        gains = [1 - judged.sure.low for judged in each if judged.sure]
        false += max(gains) <= SAME
    assert false <= ERROR * BILLS


def test_a_time_needs_runs_enough_for_an_interval() -> None:
    base = Runs([1.0] * 10, range(10))
    assert judge(Runs([0.5] * 5, range(5)), base, "s", error_of(1)).word == "too few runs"
    base = Runs([1.0] * 12, range(12))
    assert judge(Runs([0.5] * 6, range(6)), base, "s", error_of(1)).word == "lower"


def test_memory_that_is_steady_speaks_earlier() -> None:
    base = Runs([100.0, 101.0, 100.0, 102.0, 100.0, 101.0], range(6))
    assert judge(Runs([80.0, 81.0, 80.0], range(3)), base, "B", error_of(4)).word == "lower"
    assert judge(Runs([97.0, 99.0, 98.0], range(3)), base, "B", error_of(4)).word == "too few runs"
    assert judge(Runs([101.0, 99.0, 98.0], range(3)), base, "B", 0.01).word == "no difference seen"
    assert judge(Runs([80.0, 81.0], range(2)), base, "B", error_of(4)).word == "too few runs"


def test_bounds_of_rounds_are_those_of_the_ranks() -> None:
    """Of two rounds with one value and two of the baseline each, as one of two and four: one order
    of fifteen puts both values first."""
    rounds = [([1.0], [2.0, 3.0]), ([1.5], [2.0, 4.0])]
    found = round_interval(rounds, 2.01 / 15)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.25, 0.75))
    assert round_interval(rounds, 1.99 / 15) is None
    assert round_interval([([0.0], [1.0])] * 9, ERROR) is None
    assert round_interval([], ERROR) is None


def test_more_comparisons_need_more_rounds() -> None:
    assert rounds_needed(ERROR, 2) == 6
    assert rounds_needed(error_of(100), 2) > 6


def frame(rows: list[tuple[str, str, int, str, float]]) -> pl.DataFrame:
    full = [
        (study, "p", manager, index, order, metric, value, "", "ok", "executed")
        for order, (study, manager, index, metric, value) in enumerate(rows)
    ]
    return pl.DataFrame(full, schema=measurement_schema(), orient="row")


def test_instructions_that_were_counted_once_need_a_wide_difference() -> None:
    rows = [
        ("count", "glibc", 0, COUNTED, 100.0),
        ("count", "near", 0, COUNTED, 97.0),
        ("count", "far", 0, COUNTED, 59.0),
    ]
    found = counted(frame(rows), "p", "glibc")
    assert found.lower == ["far"]
    assert found.judged["near"].word == "no difference seen"
    assert found.visible == 0.05


def test_evidence_says_what_could_be_gained_at_most() -> None:
    rng = np.random.default_rng(3)
    base, others = bill(NOISE["calm"], rng, 20)
    rows = [
        ("compare", name, index, "wall_seconds", value)
        for name, runs in (("glibc", base), ("a", others[0]), ("b", others[1]))
        for index, value in zip(runs.invocations, runs.values, strict=True)
    ]
    found = evidence(frame(rows), "p", "glibc", "wall_seconds", 1)
    assert found.keeps
    assert found.most_gain is not None
    assert 0 < found.most_gain < 0.02
    assert found.lower == []
