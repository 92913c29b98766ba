"""Events close to a collection: answers that are known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.base.errors import UsageError
from tare.studies.proximity import question as command
from tare.studies.proximity.analysis import (
    APART,
    COLLECTION,
    EVERYWHERE,
    KINDS,
    MAGIC,
    OTHER,
    RANKS,
    WORDS,
    Events,
    Halts,
    after,
    distances,
    extremes,
    fakes,
    groups,
    halts,
    interrupted,
    medians,
    read_recorded,
    relative,
    typical,
)
from tare.studies.proximity.report import Point, cause, combined

KEYS = 64
GAP = 1_000
COLLECTION_NS = 50_000
SLOWER = (1.7, 1.2, 1.1, 1.05)
"""What the first events after a stop cost, by the median of their key."""


def simulated(
    count: int = 40_000,
    every: int = 100,
    factors: Sequence[float] = SLOWER,
    *,
    slow_periods: bool = True,
    noise: float = 0.1,
    seed: int = 3,
) -> tuple[Events, Halts]:
    """Events on one thread, with a collection after each ``every`` of them, after which the events
    take ``factors`` times as long. A machine with slow periods takes half as long again in a third
    of the time."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, KEYS, count)
    wall = (10_000 + 5_000 * key) * rng.lognormal(0, noise, count)
    if slow_periods:
        wall *= np.where(np.sin(np.arange(count) / 700) > 0.5, 1.5, 1.0)
    since = np.arange(count) % every
    for rank, factor in enumerate(factors):
        wall[(since == rank) & (np.arange(count) >= every)] *= factor
    took = wall.astype(np.int64)
    pause = np.where((since == 0) & (np.arange(count) >= every), COLLECTION_NS, 0)
    start = 10**9 + np.cumsum(pause + GAP) + np.concatenate([[0], np.cumsum(took)[:-1]])
    events = Events(start, took, took // 2, key, np.full(count, 7))
    ends = start[pause > 0] - GAP
    return events, halts([(int(e) - COLLECTION_NS + 1, int(e), COLLECTION) for e in ends])


def curve(events: Events, stops: Halts, places: Any) -> list[list[float]]:
    ratios = relative(events.wall, events.key, ~interrupted(events, stops))
    found = medians(ratios, places, 0)
    assert all(point is not None for point in found)
    return [point for point in found if point is not None]


def test_known_effects_are_found() -> None:
    events, stops = simulated()
    found = curve(events, stops, after(events, stops).of(COLLECTION))
    for point, factor in zip(found, (*SLOWER, *[1.0] * (RANKS - len(SLOWER))), strict=True):
        assert point[0] == pytest.approx(factor, rel=0.03)
        assert point[1] <= point[0] <= point[2]
        assert point[3] == len(stops)


@pytest.mark.parametrize("seed", range(4))
def test_the_null_is_one(seed: int) -> None:
    """On a machine with slow periods as well: within 2% for each of the next 20 events."""
    events, stops = simulated(count=100_000, every=200, seed=seed)
    places = fakes(events, stops, 1000)
    assert len(places) == 1000
    found = curve(events, stops, places)
    assert len(found) == 20
    assert all(abs(point[0] - 1) <= 0.02 for point in found)


def test_fakes_keep_away_from_stops() -> None:
    events, stops = simulated(count=5_000, every=100)
    first = np.searchsorted(events.start, stops.end)
    for line in fakes(events, stops, 50):
        assert (np.diff(line) == 1).all()
        gaps = line[0] - first
        assert gaps[gaps >= 0].min(initial=APART) >= APART
        assert not ((first > line[0]) & (first < line[-1])).any()


def test_no_room_for_fakes() -> None:
    events, stops = simulated(count=2_000, every=30)
    # The first collection comes after 60 events.
    assert len(fakes(events, stops, 500)) <= 1


def test_close_stops_are_left_out() -> None:
    events, stops = simulated(count=1_000, every=10)
    # Only the first has enough events before it.
    assert len(after(events, stops).of(COLLECTION)) <= 1


def test_ranks_end_at_the_next_stop() -> None:
    events, stops = simulated(count=90, every=25)
    places = after(events, stops).of(COLLECTION)
    assert places[0].tolist() == list(range(25, 45))
    events, stops = simulated(count=60, every=25)
    places = after(events, stops).of(COLLECTION)
    assert places[1].tolist() == [*range(50, 60), *[-1] * 10]


def test_kinds_and_threads_are_kept_apart() -> None:
    count = 400
    one = np.arange(count) * 10 + 1000
    events = Events(
        np.concatenate([one, one + 5]),
        np.full(2 * count, 2),
        np.full(2 * count, 2),
        np.zeros(2 * count, np.int64),
        np.repeat([1, 2], count),
    )
    own = Halts(*(np.array([value]) for value in (1990, 1999, KINDS.index("spin"), 1)))
    stops = halts([(3000, 3009, COLLECTION)]).joined(own)
    found = after(events, stops)
    assert found.of("spin").tolist() == [list(range(100, 120))]  # the other thread went on
    assert len(found.of(COLLECTION)) == 2
    assert events.thread[found.of(COLLECTION)[:, 0]].tolist() == [1, 2]
    assert found.of("park").shape == (0, RANKS)


@pytest.mark.parametrize(
    ("start", "end", "hit"),
    [
        (0, 50, []),
        (0, 100, [0]),
        (105, 106, [0]),
        (110, 111, [0]),
        (111, 199, []),
        (90, 300, [0, 1]),
        (211, 400, []),
    ],
)
def test_interrupted_events(start: int, end: int, hit: list[int]) -> None:
    events = Events(*(np.array(part) for part in ([100, 200], [10, 10], [1, 1], [0, 0], [1, 1])))
    assert np.flatnonzero(interrupted(events, halts([(start, end, OTHER)]))).tolist() == hit


def test_a_long_stop_before_a_short_one_is_seen() -> None:
    events = Events(*(np.array(part) for part in ([100], [10], [1], [0], [1])))
    stops = halts([(0, 500, COLLECTION), (20, 30, OTHER)])
    assert interrupted(events, stops).tolist() == [True]


def test_a_stop_of_another_thread_does_not_interrupt() -> None:
    events = Events(*(np.array(part) for part in ([100, 100], [10, 10], [1, 1], [0, 0], [1, 2])))
    own = replace(halts([(90, 120, "spin")]), thread=np.array([2]))
    assert interrupted(events, own).tolist() == [False, True]
    assert interrupted(events, replace(own, thread=np.array([EVERYWHERE]))).all()


def test_what_is_typical_of_a_key() -> None:
    values = np.array([10, 20, 60, 5, 7])
    key = np.array([1, 1, 1, 2, 3])
    kept = np.array([True, True, False, True, False])
    assert typical(values, key, kept)[:4].tolist() == [15, 15, 15, 5]
    assert np.isnan(typical(values, key, kept)[4])


def test_relative_to_the_own_median() -> None:
    values = np.array([10, 20, 30, 5, 7, 0, 0])
    key = np.array([1, 1, 1, 2, 2, 3, 3])
    kept = np.array([True, True, True, True, False, True, True])
    found = relative(values, key, kept)
    assert found[:4].tolist() == [0.5, 1.0, 1.5, 1.0]
    assert np.isnan(found[4:]).all()  # not kept; a median of 0


def test_no_events_no_stops() -> None:
    events, stops = simulated(count=200, every=50)
    nothing = events.where(np.zeros(len(events), bool))
    assert len(after(nothing, stops).places) == 0
    assert len(fakes(nothing, stops, 10)) == 0
    none = halts([])
    assert not interrupted(events, none).any()
    assert len(after(events, none).places) == 0
    assert medians(np.ones(200), after(events, none).places, 0) == [None] * RANKS


# ---- by distance in time ----


def far(events: Events, stops: Halts) -> Any:
    cut = interrupted(events, stops)
    return distances(events, stops, cut, relative(events.wall, events.key, ~cut))


def test_groups_show_the_first_events() -> None:
    events, stops = simulated(slow_periods=False, noise=0.02, every=100)
    found = groups(far(events, stops), 0, wanted=100)
    assert found is not None
    assert len(found.wall) == len(found.distance) == len(found.relative) == 100
    assert found.wall.min() == 1.0
    assert found.relative[0] == pytest.approx(SLOWER[0], rel=0.05)
    assert found.relative[10:].mean() == pytest.approx(1.0, abs=0.01)
    assert (np.diff(found.distance) > 0).all()
    assert 1.0 < found.chance < 1.5
    assert found.best == pytest.approx(events.wall[30:].mean(), rel=0.2)


def test_slow_periods_look_like_an_effect_of_distance() -> None:
    """Why the ranks are what the answer rests on: nothing follows a collection here."""
    events, stops = simulated(factors=(), every=100, count=100_000)
    found = groups(far(events, stops), 0, wanted=50)
    assert found is not None
    assert found.relative[-1] > 1.2
    by_rank = curve(events, stops, after(events, stops).of(COLLECTION))
    assert all(abs(point[0] - 1) < 0.03 for point in by_rank)


def test_the_fastest_lie_far_where_the_first_are_slow() -> None:
    slow_first = (2.0,) * 30
    events, stops = simulated(factors=slow_first, every=100, slow_periods=False, count=100_000)
    found = extremes(far(events, stops), 0)
    assert found is not None
    assert found.keys == KEYS
    assert found.worst < 0.5 * found.worst_by_chance
    assert found.best > found.best_by_chance
    for shares in found.density.values():
        assert 0.9 < shares.sum() <= 1.0


def test_too_few_events_give_no_groups() -> None:
    events, stops = simulated(count=60, every=25)
    assert groups(far(events, stops), 0) is None
    assert extremes(far(events, stops), 0) is None


# ---- the file of the agent ----


def written(path: Path, rows: Sequence[Sequence[int]], head: Sequence[int] = ()) -> Path:
    first = [*(head or (MAGIC, len(rows), 1, 0)), 0, 0][:WORDS]
    np.array([first, *rows], dtype="<i8").tofile(path)
    return path


def test_a_recording_is_read(tmp_path: Path) -> None:
    rows = [
        [1, 300, 5, 4, 11, 2],
        [1, 100, 6, 5, 12, 1],
        [0, 0, 0, 0, 0, 0],
        [2, 400, 50, 0, 0, 2],
        [4, 200, 60, 0, 0, 1],
    ]
    found = read_recorded(written(tmp_path / "e", rows, (MAGIC, 5, 2, 9)), 5)
    assert found.events.start.tolist() == [100, 300]
    assert found.events.end.tolist() == [106, 305]
    assert found.events.key.tolist() == [12, 11]
    assert found.halts.end.tolist() == [260, 450]
    assert [KINDS[kind] for kind in found.halts.kind] == ["stop", "spin"]
    assert found.halts.thread.tolist() == [EVERYWHERE, 2]  # the first stops all threads
    assert (found.methods, found.dropped) == (2, 9)


@pytest.mark.parametrize(
    ("rows", "head"),
    [
        ([[1, 100, 5, 5, 0, 1]], (1, 1, 1, 0)),
        ([[9, 100, 5, 5, 0, 1]], ()),
        ([[-1, 100, 5, 5, 0, 1]], ()),
        ([[1, 0, 5, 5, 0, 1]], ()),
        ([[1, 100, -5, 5, 0, 1]], ()),
        ([[1, 100, 5, -5, 0, 1]], ()),
        ([[1, 100, 5, 5, 0, 1]] * 6, ()),
    ],
)
def test_a_damaged_recording_is_refused(
    rows: list[list[int]], head: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="events"):
        read_recorded(written(tmp_path / "events", rows, head), 5)


@pytest.mark.parametrize("content", [b"", b"x" * 47, b"x" * 50])
def test_what_is_no_recording_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="events"):
        read_recorded(path, 5)


# ---- the answer ----


def point(middle: float, spread: float = 0.05) -> Point:
    return Point(middle, middle - spread, middle + spread, 100)


@pytest.mark.parametrize(
    ("collection", "controls", "answer"),
    [
        (point(1.7), {"spin": point(1.1), "park": point(1.2)}, "the collection itself"),
        (point(1.7), {"stop": point(1.65), "park": point(1.2)}, "any pause"),
        (point(1.2), {"spin": point(1.6), "park": point(1.7)}, "less than a pause"),
        (point(1.2), {"spin": point(1.1), "park": point(1.7)}, "any pause"),
        (point(1.04), {"park": point(1.7)}, "nothing"),
        (point(0.9), {"park": point(1.7)}, "nothing"),
        (point(1.7), {"spin": point(1.1)}, ""),  # a spin keeps its core
        (point(1.7), {}, ""),
    ],
)
def test_the_cause(collection: Point, controls: dict[str, Point], answer: str) -> None:
    assert cause(collection, controls, point(1.0, 0.01)) == answer


def test_invocations_are_combined() -> None:
    curves: list[list[list[float] | None]] = [
        [[1.5, 1.4, 1.6, 10], None, [1.0, 0.9, 1.1, 5]],
        [[1.7, 1.6, 1.8, 20], None, None],
        [[1.6, 1.2, 1.7, 30], None, None],
    ]
    assert combined(curves) == [Point(1.6, 1.2, 1.8, 60), None, Point(1.0, 0.9, 1.1, 5)]


@pytest.mark.parametrize(
    ("program", "events", "managers", "collections", "said"),
    [
        ("java", [], ["marksweep(glibc)"], [], "is named as an event"),
        ("java", ["a.b"], ["marksweep(glibc)"], [], "is not a collector of a JVM"),
        ("java", ["a.b"], [], [3], "are not possible"),
        ("java", ["a.b"], ["jvm.zgc"], [10], "cannot be set"),
        ("java", ["a.b"], ["jvm.g1(young=8MiB)"], [10], "sets how often it collects"),
        ("true", [], ["glibc"], [], "glibc collects nothing"),
        ("true", [], ["jvm.serial"], [], "no method is named"),
        ("true", [], ["marksweep(glibc, every=1MiB)"], [10], "sets how often it collects"),
    ],
)
def test_what_does_not_go_together(
    program: str,
    events: list[str],
    managers: list[str],
    collections: list[int],
    said: str,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "out"
    with pytest.raises(UsageError, match=said):
        command.proximity([program], events, managers, collections=collections, folder=folder)
    assert not folder.exists()
