"""Lists of processors as people write them, and what a run lost to other guests of its host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.errors import UsageError
from tare.records import steal
from tare.records.conditions import Conditions, conditions_of, listed, places, shown
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run


@given(st.sets(st.integers(0, 1023), min_size=1))
def test_a_shown_list_reads_back(numbers: set[int]) -> None:
    assert places(shown(numbers)) == numbers


@pytest.mark.parametrize(
    ("typed", "short"),
    [("0", "0"), ("1,0", "0-1"), ("0, 2-3", "0,2-3"), ("3-3,1-2", "1-3"), ("", "")],
)
def test_a_list_is_kept_in_its_shortest_form(typed: str, short: str) -> None:
    assert listed(typed, "processors") == short


@pytest.mark.parametrize(
    "text", ["x", "-1", "1-", "0,", ",0", "2-1", "0-9999999", "1024", "0x1", "0:2", "²"]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        listed(text, "processors")


def test_conditions_read_back() -> None:
    given = {"cpus": "0,2", "memory-nodes": "1", "hugepages": "never"}
    assert conditions_of(given).asked() == given
    assert conditions_of({}) == Conditions()
    with pytest.raises(UsageError, match="no option 'cpu'"):
        conditions_of({"cpu": "0"})
    with pytest.raises(UsageError, match="hugepages is one of"):
        conditions_of({"hugepages": "sometimes"})


def test_what_a_manager_says_goes_before_what_all_have() -> None:
    general = Conditions(cpus="0", hugepages="never")
    assert Conditions(hugepages="as-is").over(general) == Conditions("0", "", "as-is")
    assert Conditions().over(general) == general


def record(**details: object) -> Record:
    run = Run("compare", "p", "glibc", 0, 1)
    return Record(run, Outcome(Status.OK, details=details))


def test_only_much_steal_is_told() -> None:
    records = [
        record(),
        record(steal={"seconds": 0.0, "share": 0.0}),
        record(steal={"seconds": 0.01, "share": 0.5}),  # one tick of a short run
        record(steal={"seconds": 0.5, "share": 0.02}),
        record(steal={"seconds": 0.5, "share": 0.12}),
    ]
    assert steal.much(records) == [0.12]
