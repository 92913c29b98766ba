"""Frees right before an allocation of the same size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.heap_traces import residence
from tare.heap_traces.residence import processes
from tare.heap_traces.reuse import reuse
from tests.unit.heap_traces.test_ownership import END, Life, frame_of, lives


def of_two_sizes(life: Life) -> Life:
    thread, size, lived, site, freed_by = life
    return thread, 8 * (size % 2), lived, site, freed_by


def reused(*drawn: tuple[int, int, int | None]) -> tuple[int, int]:
    """Objects in the order of their births: their thread, size, and how many births later they are
    freed by that thread."""
    frame = frame_of([(thread, size, life, 0, thread) for thread, size, life in drawn])
    (process,) = processes(frame.lazy(), [{"process": 0, "instructions": END}])
    found = reuse(frame.lazy(), process)
    return found["frees"], found["reusable"]


def test_the_next_allocation_of_the_same_size_reuses() -> None:
    assert reused((1, 16, 1), (1, 16, None)) == (1, 1)
    assert reused((1, 16, 1), (1, 24, None)) == (1, 0)
    assert reused((1, 16, None), (1, 16, None)) == (0, 0)


def test_one_allocation_reuses_one_object() -> None:
    # Both die between the second birth and the third.
    assert reused((1, 16, 2), (1, 16, 1), (1, 16, None)) == (2, 1)


def test_a_thread_reuses_what_it_frees_itself() -> None:
    assert reused((1, 16, 1), (2, 16, None)) == (1, 0)
    assert reused((1, 16, 1), (2, 24, None), (1, 16, None)) == (1, 1)


def test_what_dies_last_has_nothing_after_it() -> None:
    assert reused((1, 16, None), (1, 16, 1)) == (1, 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(lives.map(of_two_sizes), min_size=1, max_size=25))
def test_the_count_is_that_of_a_naive_model(drawn: list[Life]) -> None:
    frame = frame_of(drawn)
    (process,) = processes(frame.lazy(), [{"process": 0, "instructions": END}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residence, "BATCH_ROWS", 4)
        found = reuse(frame.lazy(), process)
    rows = list(frame.iter_rows(named=True))
    freed = [row for row in rows if row["free_instructions"] is not None]
    births = sorted((row["birth_instructions"], row["thread"], row["size"]) for row in rows)
    reused = set()
    for row in freed:
        thread = row["thread"] if row["free_thread"] is None else row["free_thread"]
        after = [each for each in births if each[0] > row["free_instructions"]]
        following = next((each for each in after if each[1] == thread), None)
        if following is not None and following[2] == row["size"]:
            reused.add(following)
    assert found == {"frees": len(freed), "reusable": len(reused)}
