"""The bisection by itself, against heaps with known, random and no answers."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.errors import UsageError
from tare.memory_managers.manager import resolve
from tare.observers.runner import side_by_side
from tare.records.metrics import Status
from tare.records.runs import Outcome
from tare.studykit.least_heap.executed import check_collectors
from tare.studykit.least_heap.search import (
    MOST_GROWTH,
    PAGE,
    Search,
    Trial,
    interval_of,
    keep_trial,
    kept_trials,
    least_heap,
    next_trials,
)

MIB = 1 << 20
GOOD = Outcome(Status.OK, values={"peak_reserved_bytes": 1.0}, output_sha256="a")
TOO_SMALL = Outcome(Status.OUT_OF_MEMORY, "too small")


def all_trials(search: Search, fits: Callable[[int], bool], most: int = 300) -> list[Trial]:
    trials: list[Trial] = []
    while sizes := next_trials(trials, search):
        assert 0 < len(sizes) <= search.side_by_side
        for size in sizes:
            assert 0 < size <= search.largest
            assert size % search.unit == 0
            trials.append(Trial(size, GOOD if fits(size) else TOO_SMALL))
        assert len(trials) < most
    return trials


@given(
    least=st.integers(1, 1 << 34),
    guess=st.integers(1, 1 << 34),
    step=st.integers(PAGE, 1 << 24),
    repeats=st.integers(1, 4),
    beside=st.integers(1, 4),
    unit=st.sampled_from([PAGE, 1 << 16, MIB]),
)
def test_the_least_heap_lies_in_the_interval(
    least: int, guess: int, step: int, repeats: int, beside: int, unit: int
) -> None:
    search = Search(guess, step, repeats, unit, most=1 << 36, side_by_side=beside)
    trials = all_trials(search, lambda size: size >= least)
    found = interval_of(trials)
    assert found.high is not None
    assert (found.low or 0) < least <= found.high
    assert found.high - (found.low or 0) <= max(step, unit)
    assert not found.varied
    for end in (found.high, found.low):
        assert end is None or sum(trial.heap_bytes == end for trial in trials) >= repeats


@pytest.mark.parametrize(("beside", "most_rounds"), [(1, 12), (2, 8), (4, 6)])
def test_few_rounds_are_needed(beside: int, most_rounds: int) -> None:
    search = Search(16 * MIB, step=50_000, repeats=1, side_by_side=beside)
    trials: list[Trial] = []
    rounds = 0
    while sizes := next_trials(trials, search):
        trials += [Trial(size, GOOD if size >= 5_000_000 else TOO_SMALL) for size in sizes]
        rounds += 1
    assert rounds <= most_rounds


@pytest.mark.parametrize("beside", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_an_answer_that_varies_widens_the_interval(seed: int, beside: int) -> None:
    draw = random.Random(seed)
    never, always = 4 * MIB, 4 * MIB + 300_000

    def fits(size: int) -> bool:
        return size >= always or (size > never and draw.random() < 0.5)

    search = Search(16 * MIB, step=2 * PAGE, repeats=5, side_by_side=beside)
    trials = all_trials(search, fits)
    found = interval_of(trials)
    assert found.low is not None
    assert found.high is not None
    assert all(trial.fits for trial in trials if trial.heap_bytes >= found.high)
    assert not any(trial.fits for trial in trials if trial.heap_bytes <= found.low)
    # At 5 trials each end is right but once in 32 times, and then not by much.
    assert never - 3 * PAGE <= found.low < found.high <= always + 3 * PAGE


def test_what_fits_into_a_page_needs_a_page() -> None:
    found = interval_of(all_trials(Search(MIB, PAGE, 1), lambda _: True))
    assert (found.low, found.high) == (None, PAGE)


def test_no_heap_over_the_largest_is_tried() -> None:
    trials = all_trials(Search(MIB, PAGE, 1, most=3 * MIB), lambda _: False)
    assert [trial.heap_bytes for trial in trials] == [MIB, 2 * MIB, 3 * MIB]


# ---- trials that are made ----

SEARCH = Search(guess=16 * MIB, step=MIB // 4, repeats=2)


@pytest.mark.parametrize("status", [Status.OUT_OF_MEMORY, Status.TIMEOUT, Status.FAILED])
def test_how_a_heap_is_too_small_is_kept(status: Status) -> None:
    bad = Outcome(status, "too small")
    found = least_heap(SEARCH, lambda size, _: GOOD if size >= 5 * MIB else bad)
    assert found.status is Status.OK
    assert found.values["min_heap_low_bytes"] < 5 * MIB <= found.values["min_heap_high_bytes"]
    assert found.values["trials"] == len(found.details["trials"])
    assert {told for _, told, _ in found.details["trials"]} == {"ok", str(status)}


def test_the_values_are_those_of_the_least_heap() -> None:
    def attempt(size: int, _first: Trial | None) -> Outcome:
        values = {"peak_reserved_bytes": float(size)}
        return Outcome(Status.OK, values=values) if size >= 5 * MIB else TOO_SMALL

    values = least_heap(SEARCH, attempt).values
    assert values["peak_reserved_bytes"] == values["min_heap_high_bytes"]


def test_what_never_fits_ends_with_a_status() -> None:
    found = least_heap(SEARCH, lambda *_: TOO_SMALL)
    assert found.status is Status.OUT_OF_MEMORY
    assert not found.values
    assert max(size for size, _, _ in found.details["trials"]) == 16 * MIB * MOST_GROWTH


def test_another_result_in_a_small_heap_is_no_fit() -> None:
    other = Outcome(Status.OK, output_sha256="b")
    found = least_heap(SEARCH, lambda size, _: GOOD if size > 8 * MIB else other)
    assert found.status is Status.WRONG_OUTPUT
    assert not found.values


def test_a_status_of_another_kind_ends_the_search() -> None:
    found = least_heap(SEARCH, lambda *_: Outcome(Status.NOT_LOADED, "another collector"))
    assert found.status is Status.NOT_LOADED
    assert len(found.details["trials"]) == 1


def test_trials_are_given_the_first_that_fitted() -> None:
    seen: list[Trial | None] = []

    def attempt(size: int, first: Trial | None) -> Outcome:
        seen.append(first)
        return GOOD if size >= 20 * MIB else TOO_SMALL

    least_heap(SEARCH, attempt)
    assert seen[:2] == [None, None]  # 16 MiB, and 32, which fits
    assert {first.heap_bytes for first in seen[2:] if first} == {32 * MIB}


# ---- interrupted searches ----


def test_a_search_goes_on_from_the_trials_that_were_kept(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    made: list[int] = []

    def attempt(size: int, _first: Trial | None) -> Outcome:
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(size)
        return GOOD if size >= 5 * MIB else TOO_SMALL

    def run() -> Outcome:
        known = kept_trials(path, "immix")
        return least_heap(SEARCH, attempt, known, lambda trial: keep_trial(path, "immix", trial))

    with pytest.raises(KeyboardInterrupt):
        run()
    assert [trial.heap_bytes for trial in kept_trials(path, "immix")] == made
    assert kept_trials(path, "semispace") == []
    path.write_bytes(path.read_bytes() + b'{"study": "least-heap-trial", "prog')  # a torn line
    before = len(made)
    made[:0] = [0]  # four are not all any more
    found = run()
    whole = least_heap(SEARCH, lambda size, _: GOOD if size >= 5 * MIB else TOO_SMALL)
    assert found.values == whole.values
    assert len(made) - 1 == whole.values["trials"]
    assert made[1 : 1 + before] == [size for size, _, _ in whole.details["trials"][:before]]


def test_a_damaged_file_of_trials_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    keep_trial(path, "immix", Trial(MIB, GOOD, 1.5))
    line = path.read_text()
    path.write_text(
        "[]\n{}\n\n" + line.replace('"heap_bytes": 1048576', '"heap_bytes": "x"') + line
    )
    (trial,) = kept_trials(path, "immix")
    assert trial == Trial(MIB, GOOD, 1.5)


def test_an_error_of_one_run_ends_those_beside_it() -> None:
    both_are_there = threading.Barrier(2)

    def fails() -> int:
        both_are_there.wait()
        raise ValueError("of one")

    def waits() -> int:
        from tare.observers.runner import _ending

        both_are_there.wait()
        assert _ending.wait(10)
        return 1

    with pytest.raises(ValueError, match="of one"):
        side_by_side([waits, fails])
    assert side_by_side([lambda: 1, lambda: 2]) == [1, 2]


@pytest.mark.parametrize("name", ["jvm.epsilon", "jvm.mmtk(plan=NoGC)", "go.off", "cpython.off"])
def test_what_never_collects_has_no_minimum_heap(name: str) -> None:
    with pytest.raises(UsageError, match="never collects"):
        check_collectors([resolve("jvm.mmtk(plan=Immix)"), resolve(name)])
