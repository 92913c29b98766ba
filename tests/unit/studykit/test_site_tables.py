"""Tables of call sites: what is in view first, and what the rest comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.units import format_bytes
from tare.report.fields import sizes, table, texts
from tare.report.model import Table
from tare.studykit.site_tables import (
    LEAST_SHARE,
    Measure,
    first_view,
    large,
    ranked,
    site_number,
    site_text,
)


def site(name: str, size: int) -> dict[str, Any]:
    frame = {"function": name, "object": "/bin/p", "file": f"{name}.c", "line": 1, "offset": 1}
    return {"frames": [frame], "bytes": size}


def view_of(held: list[int], others: tuple[int, int] = (0, 0), whole: float | None = None) -> Table:
    """Of sites that hold so much, and of so many others that hold so much together."""
    total = sum(held) + others[1] if whole is None else whole
    measure = Measure("bytes", total, format_bytes)
    sites = [site(f"f{number}", size) for number, size in enumerate(held)]
    rows = ranked(sites, measure, {"sites": others[0], "bytes": others[1]})
    fields = [site_number(""), texts("call site", "", site_text), sizes("bytes", "", "bytes")]
    return first_view(table("t", "T", rows, fields), rows, measure)


def named(found: Table) -> list[str]:
    return [row[1].text for row in found.rows]


def test_what_has_less_than_a_hundredth_is_counted_and_summed() -> None:
    found = view_of([500, 5, 490, 3], (4, 2))
    assert found.few == 2
    assert named(found) == ["f0 (f0.c:1)", "f2 (f2.c:1)", "f1 (f1.c:1)", "f3 (f3.c:1)", "4 others"]
    assert [row[0].text for row in found.rows] == ["1", "2", "3", "4", ""]
    assert found.rest == "6 more call sites, each below 1%: 1.0% in all (10 B)."
    assert found.places == [*named(found)[:4], ""]


def test_where_all_are_large_nothing_is_left_out() -> None:
    found = view_of([60, 40])
    assert (found.few, found.rest) == (None, "")


def test_one_more_is_one_more() -> None:
    assert view_of([999, 9]).rest == "1 more call site: 0.9% in all (9 B)."
    assert named(view_of([99], (1, 1)))[-1] == "another site"


def test_one_is_in_view_even_where_none_is_large() -> None:
    found = view_of([2] * 200)
    assert found.few == 1
    assert found.rest.startswith("199 more call sites, each below 1%: ")


def test_of_those_that_are_not_kept_one_by_one_no_size_is_claimed() -> None:
    assert view_of([500, 400], (9, 100)).rest == "9 more call sites: 10% in all (100 B)."
    assert view_of([900, 5], (2, 100)).rest == "3 more call sites: 10% in all (105 B)."


def test_without_any_there_is_no_row() -> None:
    assert view_of([0, 0], (3, 0)).rows == []


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=40),
    st.tuples(st.integers(0, 9), st.integers(0, 500)),
)
def test_what_is_in_view_and_what_is_not_are_all(held: list[int], others: tuple[int, int]) -> None:
    total = sum(held) + (others[1] if others[0] else 0)
    measure = Measure("bytes", total, format_bytes)
    sites = [site(f"f{number}", size) for number, size in enumerate(held)]
    rows = ranked(sites, measure, {"sites": others[0], "bytes": others[1]})
    if not rows:
        assert not any(held)
        return
    assert sum(map(measure, rows)) == total
    seen = large(rows, measure)
    assert list(seen) == rows[: len(seen)]
    assert all(measure.share(row) >= LEAST_SHARE for row in seen) or len(seen) == 1
    assert all(measure.share(row) < LEAST_SHARE for row in rows[len(seen) :] if "frames" in row)


@pytest.mark.parametrize("size", [None, 7])
def test_a_sum_that_is_not_known_is_not_told(size: int | None) -> None:
    measure = Measure("wasted", 1000.0, format_bytes, size="mean")
    sites = [{**site("f", 0), "wasted": 995.0, "mean": 3}]
    rows = ranked(sites, measure, {"sites": 2, "wasted": 5.0, "mean": size})
    rest = first_view(
        table("t", "T", rows, [texts("call site", "", site_text)]), rows, measure
    ).rest
    told = "" if size is None else " (7 B)"
    assert rest == f"2 more call sites: 0.5% in all{told}."
