"""`tare weigh` of Java programs: what is planned, and what kind of a bill it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.runtimes import jvm
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting
from tare.studykit.least_heap import executed
from tare.weighing import java_bill
from tare.weighing.sections import java_costs, java_least_heap, java_time, sections
from tests.support.bills import carried_out

MANAGERS = ("jvm.g1", "jvm.serial", "jvm.parallel", "jvm.shenandoah", "jvm.zgc")
PILOT = {"max_used_after_bytes": float(64 << 20)}


def setting(effort: Effort, seconds: float) -> Setting:
    total = TOTAL_SECONDS[effort]
    return Setting("p", MANAGERS, "jvm.g1", effort, seconds, total, seed=1, pilot=PILOT)


def found_heap(manager: str, size: int) -> Record:
    run = Run(executed.STUDY, "p", manager, 0, 1, observer=executed.OBSERVER)
    return Record(run, Outcome(Status.OK, values={executed.HIGH: float(size)}))


# ---- the plan ----


@pytest.mark.parametrize(("effort", "most_seconds"), [(Effort.QUICK, 20), (Effort.DEFAULT, 120)])
@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0])
def test_all_sections_together_keep_to_the_promised_time(
    effort: Effort, most_seconds: float, seconds: float
) -> None:
    found = sections(java_bill.RUNTIME)
    done = carried_out(found, setting(effort, seconds))
    assert sum(done.seconds.values()) <= most_seconds - seconds
    assert done.runs["java-time"] > 0


def test_a_second_is_time_for_every_part() -> None:
    found = sections(java_bill.RUNTIME)
    done = carried_out(found, setting(Effort.DEFAULT, 1.0))
    assert done.runs["java-least-heap"] >= 1
    assert done.runs["java-costs"] >= 3 * 2 * 2


def test_the_sections_of_a_kind_are_found_by_being_there() -> None:
    of_java = {each.IDENTIFIER for each in sections(java_bill.RUNTIME)}
    assert java_time.IDENTIFIER in of_java
    assert not of_java & {each.IDENTIFIER for each in sections()}


def test_the_unit_of_heaps_is_sought_first() -> None:
    whole = setting(Effort.DEFAULT, 0.1)
    (first,) = java_least_heap.next_runs(whole, [])
    assert first.manager == "jvm.serial"
    (second,) = java_least_heap.next_runs(whole, [found_heap("jvm.serial", 64 << 20)])
    assert second.manager == "jvm.g1"


def test_a_search_begins_near_what_the_program_held() -> None:
    search = java_least_heap.search_for(setting(Effort.DEFAULT, 0.1))
    assert search.second == 64 << 20
    assert search.step <= (64 << 20) // 40
    nothing_known = replace(setting(Effort.DEFAULT, 0.1), pilot={"wall_seconds": 1.0})
    assert java_least_heap.search_for(nothing_known).second is None


def test_costs_are_measured_in_multiples_of_the_least_heap() -> None:
    whole = setting(Effort.DEFAULT, 0.1)
    assert java_costs.next_runs(whole, []) == []
    runs = java_costs.next_runs(whole, [found_heap("jvm.serial", 20 << 20)])
    assert {run.manager for run in runs} == {
        f"{manager}(heap={size}MiB)" for manager in MANAGERS for size in (40, 80)
    }


def test_what_takes_too_long_is_left_out() -> None:
    long = replace(setting(Effort.DEFAULT, 30.0), budget_seconds=35.0)
    assert java_least_heap.expected_runs(long) == java_costs.expected_runs(long) == 0
    assert java_least_heap.next_runs(long, []) == []
    thorough = replace(long, effort=Effort.THOROUGH)
    assert java_least_heap.expected_runs(thorough) == len(MANAGERS)


def test_a_program_that_fails_is_not_tried_in_heaps() -> None:
    assert java_least_heap.next_runs(replace(setting(Effort.DEFAULT, 0.1), pilot={}), []) == []


# ---- what kind of a bill ----

JAVA = Program("p", ("java", "-jar", "a.jar"))
OTHER = Program("p", ("true",))


@pytest.mark.parametrize(
    ("program", "managers", "runtime"),
    [
        (JAVA, [], "jvm"),
        (OTHER, [], ""),
        (JAVA, ["glibc"], ""),
        (OTHER, ["jvm.g1", "jvm.own"], "jvm"),
    ],
)
def test_managers_decide_and_without_any_the_command(
    program: Program, managers: list[str], runtime: str
) -> None:
    assert java_bill.runtime_of(program, managers) == runtime


def test_a_bill_is_of_one_kind() -> None:
    with pytest.raises(UsageError, match="either allocators or the collectors"):
        java_bill.runtime_of(JAVA, ["jvm.g1", "glibc"])


def test_collectors_of_managers_are_those_that_keep_to_a_heap() -> None:
    managers = ["jvm.own", "jvm.g1(heap=64MiB)", "jvm.epsilon", "jvm.g1", "jvm.zgc(threads=1)"]
    assert java_bill.collectors(managers) == ["jvm.g1", "jvm.zgc"]


def test_the_commands_own_options_make_room() -> None:
    words = ("java", "-Xmx1g", "-cp", "-Xmx2g", "-XX:+UseZGC", "-Da=b", "-jar", "x.jar", "-Xmx3g")
    program = Program("p", words, environment={"JAVA_TOOL_OPTIONS": "-Xms1m '-Dc=d e'"})
    bare = jvm.without(program, java_bill.COLLECTOR, *java_bill.HEAP_SETTINGS)
    assert bare.argv == ("java", "-cp", "-Xmx2g", "-Da=b", "-jar", "x.jar", "-Xmx3g")
    assert bare.environment == {"JAVA_TOOL_OPTIONS": '"-Dc=d e"'}
    assert jvm.own_options(program, *java_bill.HEAP_SETTINGS) == ["-Xms1m", "-Xmx1g"]
    same = jvm.without(program, "threads")
    assert same == program
