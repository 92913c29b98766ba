"""Objects that are never freed, and call sites whose live bytes grow, told apart from a plateau.

The test looks at what a site holds over the last two thirds of the run, on the clock of bytes
allocated: at the least that it holds at any moment of each of eight equal parts, so that what goes
up and down counts as flat. A site grows when

- the later parts are the higher ones: of the 28 pairs of parts, those in which the later one is
  higher outnumber the others by 20 at least. By chance that happens in 0.7% of all orders (the
  exact distribution of Kendall's rank test);
- what it gained is not small: 1% of the most that the process held, or more;
- it does not level off: in the last third it gained at least half as much as in the third before.

What passes the first two and not the third levels off; all else is a plateau.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tare.base.libraries import NDArray, np, pl
from tare.heap_traces.residence import BATCH_ROWS, Process, in_slices

STEPS = 96
BLOCKS = 8
LEAST_SCORE = 20
LEAST_SHARE = 0.01
LEVELLING = 0.5
GROWS, LEVELS_OFF, PLATEAU = "grows", "levels off", "plateau"

_MOST_SITES = 4096
"""Whose levels are kept: those that allocated most."""
_SHOWN = 50
_WATCHED = 2 / 3 * (BLOCKS - 1) / BLOCKS
"""Of the run, the share between the first block and the last."""


def growth(objects: pl.LazyFrame, process: Process, largest_live: int) -> dict[str, Any]:
    """``levels``: what was alive at the end of each of ``STEPS`` equal steps of bytes allocated.
    ``sites``: those that grow or level off, with their ``levels``, the most ``gained`` first: by
    the least of the last block over that of the first.
    ``never_freed``: by call site, the most bytes first; ``leaking_sites`` counts all of them."""
    table = _by_site(objects, process)
    largest = table.sort(["bytes", "site"], descending=[True, False])["site"].head(_MOST_SITES)
    levels, lows = _levels(objects, process, largest.to_list())
    sites = []
    for place, site in enumerate(largest.to_list()):
        kind = trend(lows[place], largest_live)
        if kind != PLATEAU:
            first, *_, latest = _least(lows[place])
            gained = int(latest - first)
            sites.append(
                {
                    "site": site,
                    "kind": kind,
                    "gained": gained,
                    "per_allocated": gained / max(process.bytes * _WATCHED, 1),
                    "levels": levels[place].tolist(),
                }
            )
    sites.sort(key=lambda each: (each["kind"] != GROWS, -each["gained"]))
    kept = table.filter(pl.col("never_freed_bytes") > 0)
    kept = kept.sort(["never_freed_bytes", "site"], descending=[True, False])
    return {
        "levels": levels.sum(axis=0).tolist(),
        "sites": sites[:_SHOWN],
        "growing_sites": sum(each["kind"] == GROWS for each in sites),
        "never_freed": kept.head(_SHOWN).to_dicts(),
        "leaking_sites": kept.height,
        "never_freed_bytes": int(kept["never_freed_bytes"].sum()),
        "never_freed_objects": int(kept["never_freed_objects"].sum()),
    }


def trend(lows_of_steps: Sequence[float] | NDArray[Any], largest_live: int) -> str:
    """``GROWS``, ``LEVELS_OFF`` or ``PLATEAU``, by the test that this module describes."""
    lows = _least(lows_of_steps)
    pairs = np.sign(lows[None, :] - lows[:, None])
    score = int(np.triu(pairs, 1).sum())
    if score < LEAST_SCORE or lows[-1] - lows[0] < LEAST_SHARE * largest_live:
        return PLATEAU
    middle = lows[BLOCKS // 2 - 1] - lows[0]
    final = lows[-1] - lows[BLOCKS // 2]
    return GROWS if final >= LEVELLING * middle else LEVELS_OFF


def _least(lows_of_steps: Sequence[float] | NDArray[Any]) -> NDArray[np.int64]:
    """Of each block of the last two thirds."""
    lows = np.asarray(lows_of_steps)
    late = lows[len(lows) // 3 :]
    return np.array([block.min() for block in np.array_split(late, BLOCKS)])


def _by_site(objects: pl.LazyFrame, process: Process) -> pl.DataFrame:
    unfreed = pl.col("free_bytes").is_null()
    size = pl.col("size").cast(pl.Int64)
    columns = {
        "bytes": size,
        "never_freed_objects": unfreed.cast(pl.Int64),
        "never_freed_bytes": unfreed * size,
    }
    sums = [pl.col(name).sum() for name in columns]
    return in_slices(
        objects,
        process.start,
        process.rows,
        lambda part: (
            part.select(
                pl.col("site").fill_null(0).cast(pl.Int64),
                *(each.alias(name) for name, each in columns.items()),
            )
            .group_by("site")
            .agg(sums)
        ),
        lambda parts: parts.group_by("site").agg(sums),
    )


def _levels(
    objects: pl.LazyFrame, process: Process, sites: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A row per site: the bytes alive at the end of each step, and the fewest at any moment of it.
    What is freed at the very end was alive then; of sites that are not asked for, there is one more
    row."""
    end = max(process.bytes, 1)
    shape = (len(sites) + 1, STEPS)
    levels, lows = np.zeros(shape, np.int64), np.full(shape, np.iinfo(np.int64).max)
    held = np.zeros(len(sites) + 1, np.int64)
    places = pl.DataFrame(
        {"site": sites, "place": range(len(sites))},
        schema={"site": pl.Int64, "place": pl.Int64},
    )
    size, born = pl.col("size").cast(pl.Int64), pl.col("birth_bytes").cast(pl.Int64)
    # A realloc frees before its bytes are counted, and yet what it moves is never gone.
    born = pl.when(pl.col("operation") == "realloc").then(born - size).otherwise(born)
    freed = pl.col("free_bytes").cast(pl.Int64)
    waiting = np.zeros((0, 3), np.int64)  # frees: place, clock, change

    last = process.start + process.rows
    for start in range(process.start, last, BATCH_ROWS):
        rows = objects.slice(start, min(BATCH_ROWS, last - start)).select(
            pl.col("site").fill_null(0).cast(pl.Int64),
            size.alias("size"),
            born.alias("born"),
            freed.alias("freed"),
        )
        table = rows.collect().join(places, on="site", how="left", maintain_order="left")
        table = table.with_columns(pl.col("place").fill_null(len(sites)))
        births = table.select("place", "born", "size").to_numpy()
        frees = table.filter(pl.col("freed") < end).select("place", "freed", -pl.col("size"))
        waiting = np.concatenate([waiting, frees.to_numpy()])
        is_due = waiting[:, 1] < (births[-1, 1] if start + BATCH_ROWS < last else end)
        steps = np.concatenate(
            [np.maximum(-(-births[:, 1] * STEPS // end), 1) - 1, waiting[is_due, 1] * STEPS // end]
        )
        place, clock, change = np.concatenate([births, waiting[is_due]]).T
        waiting = waiting[~is_due]
        np.add.at(levels, (place, steps), change)
        order = np.lexsort((np.arange(len(place)), clock, place))  # births before frees
        place, steps, after = place[order], steps[order], np.cumsum(change[order])
        firsts = np.flatnonzero(np.diff(place, prepend=-1))
        lasts = np.append(firsts[1:], len(place)) - 1
        before = np.append(0, after[lasts[:-1]])
        after += np.repeat(held[place[firsts]] - before, lasts - firsts + 1)
        held[place[firsts]] = after[lasts]
        np.minimum.at(lows, (place, steps), after)
    levels = np.cumsum(levels, axis=1)
    starts = np.concatenate([np.zeros((len(levels), 1), np.int64), levels[:, :-1]], axis=1)
    return levels, np.minimum(lows, starts)
