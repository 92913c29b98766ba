"""Frees right before an allocation of the same size."""

from __future__ import annotations

import pytest

from tare.heap_traces import residence
from tare.heap_traces import reuse as module
from tare.heap_traces.residence import processes
from tare.heap_traces.reuse import reuse
from tests.unit.heap_traces.test_ownership import END, frame_of


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


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residence, "BATCH_ROWS", 2)
    monkeypatch.setattr(module, "MOST_OBJECTS", 2)
    assert reused(*[(1, 16, 1)] * 6) == (2, 1)
