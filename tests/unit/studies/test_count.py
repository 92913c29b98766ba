"""`tare count`: its plan, and its figures on records whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.base.errors import MissingError, TareError
from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.campaign.planning import Plan, planned_runs
from tare.observers import instrument
from tare.records.runs import Run
from tare.studies.count import report as study
from tare.studies.count import weigh as section
from tare.studies.count.details import Operation
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting
from tare.weighing.sections import sections


def test_without_the_instrument_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instrument, "LAUNCHER", "valgrind/missing")
    with pytest.raises(MissingError) as raised:
        api.count(["true"])
    assert raised.value.exit_code == 3
    assert "valgrind" in raised.value.message
    assert "apt-get install valgrind" in raised.value.hint


# ---- the parts that run nothing ----


def test_quantiles() -> None:
    operation = Operation(calls=100, fewest=7, most=5000, histogram=((7, 60), (20, 35), (4992, 5)))
    assert operation.quantile(0.5) == 7
    assert operation.quantile(0.95) == 20
    assert operation.quantile(0.96) == 4992


def test_counts_of_processes_are_added() -> None:
    def operation(calls: int, low: int) -> dict[str, Any]:
        return {"calls": calls, "instructions": calls * low, "bytes": 8, "no_object": 0, "left": 0,
                "fewest": low, "most": low, "histogram": [[low, calls]]}  # fmt: skip

    together = instrument.merged(
        [{"malloc": operation(2, 30)}, {"malloc": operation(3, 20), "free": operation(1, 9)}]
    )
    assert together["malloc"]["histogram"] == [[20, 3], [30, 2]]
    assert (together["malloc"]["fewest"], together["malloc"]["most"]) == (20, 30)
    assert together["malloc"]["instructions"] == 120
    assert together["free"]["calls"] == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "x"}', '{"format":"tare-count"}'])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.0.json").write_text(text)
    with pytest.raises((TareError, AttributeError)):
        instrument.read_counts(tmp_path)


def test_the_plan_counts_each_manager_twice() -> None:
    plan = Plan(("p",), ("a", "b"), study.RUNS_TO_SEE_REPETITION)
    assert [r.manager for r in study.next_round(plan, [])] == ["a", "b"]
    assert planned_runs(plan) == 4
    assert {r.observer for r in study.next_round(plan, [])} == {"instrument"}


def setting(effort: Effort, seconds: float) -> Setting:
    managers = ("glibc", "jemalloc", "mimalloc", "snmalloc", "tcmalloc")
    share = TOTAL_SECONDS[effort] / sum(not hasattr(each, "applies") for each in sections())
    return Setting("p", managers, "glibc", effort, seconds, share, seed=1)


@pytest.mark.parametrize(("effort", "most_seconds"), [(Effort.QUICK, 20), (Effort.DEFAULT, 120)])
@pytest.mark.parametrize("seconds", [0.01, 0.3, 1.0])
def test_all_sections_together_keep_to_the_promised_time(
    effort: Effort, most_seconds: float, seconds: float
) -> None:
    one = setting(effort, seconds)
    assert sum(each.expected_seconds(one) for each in sections()) + seconds <= most_seconds


def test_the_section_begins_with_the_baseline_and_is_bounded() -> None:
    (first,) = section.next_runs(setting(Effort.DEFAULT, 0.5), [])
    assert (first.manager, first.observer) == ("glibc", "instrument")
    assert section.expected_runs(setting(Effort.QUICK, 0.05)) == 2
    assert section.next_runs(setting(Effort.DEFAULT, 60.0), []) == []


def test_a_run_is_read_back_with_its_observer() -> None:
    assert Run("s", "p", "m", 0, 1).observer == "runner"
    assert FEWEST_FOR_INTERVAL > study.RUNS_TO_SEE_REPETITION


def test_histograms_become_figures() -> None:
    operation = Operation(calls=3, histogram=((12, 2), (4096, 1)))
    figure = study._histogram_figure("malloc", {"glibc": operation})
    rows = figure.spec["data"]["values"]
    assert [row["share"] for row in rows] == [0.6667, 0.3333]
    assert all(row["from"] < row["to"] for row in rows)
