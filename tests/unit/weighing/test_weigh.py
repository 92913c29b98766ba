"""The verdict of `tare weigh`: what it advises on measurements whose answer is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec import structs

from tare.base.documents import converted
from tare.base.errors import UsageError
from tare.base.statistics import Interval
from tare.records.actions import Certainty, Kind
from tare.records.coverage import OwnAllocator
from tare.records.evidence import Evidence, Judged
from tare.records.header import DescribedManager, Header
from tare.records.results import Results, measurement_schema
from tare.studies.compare import weigh as time_and_memory
from tare.studies.compare.verdicts import Comparison
from tare.studies.compare.weigh import actions, expected_seconds, next_runs, plan, verdict
from tare.studies.count import weigh as counting
from tare.studykit import adoption
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting, names_of
from tare.weighing.sections import chosen, sections
from tests.support.bills import carried_out
from tests.support.campaigns import described

DOCUMENT = described("weigh", ["p"], ["glibc"])
DOCUMENT["programs"][0]["argv"] = ["./p", "an argument"]
_HEADER = converted(DOCUMENT, Header)
RUN = structs.replace(
    _HEADER,
    managers={
        **_HEADER.managers,
        "fast": DescribedManager("1", "/lib/fast one.so", {"CONF": "a:1"}),
        "small": DescribedManager("1", "/lib/small.so", {}),
    },
)
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


@pytest.mark.parametrize(
    ("manager", "way", "line"),
    [
        ("cpython.malloc(glibc)", "set PYTHONMALLOC=malloc", "PYTHONMALLOC=malloc"),
        (
            "cpython.malloc(jemalloc)",
            "set PYTHONMALLOC=malloc; install libjemalloc2 and set LD_PRELOAD=libjemalloc.so.2",
            "PYTHONMALLOC=malloc LD_PRELOAD=libjemalloc.so.2",
        ),
    ],
)
def test_a_manager_of_all_objects_of_a_runtime_says_how_to_have_it(
    manager: str, way: str, line: str
) -> None:
    assert adoption.how(RUN, manager).startswith(way)
    _, command = adoption.command(RUN, manager)
    assert command == f"{line} ./p 'an argument'"


def test_a_program_of_musl_is_not_sent_to_packages_that_are_for_glibc() -> None:
    program = structs.replace(RUN.programs[0], with_musl=True)
    run = structs.replace(RUN, programs=(program,))
    assert adoption.how(run, "jemalloc") == "build it with musl from the crate tikv-jemalloc-sys"
    assert adoption.link(run, "jemalloc") == ""
    assert adoption.link(RUN, "jemalloc") == "-ljemalloc"
    label, _ = adoption.command(run, "jemalloc")
    assert label == "where jemalloc comes from"
    assert adoption.environment(run, "fast")["LD_PRELOAD"] == "/lib/fast one.so"


def test_an_object_that_was_built_for_musl_as_well_is_the_one_to_preload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.base.native.native_roots", lambda: (tmp_path,))
    (tmp_path / "musl").mkdir()
    (tmp_path / "musl" / "a.so").touch()
    measured = DescribedManager("5", str(tmp_path / "a.so"), {})
    program = structs.replace(RUN.programs[0], with_musl=True)
    run = structs.replace(RUN, programs=(program,), managers={"jemalloc": measured})
    assert adoption.environment(run, "jemalloc") == {"LD_PRELOAD": str(tmp_path / "musl" / "a.so")}


OWN_JEMALLOC = OwnAllocator("/bin/p", "_rjem_", 6, True, "jemalloc", "build it without it")


def test_what_the_program_brings_along_is_kept_and_no_change() -> None:
    run = structs.replace(RUN, own_allocators=(OWN_JEMALLOC,))
    found = replace(compared(own=(judged(0.9, "lower"), judged(1.0, "no difference seen"))),
                    is_current=False)  # fmt: skip
    sentences, commands = verdict(run, found, ROWS)
    assert sentences[0].startswith("Keep its own jemalloc for speed: 10.0% less wall time (")
    assert sentences[0].endswith("against glibc.")
    assert sentences[1].startswith("Nothing beats glibc for memory: no other allocator")
    assert commands == []


def test_a_program_with_an_allocator_of_its_own_must_be_built_for_another() -> None:
    run = structs.replace(RUN, own_allocators=(OWN_JEMALLOC,))
    assert adoption.command(run, "jemalloc") == ("", "")
    same = judged(1.0, "no difference seen")
    found = compared(fast=(judged(0.8, "lower"), same), own=(judged(0.9, "lower"), same))
    sentences, _ = verdict(run, replace(found, is_current=False), ROWS)
    assert sentences[0].startswith("Run it under fast: 20% less wall time")
    assert sentences[-2].startswith(
        "All ratios are to glibc; with its own jemalloc, as it is now: 10.0% less wall time"
    )
    assert sentences[-2].endswith("For another allocator, build it without it.")
    found = compared(fast=(judged(0.8, "lower"), same))
    sentences, _ = verdict(run, replace(found, is_current=False), ROWS)
    assert "All ratios are to glibc, but the program has its own jemalloc." in sentences[-2]


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


def test_instructions_speak_last_and_say_how_often_they_were_counted() -> None:
    found = compared(fast=UNSEEN)
    once = Evidence("instructions", {"fast": judged(0.59, "lower", runs=1)})
    sentences, _ = weighed(replace(found, times=[*found.times, once]))
    assert sentences[0].startswith("Run it under fast: 41% fewer instructions (40% to 42%), ")
    assert "The instructions were counted once under each." in sentences


def test_keep_is_said_where_nothing_can_be_gained() -> None:
    same = (judged(1.0, "no difference seen"), judged(1.0, "no difference seen"))
    sentences, _ = weighed(compared(fast=same))
    assert sentences[0] == (
        "Keep glibc for speed: no other allocator can save more than 1.0% of the wall time."
    )


def test_where_memory_management_is_little_there_is_little_to_gain() -> None:
    noisy = compared(fast=UNSEEN)
    sentences, commands = weighed(replace(noisy, share=0.005))
    assert sentences[:2] == [
        "Little to gain by a faster allocator: memory management is 0.5% of the instructions.",
        "Wall time cannot tell: only differences above 60% would show.",
    ]
    assert commands == []
    bound = compared(fast=(judged(0.99, "no difference seen", spread=0.04), UNSEEN[1]))
    sentences, _ = weighed(replace(bound, share=0.005))
    assert sentences[0] == (
        "Little to gain by a faster allocator: memory management is 0.5% of the instructions, and "
        "no other saves more than 5.0% of the wall time."
    )
    assert "cannot tell" not in " ".join(sentences)
    once = Evidence("instructions", {"fast": judged(1.0, "no difference seen", 1, 0.05)})
    sentences, _ = weighed(replace(noisy, times=[*noisy.times, once], share=0.005))
    assert sentences[0].endswith("memory management is 0.5% of the instructions.")
    few = compared(fast=(judged(1.0, "too few runs", runs=3), judged(1.0, "no difference seen")))
    sentences, _ = weighed(replace(few, share=0.005))
    assert sentences[0].endswith("memory management is 0.5% of the instructions.")
    for unbounded in (replace(noisy, share=0.05), replace(noisy, share=0.005, kind="manager")):
        sentences, _ = weighed(unbounded)
        assert sentences[0].startswith("Cannot tell whether another ")


def test_what_was_not_counted_under_all_gives_no_reason_to_keep() -> None:
    found = compared(fast=UNSEEN, small=UNSEEN)
    more = judged(1.4, "higher")
    sentences, _ = weighed(
        replace(found, times=[*found.times, Evidence("instructions", {"fast": more})])
    )
    assert sentences[0] == "Cannot tell whether another allocator is faster than glibc."
    assert "Instructions cannot tell: not known under small." in sentences
    every = Evidence("instructions", {"fast": more, "small": more})
    sentences, _ = weighed(replace(found, times=[*found.times, every]))
    assert sentences[0] == ("Keep glibc for speed: no other allocator needs fewer instructions.")


def test_few_runs_give_no_verdict_by_time() -> None:
    few = (judged(0.8, "too few runs", runs=3), judged(0.9, "lower", runs=3))
    sentences, _ = weighed(compared(fast=few))
    assert sentences[1] == (
        "Wall time cannot tell: there were 3 runs under each manager, and a verdict takes 6."
    )
    assert sentences[2].startswith("For the least memory: fast, 10.0% less memory")
    assert "too few runs for a 95% interval" in sentences[-1]


def test_managers_that_a_long_program_left_no_time_for_are_named() -> None:
    three = described("weigh", ["p"], ["glibc", "jemalloc", "snmalloc"])
    few = measured({"glibc": STEADY[:6], "jemalloc": STEADY[:3]})
    default = {**three, "request": {"effort": "default"}}
    (sentence,) = time_and_memory.left_out(replace(few, document=default))
    assert "Left out, as the program runs long: snmalloc." in sentence
    quick = {**three, "request": {"effort": "quick"}}
    assert time_and_memory.left_out(replace(few, document=quick)) == []


def test_nothing_to_compare() -> None:
    assert weighed(compared()) == (["No other allocator could be measured."], [])


def test_a_failing_program_gets_no_verdict() -> None:
    sentences, _ = verdict(RUN, compared(), {})
    assert "No run under glibc succeeded" in sentences[0]


def measured(walls: dict[str, list[float]]) -> Results:
    rows = [
        ("compare", "p", manager, index, order, metric, value * scale, "", "ok", "executed")
        for order, (manager, index, value) in enumerate(
            (manager, index, value)
            for manager, values in walls.items()
            for index, value in enumerate(values)
        )
        for metric, scale in (("wall_seconds", 1.0), ("peak_resident_bytes", 1e6))
    ]
    frame = pl.DataFrame(rows, schema=measurement_schema(), orient="row")
    return Results(Path("r"), DOCUMENT, frame)


STEADY = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99, 1.0, 1.0, 1.0]


def test_a_gain_is_an_action_with_what_verifies_it() -> None:
    found = actions(measured({"glibc": STEADY, "jemalloc": [0.8] * 6}))
    (of_time, of_memory) = found
    assert of_time.kind is Kind.ALLOCATOR
    assert of_time.certainty is Certainty.MEASURED
    assert of_time.verify == "tare compare -m glibc -m jemalloc -- ./p 'an argument'"
    gain = of_time.gain
    assert (gain.metric, gain.unit) == ("wall_seconds", "s")
    assert 0 < gain.low <= gain.value <= gain.high
    assert gain.value == pytest.approx(0.2)
    assert gain.ratio == pytest.approx(0.8)
    assert "libjemalloc2" in of_time.text
    assert "-ljemalloc" in of_time.text
    assert of_memory.gain.metric == "peak_resident_bytes"
    assert of_memory.gain.value == pytest.approx(2e5)


def test_what_was_not_seen_is_no_action() -> None:
    assert actions(measured({"glibc": STEADY, "jemalloc": STEADY[:6]})) == []
    assert actions(measured({"glibc": STEADY})) == []
    few = actions(measured({"glibc": STEADY[:6], "jemalloc": [0.8] * 3}))
    assert [each.gain.metric for each in few] == ["peak_resident_bytes"]


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


def test_a_long_program_is_run_under_few_managers_and_leaves_time_for_its_sites() -> None:
    found = chosen("", Effort.DEFAULT)
    for seconds in (1.3, 2.0, 3.0):
        whole = setting(Effort.DEFAULT, seconds)
        done = carried_out(found, whole)
        assert done.runs["time-and-memory"] >= 3 * 4, "three rounds under three managers"
        assert done.runs.keys() >= {"time-and-memory", "space"}
        assert sum(done.seconds.values()) <= whole.budget_seconds
    asked = replace(setting(Effort.DEFAULT, 2.0), managers_asked=True)
    assert carried_out(found, asked).runs["time-and-memory"] >= 3 * 6


def test_a_very_long_program_is_run_once_under_each() -> None:
    done = carried_out(chosen("", Effort.DEFAULT), setting(Effort.DEFAULT, 600.0))
    assert done.runs == {"time-and-memory": 4}, "the baseline twice, and two others"


def test_thorough_goes_on_until_the_interval_is_narrow() -> None:
    assert plan(setting(Effort.THOROUGH, 1.0)).precision == 0.01


def test_managers_that_were_asked_for_are_kept() -> None:
    asked = replace(setting(Effort.QUICK, 1.0), managers_asked=True)
    assert plan(asked).managers == MANAGERS


def test_quick_tries_fewer_managers_and_the_plan_starts() -> None:
    quick = setting(Effort.QUICK, 1.0)
    assert plan(quick).managers == ("glibc", "jemalloc", "mimalloc")
    assert {run.manager for run in next_runs(quick, [])} == set(plan(quick).managers)


DEFAULT_SECTIONS = {"time-and-memory", "space", "instructions", "drag", "collectors"}


@pytest.mark.parametrize("slowness", [0.3, 1.0, 1.6])
@pytest.mark.parametrize(("effort", "most_seconds"), [(Effort.QUICK, 20), (Effort.DEFAULT, 106)])
@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.3, 1.0])
def test_all_sections_together_keep_to_the_promised_time(
    effort: Effort, most_seconds: float, seconds: float, slowness: float
) -> None:
    done = carried_out(chosen("", effort), setting(effort, seconds), slowness)
    longest = max(done.seconds.values())
    assert sum(done.seconds.values()) <= max(most_seconds, longest)
    assert done.runs["time-and-memory"] > 0


@pytest.mark.parametrize("slowness", [0.3, 1.0, 1.6])
def test_a_program_of_a_third_of_a_second_gets_all_sections(slowness: float) -> None:
    whole = setting(Effort.DEFAULT, 0.3)
    done = carried_out(chosen("", Effort.DEFAULT), whole, slowness)
    assert done.runs.keys() == DEFAULT_SECTIONS
    assert sum(done.seconds.values()) <= 105
    assert done.runs["time-and-memory"] >= 6 * 6 + 5, "six rounds of six runs, and warm-up"


@pytest.mark.parametrize("seconds", [0.05, 0.3, 1.0, 1.3, 2.0, 3.0, 5.0])
def test_nothing_is_left_out_while_it_fits(seconds: float) -> None:
    whole = setting(Effort.DEFAULT, seconds)
    found = chosen("", Effort.DEFAULT)
    done = carried_out(found, whole)
    left = whole.budget_seconds - sum(done.seconds.values())
    for section in found:
        if section.IDENTIFIER not in done.runs and section.least_seconds(whole):
            assert section.least_seconds(whole) > left


def test_a_section_that_took_less_than_judged_leaves_its_time_to_others() -> None:
    whole = setting(Effort.DEFAULT, 2.0)
    found = chosen("", Effort.DEFAULT)
    slow = carried_out(found, whole)
    quick = carried_out(found, whole, {"space": 0.1, "instructions": 0.1, "drag": 0.1})
    assert len(quick.runs) > len(slow.runs)
    assert quick.runs["time-and-memory"] > slow.runs["time-and-memory"]


def test_a_first_run_that_was_slow_by_chance_leaves_nothing_out() -> None:
    whole = setting(Effort.DEFAULT, 3.0)
    found = chosen("", Effort.DEFAULT)
    assert carried_out(found, whole).runs.keys() != DEFAULT_SECTIONS
    assert carried_out(found, whole, 0.1).runs.keys() == DEFAULT_SECTIONS


def test_the_cheap_and_telling_come_first() -> None:
    done = carried_out(chosen("", Effort.DEFAULT), setting(Effort.DEFAULT, 0.3))
    assert done.order.index("space") < done.order.index("collectors")
    assert done.order[0] == "time-and-memory"


def test_runs_that_were_asked_for_are_made_whatever_they_take() -> None:
    whole = replace(setting(Effort.DEFAULT, 2.0), runs=15)
    assert plan(whole).runs == 15
    assert carried_out(chosen("", Effort.DEFAULT), whole).runs["time-and-memory"] == 95


def test_delay_is_for_researchers() -> None:
    assert "delay" not in [each.IDENTIFIER for each in chosen("", Effort.DEFAULT)]
    assert "delay" in [each.IDENTIFIER for each in chosen("", Effort.THOROUGH)]
    assert [each.IDENTIFIER for each in chosen("", Effort.DEFAULT, ["delay"])] == ["delay"]


def test_sections_are_chosen_by_the_names_of_their_commands() -> None:
    found = chosen("", Effort.DEFAULT, ["drag", "count"])
    assert {each.IDENTIFIER for each in found} == {"drag", "instructions"}
    left = chosen("", Effort.DEFAULT, skip=["space"])
    assert "space" not in [each.IDENTIFIER for each in left]
    java = chosen("jvm", Effort.DEFAULT, ["lbo"])
    assert {each.IDENTIFIER for each in java} == {"java-costs", "java-least-heap"}


@pytest.mark.parametrize(("only", "hint"), [("dragg", "did you mean drag?"), ("x", "known: ")])
def test_an_unknown_section_gets_a_hint(only: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no such section") as caught:
        chosen("", Effort.DEFAULT, [only])
    assert hint in caught.value.hint


def test_names_of_sections_are_their_own() -> None:
    for runtime in ("", "jvm"):
        names = [name for each in sections(runtime) for name in names_of(each)]
        assert len(names) == len(set(names))


def test_sections_are_found_by_being_there() -> None:
    assert time_and_memory.IDENTIFIER in [each.IDENTIFIER for each in sections()]


def test_what_shows_all_objects_is_counted_before_other_managers() -> None:
    every = ("glibc", "jemalloc", "cpython.malloc(glibc)")
    setting = Setting("p", every, "glibc", Effort.DEFAULT, 1.0, 100.0, 1)
    assert counting._by_speed(setting, []) == ["glibc", "cpython.malloc(glibc)", "jemalloc"]
