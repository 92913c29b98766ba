"""`machine(M, …)`: any manager on a part of the machine."""

from __future__ import annotations

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.manager import (
    describe_managers,
    options_of,
    parse_name,
    resolve,
    with_options,
)
from tare.records.conditions import Conditions


@pytest.mark.parametrize(
    ("typed", "printed", "bare"),
    [
        ("machine(glibc, cpus=0)", "machine(glibc, cpus=0)", "glibc"),
        (" machine (glibc,cpus=1,0 , 3)", "machine(glibc, cpus=0-1,3)", "glibc"),
        (
            "machine(glibc(arenas=1, tcache=0), hugepages=never, cpus=0,2)",
            "machine(glibc(arenas=1, tcache=0), cpus=0,2, hugepages=never)",
            "glibc(arenas=1, tcache=0)",
        ),
        (
            "machine(delay(glibc, size=1MiB), hugepages=as-is)",
            "machine(delay(glibc, size=1MiB), hugepages=as-is)",
            "delay(glibc, size=1MiB)",
        ),
        ("machine(own, memory-nodes=0-1)", "machine(own, memory-nodes=0-1)", "own"),
        ("machine(jvm.g1, cpus=0)", "machine(jvm.g1, cpus=0)", "jvm.g1"),
        (
            "machine(cpython.malloc(glibc), cpus=0)",
            "machine(cpython.malloc(glibc), cpus=0)",
            "cpython.malloc(glibc)",
        ),
    ],
)
def test_a_printed_name_reads_back(typed: str, printed: str, bare: str) -> None:
    manager = resolve(typed)
    assert manager.name == printed
    assert resolve(printed) == manager
    assert manager.bare_name == bare
    within = resolve(bare)
    assert (manager.preload, manager.environment) == (within.preload, within.environment)
    assert within.conditions == Conditions()
    assert within.bare_name == bare


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("machine", "must name a manager"),
        ("machine()", "must name a manager"),
        ("machine(glibc)", "must name a manager"),
        ("machine(cpus=0)", "must name a manager"),
        ("machine(glibc, cpus)", "not of the form"),
        ("machine(glibc, cpus=)", "not of the form"),
        ("machine(glibc, 0, cpus=0)", "not of the form"),
        ("machine(glibc, cpus=0, cpus=1)", "twice"),
        ("machine(glibc, cpus=a)", "not a list"),
        ("machine(glibc, size=1MiB)", "no option 'size'"),
        ("machine(glibc, hugepages=yes)", "hugepages is one of"),
        ("machine(machine(glibc, cpus=0), hugepages=never)", "twice"),
        ("machine(nothing, cpus=0)", "no manager 'nothing'"),
        ("machine(glibc, cpus=0", "must name a manager"),
        ("delay(machine(glibc, cpus=0))", "enclose the whole name"),
        ("machine(glibc, cpus=" + "0," * 300 + "0)", "characters"),
    ],
)
def test_what_means_nothing_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        resolve(text)


def test_options_are_changed_within() -> None:
    name = "machine(immix(heap=1MiB), cpus=0,2)"
    assert options_of(name) == {"heap": "1MiB"}
    assert with_options(name, {"heap": "2MiB"}) == "machine(immix(heap=2MiB), cpus=0,2)"
    assert with_options(name, {}) == "machine(immix, cpus=0,2)"
    assert with_options("immix", {"heap": "2MiB"}) == "immix(heap=2MiB)"


def test_where_a_study_puts_something_around_it_says_what_to_give_instead() -> None:
    with pytest.raises(UsageError) as caught:
        parse_name("machine(jvm.g1, cpus=0)")
    assert "--cpus" in caught.value.hint


def test_results_say_what_of_the_machine_a_manager_had() -> None:
    described = describe_managers(
        {each.name: each for each in map(resolve, ("glibc", "machine(glibc, cpus=0)"))}
    )
    assert "machine" not in described["glibc"]
    assert described["machine(glibc, cpus=0)"]["machine"] == {"cpus": "0"}
