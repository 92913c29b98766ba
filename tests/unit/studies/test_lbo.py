"""Lower-bound overhead: the estimator against known answers."""

from __future__ import annotations

import numpy as np
import pytest

from tare.base.errors import UsageError
from tare.memory_managers.runtimes import Pause
from tare.programs.iterations import Iteration
from tare.studies.lbo.observe import steady_work, whole_run
from tare.studies.lbo.question import _epsilon, lbo
from tare.studies.lbo.report import overheads

BASE = 2.0
COSTS = {"a": (0.1, 0.3), "b": (0.4, 0.02), "c": (0.0, 0.25), "d": (1.5, 0.6)}
"""By manager what it costs in pauses, and beside them, in seconds; "b" has least beside them."""


def measured(noise: float, runs: int, seed: int) -> dict[str, list[tuple[float, float]]]:
    rng = np.random.default_rng(seed)
    found = {}
    for name, (stopped, beside) in COSTS.items():
        factors = np.exp(rng.normal(0, noise, runs)) if noise else np.ones(runs)
        found[name] = [((BASE + beside + stopped) * f, stopped * f) for f in factors]
    return found


def true_ratio(name: str) -> float:
    stopped, beside = COSTS[name]
    return (BASE + beside + stopped) / (BASE + COSTS["b"][1])


def test_without_noise_the_ratios_are_exact() -> None:
    found = overheads(measured(0, 8, 1), seed=1)
    assert found is not None
    assert found.distilled.manager == "b"
    assert found.distilled.cost.median == pytest.approx(BASE + 0.02)
    for name, ratio in found.ratios.items():
        assert ratio.median == ratio.low == ratio.high == pytest.approx(true_ratio(name))


def test_the_distilled_cost_bounds_what_memory_management_costs() -> None:
    """It is more than the cost of the program alone, so each ratio is less than the true one."""
    found = overheads(measured(0, 8, 1), seed=1)
    assert found is not None
    for name, ratio in found.ratios.items():
        stopped, beside = COSTS[name]
        assert 1 <= ratio.median <= (BASE + beside + stopped) / BASE


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    held = total = 0
    for seed in range(60):
        found = overheads(measured(0.03, 12, seed), seed)
        assert found is not None
        for name, ratio in found.ratios.items():
            total += 1
            held += ratio.holds(true_ratio(name))
    assert held / total >= 0.9


def test_luck_does_not_set_the_baseline() -> None:
    """Of many managers alike, the luckiest single run is far below what all of them cost."""
    rng = np.random.default_rng(3)
    runs = {
        f"m{number}": [(float(value), 0.0) for value in rng.normal(1.0, 0.05, 10)]
        for number in range(25)
    }
    found = overheads(runs, seed=1)
    assert found is not None
    luckiest = min(cost for values in runs.values() for cost, _ in values)
    assert luckiest < 0.88
    assert found.distilled.cost.median > 0.95


def test_few_runs_give_the_extremes() -> None:
    found = overheads({"a": [(2.0, 1.0), (2.2, 1.0)], "b": [(3.0, 0.0), (4.0, 0.0)]}, seed=1)
    assert found is not None
    assert found.distilled.manager == "a"
    assert found.distilled.cost.low == 1.0
    assert found.distilled.cost.high == pytest.approx(1.2)
    assert found.ratios["b"].low == pytest.approx(3.0 / 1.2)
    assert found.ratios["b"].high == pytest.approx(4.0)


def test_a_manager_without_a_run_has_no_overhead() -> None:
    found = overheads({"a": [(2.0, 1.0)], "b": []}, seed=1)
    assert found is not None
    assert list(found.ratios) == ["a"]
    assert overheads({"a": []}, seed=1) is None


def test_the_work_is_a_steady_iteration() -> None:
    second = 10**9
    walls = [4, 3, 2, 2, 2, 2, 2, 2, 2, 2]
    starts = np.cumsum([0, *walls])
    reported = [
        Iteration(int(start) * second, (int(start) + wall) * second, wall * second // 2)
        for start, wall in zip(starts, walls, strict=False)
    ]
    # In every steady iteration a pause of a quarter of a second, and a safepoint for nothing.
    pauses = [
        pause
        for each in reported
        for pause in (
            Pause(each.start_ns + 5, each.start_ns + 5 + second // 4, "x", 1, second // 5),
            Pause(each.end_ns - second, each.end_ns - second // 2, "other"),
        )
    ]
    work, first = steady_work(reported, pauses)
    assert first == 1  # three iterations from there on take 2 s in the middle
    assert (work.wall, work.cpu) == (2.0, 1.0)
    assert work.stopped_wall == pytest.approx(0.25)
    assert work.stopped_cpu == pytest.approx(0.2)


def test_a_pause_across_the_end_of_an_iteration_counts_in_part() -> None:
    reported = [Iteration(0, 1000, 500)]
    work, first = steady_work(reported, [Pause(900, 1100, "x", 0, 100)])
    assert first is None
    assert work.stopped_wall == pytest.approx(100e-9)
    assert work.stopped_cpu == pytest.approx(50e-9)


def test_what_is_not_known_is_left_out() -> None:
    values = {"wall_seconds": 3.0, "user_seconds": 2.0, "system_seconds": 0.5}
    assert whole_run(values).values() == {
        "work_wall_seconds": 3.0,
        "stopped_wall_seconds": 0.0,
        "work_cpu_seconds": 2.5,
        "stopped_cpu_seconds": 0.0,
    }
    swept = whole_run({**values, "collector_seconds": 1.0})
    assert swept.values() == {"work_wall_seconds": 3.0, "stopped_wall_seconds": 1.0}


def test_a_heap_without_collections_has_room_for_what_logs_round_off() -> None:
    """Where each collection is "1M->1M" in a log of whole MiB, nothing seems to be allocated."""
    found = {"heap_allocated_bytes": 0.0, "collections": 30.0}
    assert _epsilon(found) == "jvm.epsilon(heap=39MiB)"
    assert _epsilon({"heap_allocated_bytes": 2.0**60, "collections": 0.0}) == ""


def test_heaps_are_checked() -> None:
    with pytest.raises(UsageError, match="heaps"):
        lbo(["java", "Main"], heaps=())
