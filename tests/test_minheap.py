"""Least heaps: the bisection by itself, and searches with known answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare import replay
from tare.errors import UsageError
from tare.manager import Manager
from tare.measurement import Status
from tare.minheap import (
    MOST_HEAP,
    PAGE,
    Search,
    Trial,
    default_managers,
    interval_of,
    minheap,
    next_trial,
    observe,
)
from tare.program import Program
from tare.results import read_records
from tare.runner import Limits, Outcome
from tare.studies.minheap import PUBLISHED, published_ratios
from tests.test_mmtk import tangled, write_trace
from tests.traces import objects_frame

MIB = 1 << 20


def search(
    fits: Callable[[int], bool], guess: int, step: int, repeats: int = 1, most: int = 200
) -> list[Trial]:
    trials: list[Trial] = []
    while (size := next_trial(trials, guess, step, repeats)) is not None:
        assert size % PAGE == 0
        trials.append(Trial(size, fits(size)))
        assert len(trials) < most
    return trials


@given(
    least=st.integers(1, 1 << 34),
    guess=st.integers(1, 1 << 34),
    step=st.integers(PAGE, 1 << 24),
    repeats=st.integers(1, 4),
)
def test_the_least_heap_lies_in_the_interval(
    least: int, guess: int, step: int, repeats: int
) -> None:
    trials = search(lambda size: size >= least, guess, step, repeats)
    found = interval_of(trials)
    assert found.high is not None
    assert (found.low or 0) < least <= found.high
    assert found.high - (found.low or 0) <= max(step, PAGE)
    assert not found.varied
    for end in (found.high, found.low):
        assert end is None or sum(trial.heap_bytes == end for trial in trials) >= repeats


def test_few_trials_are_needed() -> None:
    trials = search(lambda size: size >= 5_000_000, guess=16 * MIB, step=50_000)
    assert len(trials) <= 12


@pytest.mark.parametrize("seed", range(10))
def test_an_answer_that_varies_widens_the_interval(seed: int) -> None:
    draw = random.Random(seed)
    never, always = 4 * MIB, 4 * MIB + 300_000

    def fits(size: int) -> bool:
        return size >= always or (size > never and draw.random() < 0.5)

    trials = search(fits, guess=16 * MIB, step=2 * PAGE, repeats=5)
    found = interval_of(trials)
    assert found.low is not None
    assert found.high is not None
    assert all(trial.fits for trial in trials if trial.heap_bytes >= found.high)
    assert not any(trial.fits for trial in trials if trial.heap_bytes <= found.low)
    # At 5 trials each end is right but once in 32 times, and then not by much.
    assert never - 3 * PAGE <= found.low < found.high <= always + 3 * PAGE


def test_what_fits_into_a_page_needs_a_page() -> None:
    found = interval_of(search(lambda _: True, guess=MIB, step=PAGE))
    assert (found.low, found.high) == (None, PAGE)


# ---- statuses ----


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Outcome]:
    """A search over replays whose outcome a function of the heap gives."""

    def run(outcome_of: Callable[[int], Outcome]) -> Outcome:
        def pretend(_p: Program, manager: Manager, *_: Any) -> Outcome:
            return outcome_of(int(manager.replayer[-1]))

        monkeypatch.setattr(replay, "run_once", pretend)
        manager = Manager("immix", replayer=("replayer",))
        watched = observe(Search(guess=16 * MIB, step=MIB // 4, repeats=2))
        return watched(Program("p", ("p",)), manager, Limits(), tmp_path, None)

    return run


def good(digest: str = "a") -> Outcome:
    values = {"peak_reserved_bytes": 1.0, "collections": 2.0}
    return Outcome(Status.OK, values=values, output_sha256=digest)


@pytest.mark.parametrize("status", [Status.OUT_OF_MEMORY, Status.TIMEOUT, Status.FAILED])
def test_how_a_heap_is_too_small_is_kept(pretended: Callable[..., Outcome], status: Status) -> None:
    found = pretended(lambda size: good() if size >= 5 * MIB else Outcome(status, "too small"))
    assert found.status is Status.OK
    assert found.values["min_heap_low_bytes"] < 5 * MIB <= found.values["min_heap_high_bytes"]
    assert found.values["trials"] == len(found.details["trials"])
    assert {told for _, told, _ in found.details["trials"]} == {"ok", str(status)}


def test_what_never_fits_ends_with_a_status(pretended: Callable[..., Outcome]) -> None:
    found = pretended(lambda _: Outcome(Status.OUT_OF_MEMORY, "too small"))
    assert found.status is Status.OUT_OF_MEMORY
    assert not found.values
    assert max(size for size, _, _ in found.details["trials"]) == 16 * MIB * MOST_HEAP


def test_another_graph_in_a_small_heap_is_no_fit(pretended: Callable[..., Outcome]) -> None:
    found = pretended(lambda size: good("a" if size > 8 * MIB else "b"))
    assert found.status is Status.WRONG_OUTPUT
    assert not found.values


def test_a_replayer_without_its_proof_ends_the_search(pretended: Callable[..., Outcome]) -> None:
    found = pretended(lambda _: Outcome(Status.NOT_LOADED, "another collector"))
    assert found.status is Status.NOT_LOADED
    assert len(found.details["trials"]) == 1


# ---- the real thing ----


def known(folder: Path, count: int = 20_000, size: int = 56) -> Path:
    """A trace of ``count`` objects that all live at the end, and as many that die at once."""
    rows: list[dict[str, int]] = []
    for number in range(1, count + 1):
        rows.append({"birth": 10 * number, "size": size})
        rows.append({"birth": 10 * number + 5, "size": size, "free": 10 * number + 6})
    return write_trace(folder, objects_frame(rows))


def test_copying_needs_two_heaps(tmp_path: Path) -> None:
    results = minheap(
        known(tmp_path / "t.tare"), ["semispace", "glibc"], repeats=2, folder=tmp_path / "out"
    )
    records = {r.run.manager: r.outcome for r in read_records(results.folder)}
    assert {outcome.status for outcome in records.values()} == {Status.OK}
    cells = 20_000 * (56 + 8)
    values = records["semispace"].values
    assert values["min_heap_low_bytes"] < 2 * cells * 1.03
    assert values["min_heap_high_bytes"] > 2 * cells * 0.97
    step = results.run["request"]["step"]
    assert 0 < values["min_heap_high_bytes"] - values["min_heap_low_bytes"] <= step
    assert values["trials"] >= 4
    # Half of the heap is kept free.
    assert values["copy_reserve_bytes"] == pytest.approx(
        values["peak_reserved_bytes"] / 2, rel=0.05
    )
    glibc = records["glibc"].values
    assert (
        glibc["min_heap_low_bytes"] == glibc["min_heap_high_bytes"] == glibc["peak_reserved_bytes"]
    )
    assert results.run["oracles"] == {"free": 20_001 * 56}


def test_marksweep_over_malloc_is_weighed_by_its_pages(tmp_path: Path) -> None:
    periods = {"32KiB": 32 << 10, "1MiB": MIB}
    names = {period: f"marksweep(glibc, every={period})" for period in periods}
    results = minheap(known(tmp_path / "t.tare"), list(names.values()), folder=tmp_path / "out")
    records = {r.run.manager: r.outcome for r in read_records(results.folder)}
    for period, every in periods.items():
        outcome = records[names[period]]
        assert outcome.status is Status.OK
        heap = outcome.values["min_heap_high_bytes"]
        assert heap == outcome.values["peak_active_bytes"]
        assert outcome.values["trials"] == 1
        # Half of what is born lives; the other half of it is garbage from the last collection on.
        born = 2 * 20_000 * 56
        last = born // every * every
        most = max(last / 2 + every / 2, born / 2 + (born - last) / 2)
        # glibc has 64 bytes for 56.
        assert heap == pytest.approx(most * 64 / 56, rel=0.02, abs=2 * PAGE), period


def test_the_defaults_can_all_be_had() -> None:
    resolved, baseline = replay.managers_of(default_managers())
    assert baseline == "glibc"
    assert {"immix", "mimalloc", "marksweep(mimalloc, every=64KiB)"} <= set(resolved)


def test_the_command_shows_intervals_and_limits(tmp_path: Path, tare: Any) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(3_000, seed=11))
    done = tare(
        *("minheap", "-m", "immix", "-m", "markcompact", "--step", "64KiB", "--repeats", "1"),
        *("-o", str(tmp_path / "out"), "--json", str(tmp_path / "r.json"), str(trace)),
    )
    assert done.returncode == 0, done.stderr
    assert "no manager: the program's" in done.stdout
    assert "published" in done.stdout.lower()
    rows = json.loads((tmp_path / "r.json").read_text())["measurements"]
    found = {(row["manager"], row["metric"]): row["value"] for row in rows}
    for manager in ("immix", "markcompact"):
        low, high = (found[manager, f"min_heap_{end}_bytes"] for end in ("low", "high"))
        assert 0 <= low < high <= low + (64 << 10)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Least heaps" in page
    assert "replayed" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-m", "immix(heap=1MiB)"], "leave out heap="),
        (["--step", "1KiB"], "a page"),
        (["--repeats", "0"], "once at least"),
        (["-m", "nothing"], "no manager"),
        (["--death", "last-use"], "--last-use"),
    ],
)
def test_wrong_usage(options: list[str], words: str, tmp_path: Path, tare: Any) -> None:
    trace = write_trace(tmp_path / "t.tare", objects_frame([{"birth": 10, "size": 8}]))
    done = tare("minheap", *options, "-o", str(tmp_path / "out"), str(trace))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_heap_that_is_sought_cannot_be_given(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.tare", objects_frame([{"birth": 10, "size": 8}]))
    with pytest.raises(UsageError):
        minheap(trace, ["semispace(heap=4MiB)"], folder=tmp_path / "out")


def test_published_ratios_are_those_of_the_table() -> None:
    found = published_ratios()
    assert list(found) == [
        "marksweep(mimalloc, every=128KiB)",
        "semispace",
        "gencopy",
        "immix",
    ]
    # Five of twelve need no more; xalan the most.
    assert found["marksweep(mimalloc, every=128KiB)"][1:] == pytest.approx((1.0, 13 / 11))
    # batik: 487/280; xalan: 18/11; fop: 41/21 is the largest.
    assert found["semispace"][2] == pytest.approx(53 / 27)
    assert found["immix"][1] == pytest.approx(24 / 25)
    assert all(least <= mean <= most for mean, least, most in found.values())
    assert len(PUBLISHED) == 14
