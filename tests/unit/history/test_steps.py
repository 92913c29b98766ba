"""At which commits `tare history` sees a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tare.history import steps


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100, 100, 105, 105], [2]),
        ([100, 105, 100], [1, 2]),
        ([100, 100.4, 100.8, 101.2, 101.6], [3]),
        ([100, 100.5, 99.6], []),
        ([0, 0, 4], [2]),
        ([4, 0], [1]),
        ([], []),
    ],
)
def test_a_count_changes_at_one_commit_or_creeps(
    values: Sequence[float], expected: Sequence[int]
) -> None:
    assert steps.of_counts(values, 0.01) == expected


def noisy(random: np.random.Generator, number: int, jump: float = 0.0) -> list[float]:
    values = 3 * np.exp(random.normal(0, 0.02, number))
    values[number // 2 :] *= 1 + jump
    return [float(value) for value in values]


@pytest.mark.thorough
def test_noise_is_no_step_and_a_lasting_change_is() -> None:
    pytest.importorskip("ruptures", reason="ruptures 1.1.10 refuses Python 3.14")
    random = np.random.default_rng(5)
    for number in (10, 50):
        false = sum(bool(steps.of_measurements(noisy(random, number), 0.01)) for _ in range(400))
        assert false <= 12
    seen = [steps.of_measurements(noisy(random, 50, 0.1), 0.01) for _ in range(100)]
    assert sum(len(found) == 1 and abs(found[0] - 25) <= 1 for found in seen) >= 95


def test_few_commits_and_zeros_have_no_step() -> None:
    assert steps.of_measurements([1.0, 1.0, 2.0, 2.0], 0.01) == []
    assert steps.of_measurements([0.0, 1.0, 2.0, 2.0, 2.0, 2.0], 0.01) == []
