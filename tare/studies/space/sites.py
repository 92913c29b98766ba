"""Whose objects hold memory at a snapshot: by call site and by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tare.base.libraries import NDArray, np, pl
from tare.studies.space.snapshot import PAGE
from tare.studies.space.split import HeapPages, Objects

_NOBODY = -1
MOSTLY_EMPTY = 0.25
"""A page is mostly empty when objects alive take less than this share of it."""
MOST_SITES = 50
OCCUPANCY_STEPS = 10
MAP_CELLS = 1200
SMALL = 64
"""Bytes, of objects that headers and rounding make much larger."""


@dataclass(frozen=True)
class Pinned:
    """Free bytes: on the pages themselves, and on empty pages in between, which a heap cannot give
    back past them."""

    on_pages: int
    between: int


def by_site(objects: Objects, pages: HeapPages) -> pl.DataFrame:
    """The call sites whose objects keep free cells resident, those that keep most first. A page's
    free cells are shared out among the objects on it, by their bytes there.

    Of each: ``site``, ``objects``, ``requested`` and ``internal`` bytes, ``kept`` (free bytes),
    and of the pages that are mostly empty and hold one of its objects: ``sparse_pages``, of which
    ``alone`` have no other site's, and ``sparse_bytes`` of its objects there.
    """
    table = _table(objects).with_columns(key="site")
    found = _grouped(table, objects, pages).filter(pl.col("kept") > 0)
    return found.sort(["kept", "key"], descending=[True, False]).rename({"key": "site"})


def pinned(objects: Objects, pages: HeapPages, groups: NDArray[np.int64]) -> dict[int, Pinned]:
    """By group of objects (``groups`` has a number for each, negative ones are of none): the free
    bytes on the pages that its objects alone keep from being empty."""
    if not len(objects.addresses) or not len(pages.addresses):
        return {}
    row, page, _ = _on_pages(objects, pages)
    owner = np.full(len(pages.addresses), _NOBODY)
    mixed = np.zeros(len(owner), np.bool_)
    order = np.argsort(page, kind="stable")
    page, group = page[order], groups[row[order]]
    firsts = np.flatnonzero(np.diff(page, prepend=-1))
    owner[page[firsts]] = group[firsts]
    mixed[page[group != owner[page]]] = True
    owner[mixed | (owner < 0)] = _NOBODY
    found = {}
    for number in np.unique(owner[owner >= 0]).tolist():
        mine = owner == number
        found[number] = Pinned(int(pages.free[mine].sum()), _between(mine, pages))
    return found


def overhead(objects: Objects, header: int, groups: NDArray[np.int64]) -> dict[int, int]:
    """By group of objects, as in ``pinned``: the bytes that headers and rounding add to its small
    objects."""
    small = (objects.sizes <= SMALL) & (groups >= 0)
    if not small.any():
        return {}
    added = objects.ends - objects.addresses - objects.sizes + header
    sums = np.bincount(groups[small], weights=np.maximum(added[small], 0))
    return {number: int(sums[number]) for number in np.flatnonzero(sums).tolist()}


def _between(mine: NDArray[np.bool_], pages: HeapPages) -> int:
    """Bytes of the empty pages that lie between two pages of ``mine`` with nothing else."""
    occupied = np.flatnonzero(pages.live > 0)
    ends = occupied[:-1], occupied[1:]
    both = mine[ends[0]] & mine[ends[1]]
    apart = pages.addresses[ends[1]] - pages.addresses[ends[0]]
    without_gap = apart == PAGE * (ends[1] - ends[0])
    free = np.concatenate([[0], np.cumsum(pages.free)])
    inside = free[ends[1]] - free[ends[0] + 1]
    return int(inside[both & without_gap].sum())


def by_size(objects: Objects, pages: HeapPages) -> list[dict[str, int]]:
    """As ``by_site``, by the power of two that a usable size does not exceed, ``up_to``."""
    classes = np.ceil(np.log2(np.maximum(objects.usable, 8))).astype(np.int64)
    table = _table(objects).with_columns(pl.Series("key", classes))
    found = _grouped(table, objects, pages).sort("key")
    return [{"up_to": 1 << row.pop("key"), **row} for row in found.to_dicts()]


def _table(objects: Objects) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "site": objects.sites,
            "size": objects.sizes,
            "internal": objects.ends - objects.addresses - objects.sizes,
        }
    )


def _grouped(table: pl.DataFrame, objects: Objects, pages: HeapPages) -> pl.DataFrame:
    sums = table.group_by("key").agg(
        pl.len().cast(pl.Int64).alias("objects"),
        pl.col("size").sum().alias("requested"),
        pl.col("internal").clip(lower_bound=0).sum(),
    )
    if not len(objects.addresses) or not len(pages.addresses):
        zeros = [pl.lit(0).alias(n) for n in ("kept", "sparse_pages", "alone", "sparse_bytes")]
        return sums.with_columns(zeros)
    row, page, weight = _on_pages(objects, pages)
    there = pl.DataFrame(
        {
            "key": table["key"].to_numpy()[row],
            "page": page,
            "bytes": weight,
            "kept": pages.free[page] * (weight / pages.live[page]),
            "sparse": pages.live[page] < MOSTLY_EMPTY * PAGE,
        }
    )
    kept = there.group_by("key").agg(pl.col("kept").sum().round().cast(pl.Int64))
    sparse = there.filter("sparse").group_by("page", "key").agg(pl.col("bytes").sum())
    sparse = sparse.with_columns(alone=pl.len().over("page") == 1)
    sparse = sparse.group_by("key").agg(
        pl.len().cast(pl.Int64).alias("sparse_pages"),
        pl.col("alone").sum().cast(pl.Int64),
        pl.col("bytes").sum().alias("sparse_bytes"),
    )
    found = sums.join(kept, on="key", how="left").join(sparse, on="key", how="left")
    return found.fill_null(0)


def _on_pages(
    objects: Objects, pages: HeapPages
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The resident pages on which objects begin or end: pairs of object and page, by their places,
    and the object's bytes there. What lies between is full."""
    starts, ends = objects.addresses, objects.ends
    number = np.arange(len(starts))
    first, last = starts & -PAGE, (ends - 1) & -PAGE
    two = last > first
    row = np.concatenate([number, number[two]])
    address = np.concatenate([first, last[two]])
    weight = np.concatenate([np.minimum(ends, first + PAGE) - starts, (ends - last)[two]])
    place = np.minimum(np.searchsorted(pages.addresses, address), len(pages.addresses) - 1)
    there = (pages.addresses[place] == address) & (weight > 0)
    return row[there], place[there], weight[there]


def occupancy(pages: HeapPages) -> dict[str, Any]:
    """``steps``: how many pages are up to 1/10, 2/10, … full of live objects; ``never`` and
    ``empty``: without one, where none ever was, and where there was one."""
    there = pages.live[pages.live > 0]
    steps = np.minimum(-(-there * OCCUPANCY_STEPS // PAGE), OCCUPANCY_STEPS) - 1
    free = pages.live == 0
    return {
        "steps": np.bincount(steps, minlength=OCCUPANCY_STEPS).tolist(),
        "empty": int(np.count_nonzero(free & pages.was_used)),
        "never": int(np.count_nonzero(free & ~pages.was_used)),
    }


def page_map(pages: HeapPages) -> dict[str, Any]:
    """The heap's resident pages in the order of addresses, in at most ``MAP_CELLS`` cells of
    ``pages_in_cell``: of each the share that live objects take, and that of pages without one;
    ``breaks``: the cells before which a gap in the addresses of over 1 MiB lies."""
    count = len(pages.addresses)
    if not count:
        return {"pages_in_cell": 1, "live": [], "empty": [], "breaks": []}
    width = -(-count // MAP_CELLS)
    starts = np.arange(0, count, width)
    lengths = np.diff(np.append(starts, count))
    live = np.add.reduceat(pages.live, starts) / (lengths * PAGE)
    empty = np.add.reduceat((pages.live == 0).astype(np.int64), starts) / lengths
    gaps = np.flatnonzero(np.diff(pages.addresses) > 1 << 20) + 1
    return {
        "pages_in_cell": width,
        "live": np.round(live, 3).tolist(),
        "empty": np.round(empty, 3).tolist(),
        "breaks": np.unique(gaps // width).tolist()[:MAP_CELLS],
    }
