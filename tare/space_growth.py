"""Objects that are never freed, and call sites whose live bytes grow, told apart from a plateau.

The test looks at what a site holds over the last two thirds of the run, on the clock of bytes
allocated: at the least that it holds in each of eight equal parts, so that what goes up and down
counts as flat. A site grows when

- the later parts are the higher ones: of the 28 pairs of parts, those in which the later one is
  higher outnumber the others by 20 at least. By chance that happens in 0.7% of all orders (the
  exact distribution of Kendall's rank test);
- what it gained is not small: 1% of the most that the process held, or more;
- it does not level off: in the last third it gained at least half as much as in the third before.

What passes the first two and not the third levels off; all else is a plateau.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tare.residence import Process, in_slices

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import ArrayLike, NDArray

STEPS = 96
BLOCKS = 8
LEAST_SCORE = 20
LEAST_SHARE = 0.01
LEVELLING = 0.5
GROWS, LEVELS_OFF, PLATEAU = "grows", "levels off", "plateau"

_MOST_SITES = 4096
"""Whose levels are kept: those that allocated most."""
_SHOWN = 50


def growth(objects: pl.LazyFrame, process: Process, largest_live: int) -> dict[str, Any]:
    """``levels``: what was alive at the end of each of ``STEPS`` equal steps of bytes allocated.
    ``sites``: those that grow or level off, with their ``levels``, the most gained first.
    ``never_freed``: by call site, the most bytes first; ``leaking_sites`` counts all of them."""
    import polars as pl

    table = _by_site(objects, process)
    largest = table.sort(["bytes", "site"], descending=[True, False])["site"].head(_MOST_SITES)
    levels = _levels(objects, process, largest.to_list())
    sites = []
    for place, site in enumerate(largest.to_list()):
        kind = trend(levels[place], largest_live)
        if kind != PLATEAU:
            third = levels[place][STEPS // 3 - 1]
            gained = int(levels[place][-1] - third)
            sites.append(
                {
                    "site": site,
                    "kind": kind,
                    "gained": gained,
                    "per_allocated": gained / max(process.bytes * 2 / 3, 1),
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


def trend(levels: ArrayLike, largest_live: int) -> str:
    """``GROWS``, ``LEVELS_OFF`` or ``PLATEAU``, by the test that this module describes."""
    import numpy as np

    levels = np.asarray(levels)
    late = levels[len(levels) // 3 :]
    lows = np.array([block.min() for block in np.array_split(late, BLOCKS)])
    pairs = np.sign(lows[None, :] - lows[:, None])
    score = int(np.triu(pairs, 1).sum())
    if score < LEAST_SCORE or lows[-1] - lows[0] < LEAST_SHARE * largest_live:
        return PLATEAU
    middle = lows[BLOCKS // 2 - 1] - lows[0]
    final = lows[-1] - lows[BLOCKS // 2]
    return GROWS if final >= LEVELLING * middle else LEVELS_OFF


def _by_site(objects: pl.LazyFrame, process: Process) -> pl.DataFrame:
    import polars as pl

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


def _levels(objects: pl.LazyFrame, process: Process, sites: Sequence[int]) -> NDArray[np.int64]:
    """A row per site: the bytes alive at the end of each step. What is freed at the very end was
    alive then; of sites that are not asked for, there is one more row."""
    import numpy as np
    import polars as pl

    end = max(process.bytes, 1)
    born = pl.max_horizontal((pl.col("birth_bytes") * STEPS + (end - 1)) // end, 1) - 1
    died = pl.col("free_bytes") * STEPS // end
    places = pl.DataFrame({"site": sites, "place": range(len(sites))})
    places = places.cast({"site": pl.Int64, "place": pl.Int64})
    size = pl.col("size").cast(pl.Int64)
    change = np.zeros((len(sites) + 1, STEPS), np.int64)

    for step, sign in ((born, 1), (died, -1)):
        summed = in_slices(
            objects,
            process.start,
            process.rows,
            lambda part, step=step: (  # type: ignore[misc]
                part.select(
                    pl.col("site").fill_null(0).cast(pl.Int64),
                    step.cast(pl.Int64).alias("step"),
                    size.alias("size"),
                )
                .drop_nulls("step")
                .group_by("site", "step")
                .agg(pl.col("size").sum())
            ),
            lambda parts: parts.group_by("site", "step").agg(pl.col("size").sum()),
        )
        rows = summed.filter(pl.col("step") < STEPS).join(places, on="site", how="left")
        place = rows["place"].fill_null(len(sites)).to_numpy()
        np.add.at(change, (place, rows["step"].to_numpy()), sign * rows["size"].to_numpy())
    return np.cumsum(change, axis=1)
