"""Latency of events against what stopped the program before them: pure functions on arrays.

All times are nanoseconds of CLOCK_MONOTONIC. Events are calls of a timed method, or what a program
tells of itself, one after another on each thread. A halt is anything that stopped a thread: a
collection, a pause that was put in on purpose, another stop. Events are ranked by their number
since the last halt, so a slow period of the machine does not fall to some ranks more than to
others; and each is divided by the median of all events that do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tare.base import statistics
from tare.base.errors import UsageError
from tare.base.libraries import NDArray, np

Ints: TypeAlias = "NDArray[np.int64]"
Floats: TypeAlias = "NDArray[np.float64]"
Bools: TypeAlias = "NDArray[np.bool_]"

RANKS = 20
"""Events after a halt that are looked at, one by one."""
APART = 20
"""Events that have to lie between a halt and the one before, or their effects would mix."""
FEWEST_FOR_MEDIAN = 6
"""With fewer values their least and greatest are no 95% interval of the median."""
GROUPS = 1000
FEWEST_IN_GROUP = 20
"""There are fewer groups where this many events for each are not there."""
EXTREME_SHARE = 0.05
FEWEST_OF_A_KEY = 20
"""Events that do the same, for their fastest and slowest ``EXTREME_SHARE`` to be told."""
BINS = 40
"""Of a density over distances."""
EVERYWHERE = -1
"""The thread of a halt that stops all of them."""

COLLECTION, OTHER = "collection", "other"
CONTROLS = ("spin", "park", "stop")
"""Pauses without a collection: of the thread of the events the first two, the last of all."""
KINDS = (COLLECTION, *CONTROLS, OTHER)

MAGIC = 0x3154564545524154
WORDS = 6
_EVENT = 1
_PAUSES = {2: "spin", 3: "park", 4: "stop"}


@dataclass(frozen=True)
class Events:
    """Arrays of one length. ``key`` is the same for events that do the same; ``cpu`` is 0 where it
    is not known."""

    start: Ints
    wall: Ints
    cpu: Ints
    key: Ints
    thread: Ints

    @property
    def end(self) -> Ints:
        ends: Ints = self.start + self.wall
        return ends

    def __len__(self) -> int:
        return self.start.size

    def where(self, chosen: Bools | Ints) -> Events:
        return Events(
            *(part[chosen] for part in (self.start, self.wall, self.cpu, self.key, self.thread))
        )


@dataclass(frozen=True)
class Halts:
    """Arrays of one length; ``kind`` is a place in ``KINDS``, ``thread`` may be ``EVERYWHERE``."""

    start: Ints
    end: Ints
    kind: Ints
    thread: Ints

    def __len__(self) -> int:
        return self.start.size

    def of(self, kind: str) -> Halts:
        return self.where(self.kind == KINDS.index(kind))

    def where(self, chosen: Bools | Ints) -> Halts:
        return Halts(*(part[chosen] for part in (self.start, self.end, self.kind, self.thread)))

    def joined(self, other: Halts) -> Halts:
        """Both, by their ends."""
        both = Halts(
            np.concatenate([self.start, other.start]),
            np.concatenate([self.end, other.end]),
            np.concatenate([self.kind, other.kind]),
            np.concatenate([self.thread, other.thread]),
        )
        return both.where(np.argsort(both.end, kind="stable"))


@dataclass(frozen=True)
class Recorded:
    """What the agent wrote, or a program itself. ``methods`` are timed, ``dropped`` events found no
    room. ``server`` is the process that serves the events, 0 for the one that wrote."""

    events: Events
    halts: Halts
    methods: int
    dropped: int
    server: int = 0


def halts(intervals: Sequence[tuple[int, int, str]]) -> Halts:
    """Halts of all threads, given as start, end and kind."""
    ordered = sorted(intervals, key=lambda each: each[1])
    return Halts(
        np.array([each[0] for each in ordered], dtype=np.int64),
        np.array([each[1] for each in ordered], dtype=np.int64),
        np.array([KINDS.index(each[2]) for each in ordered], dtype=np.int64),
        np.full(len(ordered), EVERYWHERE, dtype=np.int64),
    )


def read_recorded(path: Path, most_records: int) -> Recorded:
    """What the agent or a program left in a file; UsageError where that is damaged."""
    if not path.is_file():
        raise UsageError(f"{path.name}: no events were written")
    size = path.stat().st_size
    if size % (8 * WORDS) or not 8 * WORDS <= size <= 8 * WORDS * (most_records + 1):
        raise UsageError(f"{path.name} is not a file of events: it has {size} bytes")
    words = np.memmap(path, dtype="<i8", mode="r").reshape(-1, WORDS)
    if words[0, 0] != MAGIC:
        raise UsageError(f"{path.name} is not a file of events")
    rows = words[1:]
    rows = rows[rows[:, 0] != 0].astype(np.int64)
    what, start, wall, cpu, key, thread = rows.T
    known = (what >= _EVENT) & (what <= max(_PAUSES))
    if not known.all() or (start <= 0).any() or (wall < 0).any() or (cpu < 0).any():
        raise UsageError(f"{path.name}: the events are damaged")
    events = Events(start, wall, cpu, key, thread).where(what == _EVENT)
    events = events.where(np.argsort(events.start, kind="stable"))
    kinds = np.array([KINDS.index(_PAUSES.get(code, OTHER)) for code in range(max(_PAUSES) + 1)])
    where = np.where(kinds[what] == KINDS.index("stop"), EVERYWHERE, thread)
    pauses = Halts(start, start + wall, kinds[what], where).where(what != _EVENT)
    pauses = pauses.where(np.argsort(pauses.end, kind="stable"))
    return Recorded(events, pauses, *(int(words[0, place]) for place in (2, 3, 4)))


def joined_events(parts: Sequence[Events]) -> Events:
    """Events of several processes, by their starts."""
    names = ("start", "wall", "cpu", "key", "thread")
    both = Events(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    return both.where(np.argsort(both.start, kind="stable"))


def interrupted(events: Events, stops: Halts) -> Bools:
    """Which events a halt overlaps."""
    hit = np.zeros(len(events), dtype=np.bool_)
    for thread in np.unique(stops.thread):
        mine = stops.where(stops.thread == thread)
        own = slice(None) if thread == EVERYWHERE else events.thread == thread
        starts = np.sort(mine.start)
        # The end of the last halt that began before an event's end, and of those before it.
        ends = mine.end[np.argsort(mine.start, kind="stable")]
        reached = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(ends)])
        begun = np.searchsorted(starts, events.end[own], side="right")
        hit[own] |= reached[begun] >= events.start[own]
    return hit


def typical(values: Ints, key: Ints, kept: Bools) -> Floats:
    """For each event the median of the kept values of its key; NaN where none is kept."""
    found = np.full(values.size, np.nan)
    order = np.argsort(key, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        if kept[same].any():
            found[same] = np.median(values[same][kept[same]])
    return found


def relative(values: Ints, key: Ints, kept: Bools) -> Floats:
    """Each value by the median of the kept values of its key; NaN where that is not above 0, and
    of values that are not kept."""
    middle = typical(values, key, kept)
    counts = kept & (middle > 0)
    found = np.full(values.size, np.nan)
    found[counts] = values[counts] / middle[counts]
    return found


@dataclass(frozen=True)
class After:
    """The places of the events that follow halts: a line for each halt, a column for each rank; -1
    where another halt came before."""

    kind: Ints
    places: Ints

    def of(self, kind: str) -> Ints:
        chosen: Ints = self.places[self.kind == KINDS.index(kind)]
        return chosen


def after(events: Events, stops: Halts, ranks: int = RANKS, apart: int = APART) -> After:
    """The events that follow each halt, on each thread that it stops. Halts with fewer than
    ``apart`` events since the one before are left out."""
    kinds: list[Ints] = []
    lines: list[Ints] = []
    for thread in np.unique(events.thread):
        mine = np.flatnonzero(events.thread == thread)
        stopped = stops.where((stops.thread == thread) | (stops.thread == EVERYWHERE))
        first = np.searchsorted(events.start[mine], stopped.end, side="left")
        since = np.concatenate([first[:1], np.diff(first)])
        until = np.concatenate([first[1:], [mine.size]])
        chosen = since >= apart
        places = first[chosen, None] + np.arange(ranks)
        inside = places < until[chosen, None]
        lines.append(np.where(inside, mine[np.minimum(places, mine.size - 1)], -1))
        kinds.append(stopped.kind[chosen])
    if not lines:
        return After(np.empty(0, np.int64), np.empty((0, ranks), np.int64))
    return After(np.concatenate(kinds), np.concatenate(lines))


def fakes(
    events: Events, stops: Halts, wanted: int, ranks: int = RANKS, apart: int = APART
) -> Ints:
    """As the places of ``after``, for halts that never were: evenly spread over the events of each
    thread, where no real one is near."""
    lines: list[Ints] = []
    threads = np.unique(events.thread)
    for thread in threads:
        mine = np.flatnonzero(events.thread == thread)
        stopped = stops.where((stops.thread == thread) | (stops.thread == EVERYWHERE))
        first = np.searchsorted(events.start[mine], stopped.end, side="left")
        place = np.arange(mine.size)
        before = np.searchsorted(first, place, side="right")
        last = np.concatenate([[0], first])[before]
        following = np.concatenate([first, [mine.size]])[before]
        free = place[(place - last >= apart) & (following - place >= ranks)]
        count = min(-(-wanted // threads.size), free.size // ranks)
        if count:
            chosen = free[np.linspace(0, free.size - 1, count).astype(np.int64)]
            lines.append(mine[chosen[:, None] + np.arange(ranks)])
    return np.concatenate(lines) if lines else np.empty((0, ranks), np.int64)


def medians(values: Floats, places: Ints, seed: int) -> list[list[float] | None]:
    """By rank: the median of the values at the places, its bounds and how many there were; None
    where they are too few."""
    found: list[list[float] | None] = []
    for column in places.T:
        sample = values[column[column >= 0]]
        sample = sample[~np.isnan(sample)]
        if sample.size < FEWEST_FOR_MEDIAN:
            found.append(None)
            continue
        interval = statistics.median_interval(sample.tolist(), seed)
        found.append(
            [interval.median, interval.low, interval.high, float(sample.size)] if interval else None
        )
    return found


@dataclass(frozen=True)
class Distances:
    """Events after a collection that were not interrupted, with the ns since its end."""

    distance: Ints
    wall: Ints
    relative: Floats
    key: Ints


def distances(events: Events, collections: Halts, cut: Bools, ratios: Floats) -> Distances:
    """``cut`` are the events that were interrupted, ``ratios`` those of ``relative``."""
    ends = np.sort(collections.end)
    last = np.searchsorted(ends, events.start, side="right") - 1
    chosen = (last >= 0) & ~cut & ~np.isnan(ratios)
    return Distances(
        events.start[chosen] - ends[last[chosen]],
        events.wall[chosen],
        ratios[chosen],
        events.key[chosen],
    )


@dataclass(frozen=True)
class Groups:
    """Equal groups by distance: the mean distance in ns, the mean wall time by that of the best
    group, ``best`` in ns, and the mean of the events by their own medians. ``chance`` is the mean
    wall time of the worst of as many groups by that of the best when events are dealt out at
    random."""

    distance: Floats
    wall: Floats
    relative: Floats
    best: float
    chance: float


def groups(of: Distances, seed: int, wanted: int = GROUPS) -> Groups | None:
    """None where there are too few events for two groups."""
    count = min(wanted, of.distance.size // FEWEST_IN_GROUP)
    if count < 2:
        return None
    size = of.distance.size // count * count
    order = np.argsort(of.distance, kind="stable")[:size]

    def means(values: NDArray[np.generic]) -> Floats:
        found: Floats = values.astype(np.float64).reshape(count, -1).mean(axis=1)
        return found

    wall = means(of.wall[order])
    dealt = means(of.wall[np.random.default_rng(seed).permutation(order)])
    return Groups(
        means(of.distance[order]),
        wall / wall.min(),
        means(of.relative[order]),
        float(wall.min()),
        float(dealt.max() / dealt.min()),
    )


@dataclass(frozen=True)
class Extremes:
    """Where the fastest and the slowest events of each key lie: the median of their distances by
    that of all of the key, as a geometric mean over keys, and the same with distances dealt out at
    random; and how their distances, by their key's median, are spread over ``edges``."""

    keys: int
    best: float
    worst: float
    best_by_chance: float
    worst_by_chance: float
    edges: Floats
    density: dict[str, Floats]


def extremes(of: Distances, seed: int) -> Extremes | None:
    """None where no key has ``FEWEST_OF_A_KEY`` events with distances above 0."""
    rng = np.random.default_rng(seed)
    order = np.argsort(of.key, kind="stable")
    logs: list[list[float]] = []
    spread: dict[str, list[Floats]] = {"all": [], "best": [], "worst": []}
    for same in np.split(order, np.flatnonzero(np.diff(of.key[order])) + 1):
        far = of.distance[same]
        median = float(np.median(far)) if same.size >= FEWEST_OF_A_KEY else 0.0
        if median <= 0:
            continue
        by_time = np.argsort(of.wall[same], kind="stable")
        few = max(1, round(same.size * EXTREME_SHARE))
        dealt = rng.permutation(far)
        parts = (far[by_time[:few]], far[by_time[-few:]], dealt[:few], dealt[-few:])
        shares = [float(np.median(part)) / median for part in parts]
        if min(shares) <= 0:
            continue
        logs.append([float(np.log(share)) for share in shares])
        for name, values in zip(spread, (far, *parts[:2]), strict=True):
            spread[name].append(values / median)
    if not logs:
        return None
    best, worst, best_by_chance, worst_by_chance = np.exp(np.mean(logs, axis=0)).tolist()
    edges = np.linspace(0.0, 3.0, BINS + 1)
    density = {
        name: np.histogram(np.concatenate(values), edges)[0] / sum(map(len, values))
        for name, values in spread.items()
    }
    return Extremes(len(logs), best, worst, best_by_chance, worst_by_chance, edges, density)
