"""The comparison as a pure plan, and its summary on rows whose answer is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.campaign.rounds import FAILURES_ALLOWED, Plan, planned_runs
from tare.records.metrics import Status
from tare.records.results import measurement_schema
from tare.records.runs import Outcome, Record
from tare.records.summary import geometric_means, summarise
from tare.studies.compare.report import findings, next_round

PLAN = Plan(("p", "q"), ("glibc", "fast", "slow"), "glibc", runs=4, warmup=1, seed=9)
Measure = Callable[[str, int], Outcome]


def good(manager: str, order: int) -> Outcome:
    walls = {"glibc": 1.0, "fast": 0.8, "slow": 1.3}
    return Outcome(Status.OK, values={"wall_seconds": walls[manager] * (1 + 0.001 * (order % 5))})


def carry_out(plan: Plan, measure: Measure = good, stop_after: int = 10_000) -> list[Record]:
    records: list[Record] = []
    while runs := next_round(plan, records):
        for run in runs:
            if len(records) == stop_after:
                return records
            records.append(Record(run, measure(run.manager, run.order)))
    return records


def counts(records: list[Record], program: str, warmup: bool = False) -> Counter[str]:
    return Counter(
        r.run.manager for r in records if r.run.program == program and r.run.warmup == warmup
    )


def test_every_manager_gets_its_runs_and_the_baseline_twice_as_many() -> None:
    records = carry_out(PLAN)
    for program in PLAN.programs:
        assert counts(records, program) == {"glibc": 8, "fast": 4, "slow": 4}
        assert counts(records, program, warmup=True) == {"glibc": 1, "fast": 1, "slow": 1}
    assert len(records) == planned_runs(PLAN)
    assert [r.run.order for r in records] == list(range(1, len(records) + 1))


def test_runs_are_interleaved() -> None:
    order = [r.run.manager for r in carry_out(PLAN) if r.run.program == "p" and not r.run.warmup]
    for start in range(0, len(order), 4):
        assert Counter(order[start : start + 4]) == {"glibc": 2, "fast": 1, "slow": 1}
    assert len({tuple(order[i : i + 4]) for i in range(0, 16, 4)}) > 1, "always the same order"


def test_the_order_depends_on_the_seed_alone() -> None:
    def order(seed: int) -> list[str]:
        plan = Plan(("p",), PLAN.managers, "glibc", runs=8, seed=seed)
        return [r.run.manager for r in carry_out(plan)]

    assert order(1) == order(1)
    assert order(1) != order(2)


@given(st.integers(0, 40))
@settings(max_examples=20, deadline=None)
def test_an_interrupted_study_ends_with_the_same_counts(stop: int) -> None:
    records = carry_out(PLAN, stop_after=stop)
    while runs := next_round(PLAN, records):
        records += [Record(run, good(run.manager, run.order)) for run in runs]
    for program in PLAN.programs:
        assert counts(records, program) == {"glibc": 8, "fast": 4, "slow": 4}


def test_a_failing_manager_is_given_up_and_the_others_go_on() -> None:
    def measure(manager: str, order: int) -> Outcome:
        return Outcome(Status.FAILED) if manager == "slow" else good(manager, order)

    records = carry_out(PLAN, measure)
    tries = counts(records, "p") + counts(records, "p", warmup=True)
    assert tries["slow"] == FAILURES_ALLOWED
    assert counts(records, "p")["fast"] == 4


def test_precision_measures_until_the_interval_is_narrow() -> None:
    def noisy(manager: str, order: int) -> Outcome:
        spread = 1 + 0.2 * ((order * 7919) % 10) / 10
        return Outcome(Status.OK, values={"wall_seconds": spread})

    narrow = Plan(("p",), ("glibc", "fast"), "glibc", runs=6, precision=0.01, most_runs=40)
    assert counts(carry_out(narrow, good), "p")["fast"] == 6
    capped = counts(carry_out(narrow, noisy), "p")
    assert 6 < capped["fast"] <= 40


def frame(rows: list[tuple[str, str, int, str, float | None, str]]) -> pl.DataFrame:
    full = [
        ("compare", program, manager, index, order, metric, value, "s", status, "executed")
        for order, (program, manager, index, metric, value, status) in enumerate(rows)
    ]
    return pl.DataFrame(full, schema=measurement_schema(), orient="row")


def walls(
    program: str, manager: str, values: list[float]
) -> list[tuple[str, str, int, str, float, str]]:
    return [(program, manager, i, "wall_seconds", v, "ok") for i, v in enumerate(values)]


def found(rows: list[tuple[str, str, int, str, float, str]]) -> list[str]:
    return findings(frame(list(rows)), "glibc", 1)


GLIBC = [1.0, 1.01, 0.99, 1.0, 1.0, 1.0, 1.02, 0.98, 1.0, 1.0, 1.01, 0.99]


def test_a_comparison_says_who_was_fastest() -> None:
    glibc = walls("p", "glibc", GLIBC)
    fast = walls("p", "fast", [0.8, 0.81, 0.8, 0.8, 0.8, 0.79])
    slow = walls("p", "slow", [1.3, 1.31, 1.3, 1.3, 1.3, 1.29])
    (sentence,) = found(glibc + fast + slow)
    assert sentence.startswith("fast was fastest: 20% less wall time (")
    assert sentence.endswith("than glibc.")
    assert found(glibc + slow) == ["Keep glibc for speed: no other allocator needs less wall time."]
    assert found(glibc) == []
    few = walls("p", "glibc", [1.0, 1.01]) + walls("p", "fast", [0.8, 0.81])
    assert found(few) == [
        "Cannot tell whether another allocator is faster than glibc.",
        "Wall time cannot tell: there were 2 runs under each manager, and a verdict takes 6.",
    ]
    both = [row for p in "pq" for row in walls(p, "glibc", [1.0] * 6) + walls(p, "fast", [0.5] * 6)]
    (sentence,) = found(both)
    assert sentence.startswith("fast was fastest in the mean of 2 programs: 50% less wall time")


@pytest.mark.parametrize(
    ("other", "kind"),
    [("./lib.so(a=1)", "allocator"), ("jvm.g1(heap=64MiB)", "manager"), ("go.off", "manager")],
)
def test_settings_of_runtimes_are_no_allocators(other: str, kind: str) -> None:
    slow = walls("p", other, [1.3, 1.31, 1.3, 1.3, 1.3, 1.29])
    assert found(walls("p", "glibc", GLIBC) + slow) == [
        f"Keep glibc for speed: no other {kind} needs less wall time."
    ]


def test_a_summary_of_known_rows() -> None:
    rows = [
        *walls("p", "glibc", GLIBC),
        *walls("p", "fast", [0.8, 0.81, 0.79, 0.8, 0.8, 0.82]),
        *walls("p", "same", [1.0, 1.01, 0.99, 1.0, 1.0, 1.02]),
        ("p", "broken", 0, "wall_seconds", None, "failed"),
    ]
    summary = {r["manager"]: r for r in summarise(frame(rows), "glibc", 1).iter_rows(named=True)}
    assert summary["glibc"]["verdict"] == "baseline"
    assert summary["fast"]["verdict"] == "lower"
    assert summary["fast"]["ratio"] == pytest.approx(0.8)
    assert summary["fast"]["runs"] == 6
    assert summary["same"]["verdict"] == "no difference seen"
    assert summary["broken"]["verdict"] == "no data"
    assert summary["broken"]["median"] is None
    assert summary["broken"]["runs"] == 0


def test_a_failed_baseline_leaves_medians_without_ratios() -> None:
    rows = [*walls("p", "fast", [1.0] * 6), ("p", "glibc", 0, "wall_seconds", None, "failed")]
    summary = {r["manager"]: r for r in summarise(frame(rows), "glibc", 1).iter_rows(named=True)}
    assert summary["fast"]["median"] == 1.0
    assert summary["fast"]["ratio"] is None
    assert summary["fast"]["verdict"] == "no data"


def test_means_are_over_the_programs_that_all_managers_ran() -> None:
    rows = [
        *walls("p", "glibc", [1.0] * 4),
        *walls("p", "fast", [0.5] * 4),
        *walls("q", "glibc", [1.0] * 4),
        *walls("q", "fast", [2.0] * 4),
        *walls("r", "glibc", [1.0] * 4),
        ("r", "fast", 0, "wall_seconds", None, "failed"),
    ]
    means = geometric_means(frame(rows), ["wall_seconds"], "glibc", 1)
    fast = means.filter((pl.col("manager") == "fast") & (pl.col("metric") == "wall_seconds"))
    assert fast["ratio"].to_list() == [pytest.approx(1.0)]
    assert fast["programs"].to_list() == [2]


@pytest.mark.parametrize(("managers", "runs", "expected"), [("a", 1, 1), ("a", 2, 4), ("ab", 1, 3)])
def test_the_baseline_runs_twice_where_something_is_compared(
    managers: str, runs: int, expected: int
) -> None:
    plan = Plan(("p",), tuple(managers), "a", runs=runs, warmup=0)
    assert planned_runs(plan) == expected
