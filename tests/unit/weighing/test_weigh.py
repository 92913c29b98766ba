"""The verdict of `tare weigh`: what it advises on measurements whose answer is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tare.base.statistics import Interval
from tare.records.evidence import Evidence, Judged
from tare.studies.compare import weigh as time_and_memory
from tare.studies.compare.verdicts import Comparison
from tare.studies.compare.weigh import expected_seconds, next_runs, plan, verdict
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting, shares
from tare.weighing.sections import sections

RUN: dict[str, Any] = {
    "baseline": "glibc",
    "programs": [{"name": "p", "argv": ["./p", "an argument"]}],
    "managers": {
        "glibc": {"object": None, "environment": {}},
        "fast": {"object": "/lib/fast one.so", "environment": {"CONF": "a:1"}},
        "small": {"object": "/lib/small.so", "environment": {}},
    },
}
ROWS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("p", "glibc", "wall_seconds"): {"runs": 20, "median": 2.0, "unit": "s", "noise_floor": 0.01}
}
Weighed = tuple[Judged, Judged]


def judged(ratio: float, word: str, runs: int = 10, spread: float = 0.01) -> Judged:
    interval = Interval(ratio, ratio - spread, ratio + spread)
    return Judged(word, interval, interval if runs >= 6 else None, runs, 6, 2 * spread)


def compared(**managers: Weighed) -> Comparison:
    walls = {name: wall for name, (wall, _) in managers.items()}
    memories = {name: memory for name, (_, memory) in managers.items()}
    times = [Evidence("wall_seconds", walls)] if walls else []
    return Comparison("glibc", times, Evidence("peak_resident_bytes", memories))


def weighed(compared: Comparison) -> tuple[list[str], list[tuple[str, str]]]:
    return verdict(RUN, compared, ROWS)


UNSEEN = (judged(1.0, "no difference seen", spread=0.3), judged(1.0, "no difference seen"))


def test_the_fastest_is_advised_with_what_it_costs_in_memory() -> None:
    jemalloc = (judged(0.8, "lower"), judged(1.2, "higher"))
    small = (judged(0.9, "lower"), judged(0.7, "lower"))
    sentences, commands = weighed(compared(jemalloc=jemalloc, small=small))
    assert sentences[0] == (
        "Run it under jemalloc: 20% less wall time (19% to 21%), 20% more memory (19% to 21%)."
    )
    assert sentences[1].startswith("For the least memory: small, 30% less memory")
    assert "10 runs under each manager" in sentences[-1]
    assert commands == [
        (
            "to run it under jemalloc, of Debian's package libjemalloc2",
            "LD_PRELOAD=libjemalloc.so.2 ./p 'an argument'",
        )
    ]


def test_of_two_that_are_as_fast_the_smaller_is_advised() -> None:
    fast = (judged(0.8, "lower"), judged(1.2, "higher"))
    small = (judged(0.805, "lower"), judged(0.7, "lower"))
    sentences, _ = weighed(compared(fast=fast, small=small))
    assert sentences[0].startswith("Run it under small: ")
    assert "fast is as fast within the noise, with more memory" in sentences[0]


def test_noise_is_neither_advice_nor_a_reason_to_keep() -> None:
    sentences, commands = weighed(compared(fast=UNSEEN))
    assert sentences[:2] == [
        "Cannot tell whether another allocator is faster than glibc.",
        "Wall time cannot tell: only differences above 60% would show.",
    ]
    assert commands == []


def test_what_wall_time_cannot_tell_processor_time_may() -> None:
    found = compared(fast=UNSEEN)
    processor = Evidence("processor_seconds", {"fast": judged(0.79, "lower")})
    sentences, _ = weighed(replace(found, times=[*found.times, processor]))
    assert sentences[0].startswith("Run it under fast: 21% less processor time (20% to 22%), ")
    assert sentences[1] == "Wall time cannot tell: only differences above 60% would show."


def test_keep_is_said_where_nothing_can_be_gained() -> None:
    same = (judged(1.0, "no difference seen"), judged(1.0, "no difference seen"))
    sentences, _ = weighed(compared(fast=same))
    assert sentences[0] == (
        "Keep glibc for speed: no other allocator can save more than 1.0% of the wall time."
    )


def test_few_runs_give_no_verdict_by_time() -> None:
    few = (judged(0.8, "too few runs", runs=3), judged(0.9, "lower", runs=3))
    sentences, _ = weighed(compared(fast=few))
    assert sentences[1] == (
        "Wall time cannot tell: there were 3 runs under each manager, and a verdict takes 6."
    )
    assert sentences[2].startswith("For the least memory: fast, 10.0% less memory")
    assert "too few runs for a 95% interval" in sentences[-1]


def test_nothing_to_compare() -> None:
    assert weighed(compared()) == (["No other allocator could be measured."], [])


def test_a_failing_program_gets_no_verdict() -> None:
    sentences, _ = verdict(RUN, compared(), {})
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
