"""Lower-bound overhead: the estimator against known answers, and whole studies."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.base.errors import UsageError
from tare.memory_managers.runtimes import Pause
from tare.programs.iterations import Iteration
from tare.records.results import load
from tare.studies.lbo.observe import steady_work, whole_run
from tare.studies.lbo.question import _epsilon, lbo, lbo_replayed
from tare.studies.lbo.report import overheads, section
from tests.conftest import Completed
from tests.end_to_end.test_cli import start, wait_until
from tests.native.runtimes.test_jvm import classes, needs_java
from tests.studies.test_minheap import known

__all__ = ["classes"]
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


def summary_of(path: Path) -> dict[tuple[str, str], Any]:
    rows = json.loads(path.read_text())["summary"]
    return {(row["manager"], row["metric"]): row for row in rows}


@needs_java
def test_collectors_of_a_jvm(tare: Callable[..., Completed], classes: Path, tmp_path: Path) -> None:
    """12 MiB live: one heap is too small, which is an answer and no failure."""
    done = tare(
        *("lbo", "-m", "jvm.serial", "-m", "jvm.parallel", "--least-heap", "8MiB"),
        *("--heaps", "1,8", "-n", 2, "--warmup", 0, "--json", "out.json", "-o", "r"),
        *("--", "java", "-cp", classes, "Churn", 60, 12),
    )
    assert done.returncode == 0, done.stderr
    assert "out of memory" in done.stdout
    rows = summary_of(tmp_path / "out.json")
    ratios = {
        name: row["median"] for (name, metric), row in rows.items() if metric.startswith("lbo")
    }
    assert set(ratios) == {"jvm.serial(heap=64MiB)", "jvm.parallel(heap=64MiB)"}
    assert all(ratio >= 1 for ratio in ratios.values())
    assert (tmp_path / "r" / "report.html").stat().st_size > 1000
    again = tare(
        *("lbo", "-m", "jvm.serial", "-m", "jvm.parallel", "--least-heap", "8MiB"),
        *("--heaps", "1,8", "-n", 2, "--warmup", 0, "-o", "r", "--no-page"),
        *("--", "java", "-cp", classes, "Churn", 60, 12),
    )
    assert again.returncode == 0
    assert len((tmp_path / "r" / "runs.jsonl").read_text().splitlines()) == len(
        {line["order"] for line in map(json.loads, (tmp_path / "r" / "runs.jsonl").open())}
    )


def test_a_heap_without_collections_has_room_for_what_logs_round_off() -> None:
    """Where each collection is "1M->1M" in a log of whole MiB, nothing seems to be allocated."""
    found = {"heap_allocated_bytes": 0.0, "collections": 30.0}
    assert _epsilon(found) == "jvm.epsilon(heap=39MiB)"
    assert _epsilon({"heap_allocated_bytes": 2.0**60, "collections": 0.0}) == ""


@needs_java
def test_the_unit_of_heaps_is_sought(tmp_path: Path, classes: Path) -> None:
    command = ["java", "-cp", str(classes), "Churn", "60", "8"]
    results = lbo(command, heaps=(3.0,), runs=1, warmup=0, folder=tmp_path / "r")
    least = results.run["least_heap_bytes"]
    assert 8 << 20 < least <= 24 << 20
    managers = [point["manager"] for point in results.run["points"]]
    assert f"jvm.serial(heap={3 * least >> 20}MiB)" in managers
    assert any(manager.startswith("jvm.epsilon(heap=") for manager in managers)
    assert (tmp_path / "r-least-heap" / "runs.jsonl").exists()
    assert section(results).tables


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@needs_java
def test_an_interrupted_study_goes_on_without_loss(classes: Path, tmp_path: Path) -> None:
    """Interrupted in the search for the unit of heaps, and among the runs: what was done is kept,
    in its order, and nothing is done again."""
    command = ["lbo", "-m", "jvm.serial", "-m", "jvm.parallel", "--heaps", "2,4", "-n", "2"]
    command += ["--warmup", "1", "--seed", "7", "--no-page", "-o", "r"]
    command += ["--", "java", "-cp", str(classes), "Churn", "60", "8"]
    trials = tmp_path / "r-least-heap" / "trials.jsonl"
    runs = tmp_path / "r" / "runs.jsonl"
    kept = []
    for log in (trials, runs):
        study = start(*command, cwd=tmp_path)
        wait_until(lambda log=log: len(lines_of(log)) >= 3, log.name)  # type: ignore[misc]
        study.send_signal(signal.SIGINT)
        said = study.communicate()[1]
        assert study.returncode == 130, said
        kept.append(lines_of(log))
    done = start(*command, cwd=tmp_path)
    said = done.communicate()[1]
    assert done.returncode == 0, said
    tried = [(t["details"]["trial"]["heap_bytes"], t["status"]) for t in map(json.loads, kept[0])]
    (search,) = map(json.loads, lines_of(tmp_path / "r-least-heap" / "runs.jsonl"))
    assert [(size, status) for size, status, _ in search["details"]["trials"]][
        : len(tried)
    ] == tried
    final = lines_of(runs)
    assert final[: len(kept[1])] == kept[1]
    rounds = [json.loads(line) for line in final]
    assert sorted(each["order"] for each in rounds) == list(range(1, len(rounds) + 1))
    managers = {each["manager"] for each in rounds}
    baseline = load(tmp_path / "r").run["baseline"]
    counts = Counter((each["manager"], each["warmup"]) for each in rounds)
    assert counts == {
        (manager, warmup): 1 if warmup else 4 if manager == baseline else 2
        for manager in managers
        for warmup in (True, False)
    }
    assert len(managers) == 4


def test_a_native_program_under_marksweep(tare: Callable[..., Completed], tmp_path: Path) -> None:
    done = tare(
        *("lbo", "-m", "glibc", "-m", "marksweep(glibc, every=256KiB)", "-n", 2, "--warmup", 0),
        *("--json", "out.json", "--", "gawk"),
        "BEGIN { for (i = 0; i < 60000; ++i) a[i % 1000] = a[i % 1000] i; print length(a[1]) }",
    )
    assert done.returncode == 0, done.stderr
    rows = summary_of(tmp_path / "out.json")
    assert rows["glibc", "lbo_wall_ratio"]["median"] >= 1
    assert rows["marksweep(glibc, every=256KiB)", "stopped_wall_seconds"]["median"] > 0
    assert rows["marksweep(glibc, every=256KiB)", "stopped_cpu_seconds"]["median"] > 0
    assert rows["marksweep(glibc, every=256KiB)", "lbo_cpu_ratio"]["median"] >= 1


def test_a_trace(tmp_path: Path) -> None:
    results = lbo_replayed(
        known(tmp_path / "t.tare"),
        ["semispace", "glibc"],
        heaps=(1.2, 4.0),
        runs=2,
        warmup=0,
        folder=tmp_path / "r",
    )
    statuses = dict(results.measurements.select("manager", "status").unique().rows())
    small, large = (
        point["manager"] for point in results.run["points"] if point["collector"] == "semispace"
    )
    assert statuses[small] == "out-of-memory"
    assert statuses[large] == statuses["glibc"] == "ok"
    (table, *_) = [
        table for table in section(results).tables if table.identifier == "table-lbo-wall"
    ]
    assert "out of memory" in [cell.text for line in table.rows for cell in line]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--heaps", "0.5", "--", "java", "Main"], "heaps"),
        (["--heaps", "x", "--", "java", "Main"], "list of numbers"),
        (["-m", "jvm.g1(heap=8MiB)", "--", "java", "Main"], "leave out heap="),
        (["--death", "unreachable", "--", "java", "Main"], "for a recorded"),
        (["--", "java", "-Xmx8m", "Main"], "clashes"),
        (["nothing.tare"], "does not exist"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], arguments: list[str], said: str) -> None:
    done = tare("lbo", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_heaps_are_checked() -> None:
    with pytest.raises(UsageError, match="heaps"):
        lbo(["java", "Main"], heaps=())
