"""Containers that grow by copying: chains of objects of one place, each larger than the one before,
which is copied into it and then freed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.libraries import NDArray, np, pl
from tare.heap_traces.residence import Process, batches, moments
from tare.heap_traces.spots import untouched

LEAST_LINKS = 3
"""Of a chain: two buffers that take turns are none."""
LEAST_BYTES = 256
"""Of an object that is looked at: smaller ones cannot matter, and there may be very many."""
_MOST_OBJECTS = 4 << 20
_COPYING = 8
"""Instructions for each byte, at most, between the birth of the copy and the free of the source."""
_CALLS = 2000
"""And for the calls around it."""


@dataclass(frozen=True)
class Chains:
    """``times`` and ``sizes``: from when on how many bytes more are held, were what is ever touched
    of the last object of each chain asked for at its start. ``instructions``: between the births
    and the frees, which are what copying takes."""

    links: int
    copied: int
    instructions: int
    times: NDArray[np.uint64]
    sizes: NDArray[np.int64]


def chains(objects: pl.LazyFrame, process: Process, sites: Sequence[int]) -> Chains:
    """The chains of the objects that ``sites`` allocated. An object is the next of a chain when it
    is the last one born before the free, is larger, and the free follows its birth at once."""
    rows = _objects(objects, process, sites)
    births, ends, sizes = (rows[name].to_numpy() for name in ("birth", "end", "size"))
    if len(births) < LEAST_LINKS:
        return _none()
    sizes = sizes.astype(np.int64)
    untouched_ = rows["untouched"].to_numpy()
    number = np.arange(len(births))
    follower = np.searchsorted(births, ends, side="right") - 1
    waited = ends.astype(np.int64) - births[follower].astype(np.int64)
    is_link = (
        (follower > number)
        & (sizes[follower] > sizes)
        & (waited <= _COPYING * sizes + _CALLS)
        & rows["freed"].to_numpy()
        & (rows["last"].to_numpy() >= births[follower])
    )
    # One source for each copy: the latest.
    sources = np.flatnonzero(is_link)
    copies, at = np.unique(follower[sources][::-1], return_index=True)
    sources = sources[::-1][at]
    following = np.full(len(births), -1)
    following[sources] = copies
    begins = np.setdiff1d(sources, copies)
    times: list[int] = []
    added: list[int] = []
    links = copied = instructions = 0
    for first in begins.tolist():
        chain = [first]
        while following[chain[-1]] >= 0:
            chain.append(int(following[chain[-1]]))
        if len(chain) <= LEAST_LINKS:
            continue
        *before, last = chain
        links += len(before)
        copied += int(sizes[before].sum())
        instructions += int(waited[before].sum())
        for each in before:
            times += [int(births[each]), int(ends[each])]
            added += [-int(sizes[each]), int(sizes[each])]
        times += [int(births[first]), int(births[last]), int(births[last]), int(ends[last])]
        beyond = int(untouched_[last])
        added += [int(sizes[last]) - beyond, beyond - int(sizes[last]), -beyond, beyond]
    moments_ = np.array(times, np.uint64)
    return Chains(links, copied, instructions, moments_, np.array(added, np.int64))


def _none() -> Chains:
    return Chains(0, 0, 0, np.zeros(0, np.uint64), np.zeros(0, np.int64))


def _objects(objects: pl.LazyFrame, process: Process, sites: Sequence[int]) -> pl.DataFrame:
    at = moments(process, process.order)
    columns = {
        "site": pl.col("site").fill_null(0).cast(pl.Int64),
        "size": pl.col("size"),
        "untouched": untouched(),
        "birth": at["birth"],
        "last": at["last"],
        "end": at["end"],
        "freed": pl.col("free_bytes").is_not_null(),
    }
    wanted = pl.col("site").is_in(list(sites)) & (pl.col("size") >= LEAST_BYTES)
    parts: list[pl.DataFrame] = []
    for batch in batches(objects, process, columns):
        parts.append(batch.filter(wanted))
        if sum(part.height for part in parts) > _MOST_OBJECTS:
            break
    return pl.concat(parts)
