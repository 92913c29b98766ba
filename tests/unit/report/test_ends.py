"""Names at the ends of series."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tare.report.figures.ends import End, end_labels

HEIGHT, TOP = 260.0, 10.0
AXIS = {"scale": {"domain": [0, TOP]}}


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8))
def test_names_keep_apart_and_in_order(heights: list[int]) -> None:
    ends = [End(f"n{number}", "red", TOP * at / 1000) for number, at in enumerate(heights)]
    _, names = end_labels(ends, AXIS, HEIGHT)
    rows = [row for row in names["data"]["values"] if not row["narrow"]]
    places = sorted((row["y"] * HEIGHT / TOP, row["text"]) for row in rows)
    assert all(b - a > 14 for (a, _), (b, _) in pairwise(places))
    assert places[0][0] >= -1
    assert places[-1][0] <= HEIGHT + 1
    order = {end.name: end.at for end in ends}
    shown = [order[name] for _, name in places]
    assert shown == sorted(shown)
