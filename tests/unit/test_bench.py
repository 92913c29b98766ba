"""What `make bench` makes of what it measured."""

from __future__ import annotations

import pytest

from bench import pace, reached
from bench.__main__ import AS_KNOWN, CANNOT_TELL, KEPT, MISSED, NO_BAR, confirmed, verdict
from bench.growth import beyond
from bench.reached import Reached
from bench.row import Row, ratio_row, seconds_row
from tare.base.statistics import Interval


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Reached("count of a * map, *", 1.25, "it is slow"), Reached("count of bc", 1.2, "so")]
    monkeypatch.setattr(reached, "known", lambda: found)


def of(what: str, median: float, off: float = 0.01, *, calm: bool = True) -> str:
    """The verdict on so much of a bar of 1.1."""
    row = ratio_row(what, Interval(median, median - off, median + off), 1.1, "")
    return verdict(row, calm=calm)


@pytest.mark.usefixtures("known")
def test_a_known_miss_is_no_worse_than_what_is_known() -> None:
    assert of("count of a C++ map, over none", 1.2) == AS_KNOWN
    assert of("count of a C++ map, over none", 1.26, off=0.02) == AS_KNOWN
    assert of("count of a C++ map, over none", 1.28) == MISSED
    assert of("count of gawk, over none", 1.2) == MISSED
    assert of("count of bc, over none", 1.15) == MISSED


@pytest.mark.usefixtures("known")
def test_a_slow_machine_does_not_tell_how_bad_a_known_miss_is() -> None:
    assert of("count of a C++ map, over none", 1.28, calm=False) == CANNOT_TELL
    assert of("count of gawk, over none", 1.28, calm=False) == MISSED


def test_a_slow_machine_does_not_tell_of_a_bar_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "slowness", lambda: 2.0)

    def met(seconds: float) -> bool | None:
        return seconds_row("a loop", Interval(seconds, seconds * 0.9, seconds * 1.1), 1e-9).met

    assert [met(0.5e-9), met(2e-9), met(3e-9)] == [True, None, False]


def test_the_pace_of_a_benchmark_is_the_slowest_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    took = [1.5, 1.5, 2.0, 1.0, 0.5]
    readings = iter([each * pace.PASS_SECONDS for each in took for _ in range(pace.TRIES)])
    monkeypatch.setattr(pace, "seconds", lambda _: next(readings))
    pace.begin()
    assert pace.slowness() == pytest.approx(1.5)
    assert pace.slowness() == pytest.approx(2.0)
    pace.begin()
    assert pace.slowness() == pytest.approx(1.0)


@pytest.mark.usefixtures("known")
def test_what_is_known_hides_nothing_else() -> None:
    assert of("count of a C++ map, over none", 1.0) == KEPT
    assert of("count of a C++ map, over none", 1.1, off=0.05) == CANNOT_TELL
    assert verdict(Row("count of bc", "4")) == NO_BAR
    assert verdict(Row("count of bc", "no such program", met=False)) == MISSED


def test_a_bar_is_missed_if_both_measurements_miss_it() -> None:
    rows = [Row(what, "") for what in ("again", "by chance", "kept", "gone", "as known")]
    first = list(zip(rows, (MISSED, MISSED, KEPT, MISSED, AS_KNOWN), strict=True))
    again = list(zip(rows[:3], (MISSED, KEPT, MISSED), strict=True))
    said = [said for _, said in confirmed(first, again)]
    assert said == [MISSED, CANNOT_TELL, KEPT, MISSED, AS_KNOWN]


def test_each_known_miss_says_why() -> None:
    for each in reached.known():
        assert each.what
        assert each.figure > 0
        assert len(each.why.split()) >= 3


def test_an_engine_answers_for_what_it_adds_to_the_growth_of_a_program() -> None:
    assert beyond((1.2, 1.3, 1.4), (1.1, 1.2, 1.3)) == pytest.approx((0.9, 1.3))
    assert beyond((1.2, 1.3, 1.4), (0.5, 0.6, 0.7)) == pytest.approx((1.2, 1.4))
