"""The verdict of `tare weigh`: what it advises on measurements whose answer is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from tare.base.documents import converted
from tare.records.header import DescribedManager, Header
from tare.studies.compare import weigh as time_and_memory
from tare.studies.compare.weigh import expected_seconds, next_runs, plan, verdict
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting, shares
from tare.weighing.sections import sections
from tests.support.campaigns import described

_HEADER = converted(described("weigh", ["p"], ["glibc"]), Header)
RUN = structs.replace(
    _HEADER,
    programs=(structs.replace(_HEADER.programs[0], argv=("./p", "an argument")),),
    managers={
        **_HEADER.managers,
        "fast": DescribedManager("1", "/lib/fast one.so", {"CONF": "a:1"}),
        "small": DescribedManager("1", "/lib/small.so", {}),
    },
)
Row = dict[str, Any]


def row(ratio: float | None, word: str, runs: int = 10, floor: float | None = 0.01) -> Row:
    spread = None if ratio is None else 0.01
    return {
        "median": None if ratio is None else ratio * 2,
        "unit": "s",
        "runs": runs if ratio is not None else 0,
        "ratio": ratio,
        "ratio_low": None if ratio is None or spread is None else ratio - spread,
        "ratio_high": None if ratio is None or spread is None else ratio + spread,
        "noise_floor": floor,
        "verdict": word,
    }


def rows(**managers: tuple[Row, Row]) -> dict[tuple[str, str, str], Row]:
    found = {
        ("p", "glibc", "wall_seconds"): row(1.0, "baseline"),
        ("p", "glibc", "peak_resident_bytes"): row(1.0, "baseline"),
    }
    for name, (time, memory) in managers.items():
        found["p", name, "wall_seconds"] = time
        found["p", name, "peak_resident_bytes"] = memory
    return found


def test_the_fastest_is_advised_with_what_it_costs_in_memory() -> None:
    fast = (row(0.8, "lower"), row(1.2, "higher"))
    small = (row(0.9, "lower"), row(0.7, "lower"))
    sentences, commands = verdict(RUN, rows(fast=fast, small=small))
    assert sentences[0] == (
        "Run it under fast: 20% less time (19% to 21%), 20% more memory (19% to 21%)."
    )
    assert sentences[1].startswith("For the least memory: small, 30% less memory")
    assert "10 runs under each manager" in sentences[-1]
    assert commands[0] == (
        "to run it under fast",
        "CONF=a:1 LD_PRELOAD='/lib/fast one.so' ./p 'an argument'",
    )
    assert commands[1][1].startswith("LD_PRELOAD=/lib/small.so ")


def test_of_two_that_are_as_fast_the_smaller_is_advised() -> None:
    fast = (row(0.8, "lower"), row(1.2, "higher"))
    small = (row(0.805, "lower"), row(0.7, "lower"))
    sentences, _ = verdict(RUN, rows(fast=fast, small=small))
    assert sentences[0].startswith("Run it under small: ")
    assert "fast is as fast within the noise" in sentences[0]


def test_noise_is_not_advice() -> None:
    same = (row(0.99, "no difference seen"), row(1.0, "no difference seen"))
    sentences, commands = verdict(RUN, rows(fast=same))
    assert sentences[0].startswith("Keep glibc")
    assert commands == []


def test_few_runs_are_admitted() -> None:
    fast = (row(0.8, "lower", runs=3), row(0.9, "lower", runs=3))
    sentences, _ = verdict(RUN, rows(fast=fast))
    assert "too few runs for a 95% interval" in sentences[-1]


@pytest.mark.parametrize("others", [{}, {"fast": (row(None, "no data"), row(None, "no data"))}])
def test_nothing_to_compare(others: dict[str, tuple[Row, Row]]) -> None:
    sentences, commands = verdict(RUN, rows(**others))
    assert sentences == ["No other allocator could be measured."]
    assert commands == []


def test_a_failing_program_gets_no_verdict() -> None:
    failing = {("p", "glibc", "wall_seconds"): row(None, "no data")}
    sentences, _ = verdict(RUN, failing)
    assert "no good run under glibc" in sentences[0]


MANAGERS = ("glibc", "jemalloc", "mimalloc", "snmalloc", "tcmalloc")


def setting(effort: Effort, seconds: float) -> Setting:
    return Setting("p", MANAGERS, "glibc", effort, seconds, TOTAL_SECONDS[effort], seed=1)


@pytest.mark.parametrize(("effort", "most_seconds"), [(Effort.QUICK, 20), (Effort.DEFAULT, 120)])
def test_a_program_of_one_second_keeps_to_the_promised_time(
    effort: Effort, most_seconds: float
) -> None:
    assert expected_seconds(setting(effort, 1.0)) <= most_seconds - 1.0  # the pilot run
    assert plan(setting(effort, 1.0)).runs >= 3


def test_a_short_program_is_not_run_without_end() -> None:
    assert plan(setting(Effort.DEFAULT, 0.0001)).runs <= 20


def test_a_long_program_still_gets_its_fewest_runs() -> None:
    assert plan(setting(Effort.DEFAULT, 600.0)).runs == 3


def test_thorough_goes_on_until_the_interval_is_narrow() -> None:
    assert plan(setting(Effort.THOROUGH, 1.0)).precision == 0.01


def test_managers_that_were_asked_for_are_kept() -> None:
    asked = replace(setting(Effort.QUICK, 1.0), managers_asked=True)
    assert plan(asked).managers == MANAGERS


def test_quick_tries_fewer_managers_and_the_plan_starts() -> None:
    quick = setting(Effort.QUICK, 1.0)
    assert plan(quick).managers == ("glibc", "jemalloc", "mimalloc")
    assert {run.manager for run in next_runs(quick, [])} == set(plan(quick).managers)


@pytest.mark.parametrize(("effort", "most_seconds"), [(Effort.QUICK, 20), (Effort.DEFAULT, 120)])
@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.3, 1.0])
def test_all_sections_together_keep_to_the_promised_time(
    effort: Effort, most_seconds: float, seconds: float
) -> None:
    found = sections()
    settings = shares(found, setting(effort, seconds))
    total = sum(s.expected_seconds(each) for s, each in zip(found, settings, strict=True))
    assert total <= most_seconds - seconds
    assert found[0].expected_runs(settings[0]) > 0


@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 5.0, 30.0])
def test_as_many_sections_run_as_the_time_allows(seconds: float) -> None:
    found = sections()
    whole = setting(Effort.DEFAULT, seconds)
    run = [bool(s.expected_runs(each)) for s, each in zip(found, shares(found, whole), strict=True)]
    equal = replace(whole, budget_seconds=whole.budget_seconds / len(found))
    assert run[0]
    assert sum(run) >= sum(bool(section.expected_runs(equal)) for section in found)
    for parts in range(1, len(found) + 1):
        part = replace(whole, budget_seconds=whole.budget_seconds / parts)
        assert sum(run) >= min(parts, sum(bool(each.expected_runs(part)) for each in found))


def test_sections_are_found_by_being_there() -> None:
    assert time_and_memory.IDENTIFIER in [each.IDENTIFIER for each in sections()]
