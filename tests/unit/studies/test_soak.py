"""Whether `tare soak` tells growth from a plateau."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tare.studies.soak.details import Look
from tare.studies.soak.report import _growth as growth_of
from tare.studykit.growth import GROWTH, PLATEAU, UNDECIDED, Growth, of_runs

MIB = 1 << 20


def looks(memory: Callable[[int], float], number: int = 200) -> list[Look]:
    return [Look(round + 1, memory(round), 0) for round in range(number)]


@pytest.mark.parametrize(
    ("memory", "word"),
    [
        (lambda _round: 100 * MIB, PLATEAU),
        (lambda round: 100 * MIB + round * 16384, GROWTH),
        (lambda round: 100 * MIB * (1 - 0.5 ** (round / 10)), PLATEAU),
        (lambda round: 100 * MIB - round * 65536, PLATEAU),
        (lambda round: 100 * MIB + MIB * (round // 10), GROWTH),
        # What has doubled once, early, does not grow any more.
        (lambda round: (200 if round > 30 else 100) * MIB, PLATEAU),
    ],
)
def test_growth_is_told_from_a_plateau(memory: Callable[[int], float], word: str) -> None:
    assert growth_of(looks(memory)).word == word


def test_noise_is_no_growth() -> None:
    def noisy(seed: int) -> list[Look]:
        noise = np.random.default_rng(seed).normal(size=200)
        return looks(lambda round: 100 * MIB * (1 + 0.02 * noise[round]))

    assert all(growth_of(noisy(seed)).word != GROWTH for seed in range(40))


def test_the_slope_is_in_bytes_a_round() -> None:
    found = growth_of(looks(lambda round: 100 * MIB + round * 16384))
    assert (found.low, found.slope, found.high) == pytest.approx((16384, 16384, 16384))


def test_few_looks_say_nothing() -> None:
    assert growth_of(looks(lambda round: MIB * round, number=10)) == Growth(UNDECIDED)
    assert growth_of([]) == Growth(UNDECIDED)


def test_runs_must_agree() -> None:
    grows, stays = Growth(GROWTH, 2.0, 1.0, 3.0), Growth(PLATEAU, 0.0, -1.0, 0.5)
    assert of_runs([grows, grows]) == grows
    assert of_runs([grows, stays]) == Growth(UNDECIDED, 1.0, -1.0, 3.0)
    assert of_runs([Growth(UNDECIDED)]) == Growth(UNDECIDED)
