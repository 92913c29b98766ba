"""Which objects are alive at a moment."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.base.errors import TareError
from tare.studies.space import history
from tests.unit.studies.space.support import as_set, one_process, trace_rows

lives = st.tuples(st.integers(1, 30), st.integers(1, 50), st.one_of(st.none(), st.integers(0, 30)))


@settings(deadline=None)
@given(st.lists(lives, min_size=1, max_size=30), st.lists(st.integers(0, 40), max_size=6))
def test_who_is_alive_is_what_a_naive_model_says(
    raw: list[tuple[int, int, int | None]], times: list[int]
) -> None:
    monkey = pytest.MonkeyPatch()
    monkey.setattr(history, "BATCH_ROWS", 4)
    births = sorted(birth for birth, _, _ in raw)
    objects = [
        (birth, 0x1000 + 64 * number, None if life is None else birth + life, size)
        for number, (birth, (_, size, life)) in enumerate(zip(births, raw, strict=True))
    ]
    frame = trace_rows(objects)
    process = one_process(len(objects), int(frame["birth_bytes"][-1]))
    found = list(history.moments(frame.lazy(), process, sorted(times)))
    monkey.undo()
    for time, moment in zip(sorted(times), found, strict=True):
        alive = [a for b, a, f, _ in objects if b <= time and (f is None or f > time)]
        born = [(a, a + size + 8) for b, a, _, size in objects if b <= time]
        assert moment.objects.addresses.tolist() == sorted(alive)
        assert as_set(moment.ever) == as_set(np.array(born).reshape(-1, 2))
        assert moment.allocated_bytes == sum(size for b, _, _, size in objects if b <= time)


def test_a_child_has_what_its_parent_had_but_where_it_allocated_itself() -> None:
    theirs = [(1, 0x1000, None, 100), (2, 0x2000, None, 100), (3, 0x3000, 4, 100)]
    frame = trace_rows(theirs)
    process = one_process(3, 300)
    (before,) = history.moments(frame.lazy(), process, [10], tag=5 << 32)
    mine = trace_rows([(1, 0x2010, None, 50)])
    child = one_process(1, 50)
    (found,) = history.moments(mine.lazy(), child, [10], before)
    assert found.objects.addresses.tolist() == [0x1000, 0x2010]
    assert (found.objects.sites >> 32).tolist() == [5, 0]
    assert as_set(found.ever) >= set(range(0x3000, 0x3064))


def test_objects_without_addresses_are_refused() -> None:
    frame = trace_rows([(1, 0x1000, None, 8)]).with_columns(
        pl.lit(None, pl.UInt64).alias("address")
    )
    process = one_process(1, 8)
    with pytest.raises(TareError, match="without an address"):
        list(history.moments(frame.lazy(), process, [1]))


def test_the_largest_live_size_is_exact() -> None:
    frame = trace_rows([(1, 0x1000, 5, 100), (2, 0x2000, 3, 70), (4, 0x3000, None, 90)])
    process = one_process(3, 260)
    most = history.peak(frame.lazy(), process)
    assert (most.bytes, most.time) == (190, 4)
    assert history.allocated_by(frame.lazy(), process, most.time) == 260
