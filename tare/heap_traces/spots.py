"""The places in a program that allocate, with what their objects are held for at the peak."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tare.base.libraries import NDArray, np, pl
from tare.heap_traces.frames import is_interpreter, is_of_system, places_of
from tare.heap_traces.residence import (
    Process,
    in_slices,
    is_unneeded,
    moments,
    named_sites,
    not_needed,
)
from tare.heap_traces.trace import Trace
from tare.records.actions import Place

SMALL_BYTES = 1024
SOON_BYTES = 64 << 10
"""An object that is freed before so much more is allocated was short-lived: what a stack, an arena
or a pool of a few pages holds."""
TOGETHER = 0.5
"""Two places hold parts of one structure where their objects are born, and freed, in turns: the
shorter of their times overlaps the longer by this share at least."""
AT_ONCE = 1000
"""Steps of the clock in which a container and what it holds are made or freed, one after the
other."""
_MOST_SITES = 4096
"""Call sites that are given a place: those that matter most."""
_SUMS = (
    *("objects", "bytes", "held_bytes", "idle_bytes", "unfreed_bytes", "torn_bytes"),
    *("unneeded_bytes", "untouched_bytes", "soon", "crossing"),
)
_IN_VAIN = ("idle_bytes", "unneeded_bytes", "untouched_bytes")
_CALLS = ("soon", "crossing")
NEARLY_ALL = 0.9
_EARLIEST, _LATEST = ("born_first", "ended_first"), ("born_last", "ended_last")


@dataclass
class Spot:
    """A place, with its call sites, the largest first, and sums over their objects: ``held`` at the
    peak, ``idle`` then (needed no more), ``unfreed`` of these, ``torn`` (used in their teardown) of
    these, ``unneeded`` (at no time, and yet held), ``untouched`` (beyond what is ever used of those
    that are needed, held at the peak), freed ``soon``, and ``crossing`` (freed by
    another thread). ``times`` are those of the idle ones. ``others`` are places whose objects are
    parts of the same structure, which its sums include. ``callers`` are the places that called it,
    with what each has of the unused bytes, and of the calls."""

    place: Place
    sites: list[int] = field(default_factory=list)
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    times: dict[str, int] = field(default_factory=dict)
    others: list[Place] = field(default_factory=list)
    callers: dict[Place, NDArray[np.int64]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any], caller: Place | None = None) -> None:
        self.sites.append(row["site"])
        self._include(row, row)
        if caller is not None:
            weight = [sum(row[name] for name in names) for names in (_IN_VAIN, _CALLS)]
            self.callers[caller] = self.callers.get(caller, np.zeros(2, np.int64)) + weight

    def join(self, other: Spot) -> None:
        self.sites += other.sites
        self.others += [other.place, *other.others]
        self._include(other.sums, other.times)

    def _include(self, sums: Mapping[str, Any], times: Mapping[str, Any]) -> None:
        for name in _SUMS:
            self.sums[name] += int(sums[name])
        for names, choose in ((_EARLIEST, min), (_LATEST, max)):
            for name in names:
                if times.get(name) is not None:
                    self.times[name] = choose(self.times.get(name, times[name]), times[name])

    @property
    def caller(self) -> Place | None:
        """Of a place that several others call, the one from which nearly all of it comes that is
        worth a change: unused bytes or, where there are none, the calls."""
        if len(self.callers) < 2:
            return None
        measure = 0 if sum(weight[0] for weight in self.callers.values()) else 1
        weights = {place: int(weight[measure]) for place, weight in self.callers.items()}
        most = max(weights, key=weights.__getitem__)
        return most if weights[most] > NEARLY_ALL * sum(weights.values()) else None

    @property
    def is_single(self) -> bool:
        """Whether its objects are made at once."""
        return self.times["born_last"] - self.times["born_first"] <= AT_ONCE

    @property
    def is_unfreed(self) -> bool:
        return 2 * self.sums["unfreed_bytes"] > self.sums["idle_bytes"]


def by_site(objects: pl.LazyFrame, process: Process, moment: int) -> pl.DataFrame:
    """A row per call site, with what ``Spot`` has, the peak being at ``moment``."""
    at = moments(process, process.order)
    now, size = pl.lit(moment, pl.UInt64), pl.col("size").cast(pl.Int64)
    held = (at["birth"] <= now) & (now < at["end"])
    unneeded = is_unneeded(process)
    idle = held & ~unneeded & (now >= not_needed(process))
    freed = pl.col("free_bytes").is_not_null()
    soon = (
        freed
        & (pl.col("size") <= SMALL_BYTES)
        & (pl.col("free_bytes") - pl.col("birth_bytes") <= SOON_BYTES)
        & (pl.col("free_operation").fill_null("free") == "free")
        & pl.col("resized_from").is_null()
    )
    crossing = (pl.col("free_thread") != pl.col("thread")).fill_null(value=False)
    torn = pl.col(f"before_teardown_{process.order}").is_not_null()
    values = {
        "objects": pl.lit(1),
        "bytes": size,
        "held_bytes": held * size,
        "idle_bytes": idle * size,
        "unfreed_bytes": (idle & ~freed) * size,
        "torn_bytes": (idle & torn) * size,
        "unneeded_bytes": (held & unneeded) * size,
        "untouched_bytes": (held & ~unneeded) * untouched(),
        "soon": soon & ~crossing,
        "crossing": crossing,
    }
    columns = {name: values[name].cast(pl.Int64) for name in _SUMS}
    for moment_name, name in (("birth", "born"), ("end", "ended")):
        when = pl.when(idle).then(at[moment_name])
        columns |= {f"{name}_first": when, f"{name}_last": when}
    merged = [
        *(pl.col(name).sum() for name in _SUMS),
        *(pl.col(name).min() for name in _EARLIEST),
        *(pl.col(name).max() for name in _LATEST),
    ]
    site = pl.col("site").fill_null(0).cast(pl.Int64)

    def summed(part: pl.LazyFrame) -> pl.LazyFrame:
        named = (each.alias(name) for name, each in columns.items())
        return part.select(site, *named).group_by("site").agg(merged)

    return in_slices(
        objects,
        process.start,
        process.rows,
        summed,
        lambda parts: parts.group_by("site").agg(merged),
    )


def untouched() -> pl.Expr:
    """Bytes of an object behind the last one that was ever used; 0 where that was not recorded."""
    size = pl.col("size").cast(pl.Int64)
    return size - pl.col("touched").fill_null(pl.col("size")).cast(pl.Int64)


def spots(trace: Trace, process: Process, table: pl.DataFrame) -> list[Spot]:
    """The places of the sites in ``table``, as ``by_site`` gives it. What lies in libraries of the
    system alone has none: there is nothing to change there."""
    weight = pl.max_horizontal("held_bytes", pl.col("objects"))
    largest = (
        table.filter(pl.col("site") > 0)
        .sort([weight, pl.col("site")], descending=[True, False])
        .head(_MOST_SITES)
    )
    rows = [{**row, "process": process.number} for row in largest.iter_rows(named=True)]
    named_sites(rows, trace)
    found: dict[Place, Spot] = {}
    for row in rows:
        place, caller, *_ = *itertools.islice(places_of(row["frames"]), 2), None, None
        if place is not None and is_changeable(place):
            found.setdefault(place, Spot(place)).add(row, caller)
    return list(found.values())


def is_changeable(place: Place) -> bool:
    """Whether a place is in the program, or in a library that is not the system's. A function of an
    interpreter is no place in the program that it runs."""
    return not is_of_system(place.module) and not is_interpreter(place.module)


def described(place: Place) -> dict[str, Any]:
    """As JSON has it."""
    return {name: getattr(place, name) for name in place.__struct_fields__}


def described_spot(spot: Spot) -> dict[str, Any]:
    """Of every change: where it is, and of how many objects and bytes."""
    return {
        "place": described(spot.place),
        "caller": described(spot.caller) if spot.caller is not None else None,
        "objects": spot.sums["objects"],
        "bytes": spot.sums["bytes"],
    }


def structures(found: Sequence[Spot]) -> list[Spot]:
    """The same with parts of one structure made one spot, at the place of what holds it together:
    of that whose objects are read while they are freed, for what they point to."""
    groups: list[list[Spot]] = []
    for spot in sorted(found, key=lambda spot: -spot.sums["idle_bytes"]):
        mine = [group for group in groups if any(_are_together(spot, one) for one in group)]
        groups = [group for group in groups if group not in mine]
        groups.append([*(one for group in mine for one in group), spot])
    joined = []
    for group in groups:
        first, *others = sorted(
            group, key=lambda spot: (-spot.sums["torn_bytes"], -spot.sums["idle_bytes"])
        )
        whole = replace(first, sites=[*first.sites], sums={**first.sums}, times={**first.times})
        for other in others:
            whole.join(other)
        joined.append(whole)
    return joined


def _are_together(one: Spot, other: Spot) -> bool:
    """A single object belongs to others only where it is read to free them."""
    holders = [spot for spot in (one, other) if spot.is_single]
    return all(spot.sums["torn_bytes"] for spot in holders) and all(
        _overlap(
            (one.times[f"{name}_first"], one.times[f"{name}_last"]),
            (other.times[f"{name}_first"], other.times[f"{name}_last"]),
        )
        for name in ("born", "ended")
    )


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    shorter, longer = sorted((one, other), key=lambda span: span[1] - span[0])
    length = shorter[1] - shorter[0]
    start, end = max(shorter[0], longer[0] - AT_ONCE), min(shorter[1], longer[1] + AT_ONCE)
    if length <= AT_ONCE:
        return start <= end
    is_part = end - start >= TOGETHER * length
    return is_part and length >= TOGETHER * (longer[1] - longer[0])
