"""What changing the code at one place would bring, computed from a heap trace.

The objects of a place are changed in the trace (freed when they are no longer needed, or never
made) and the peak of the bytes held is taken again, exactly. Sums would mislead: what is saved at
the peak does not help where the next highest moment is nearly as high.

No change of a place can save more than what it saves at the peak itself, so places whose objects
have too little unused there need not be tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tare.base.libraries import NDArray, np, pl
from tare.heap_traces import copying
from tare.heap_traces.changed_peaks import ChangedPeaks
from tare.heap_traces.frames import place_of, program_frames
from tare.heap_traces.function_names import bare_name
from tare.heap_traces.growth import GROWS, growth
from tare.heap_traces.residence import (
    Process,
    batches,
    in_slices,
    is_unneeded,
    is_void,
    last_births,
    moments,
    not_needed,
)
from tare.heap_traces.spots import (
    Spot,
    by_site,
    described,
    described_spot,
    spots,
    structures,
    untouched,
)
from tare.heap_traces.trace import Trace

FREE_EARLIER, LEAK, NEVER_USED, RESERVE = "free-earlier", "leak", "never-used", "reserve"
UNTOUCHED, SHORT_LIVED, CROSS_THREAD = "untouched", "short-lived", "cross-thread"
LEAST_SHARE = 0.01
"""Of the peak, or of all instructions: less is not worth a change of code, nor seen in a run."""
LEAST_BYTES = 128 << 10
"""As much as glibc by itself keeps at the top of its heap (M_TRIM_THRESHOLD)."""
PART_OF_LEAST = 0.25
"""Of the least, for a place whose objects may be a part of a structure that reaches it."""
MOSTLY_UNTOUCHED = 0.5
"""The share of a place's bytes at the peak from which on they are far beyond need: a container that
doubles is less."""
MOST_FREED_SOON = 0.9
"""The share of a place's objects from which on they count as short-lived."""
CROSSING = 0.5
"""The share of a place's objects that other threads free from which on it is named."""
SURE_TEARDOWN = re.compile(
    r"~|[Ee]rase|[Cc]lear|[Dd]estroy|[Dd]elete|[Ff]ree|[Rr]elease|[Dd]ispose|[Dd]rop|[Cc]lean|[Uu]nref"
)
"""In the name of a function that frees: it does nothing else."""
_FREEING_FRAMES = 8
_MOST_FREES = 4096
_MOST_PLACES = 64


def predictions(trace: Trace, process: Process, moment: int, largest: int) -> list[dict[str, Any]]:
    """What changes of single places would bring to ``process``, whose peak of ``largest`` bytes is
    at ``moment`` (of its order).

    Of each: ``kind``, ``place`` (a dict as of ``Place``), ``caller`` (the same, or None: what
    called it for nearly all that is worth a change), ``objects`` and ``bytes`` (of the place); for
    changes of the peak ``at_peak`` (unused bytes then), ``peak``, with the bounds
    ``peak_low`` and ``peak_high`` (of the peak afterwards), ``never_freed``, ``freed_at`` (where
    most of it is freed now, a place or None) and ``teardown`` (whether uses of teardown are left
    out); for the others ``calls`` (allocations, each with its free), and
    ``malloc_instructions`` and ``free_instructions``, what either takes there on average, or None.
    """
    objects = trace.objects()
    found_spots = spots(trace, process, by_site(objects, process, moment))
    least = max(LEAST_BYTES, LEAST_SHARE * largest)
    parts = _most(found_spots, "idle_bytes", PART_OF_LEAST * least)
    earlier = _most(structures(parts), "idle_bytes", least)
    unused = _most(found_spots, "unneeded_bytes", least)
    beyond = [
        spot
        for spot in _most(found_spots, "untouched_bytes", least)
        if spot.sums["untouched_bytes"] > MOSTLY_UNTOUCHED * spot.sums["held_bytes"]
    ]
    tried = [
        *((FREE_EARLIER, spot) for spot in earlier),
        *((NEVER_USED, spot) for spot in unused),
        *((UNTOUCHED, spot) for spot in beyond),
    ]
    found = _peaks_changed(trace, process, tried)
    grown = growth(objects, process, largest) if any(spot.is_unfreed for spot in earlier) else {}
    growing = {each["site"] for each in grown.get("sites", ()) if each["kind"] == GROWS}
    for each, (kind, spot) in zip(found, tried, strict=True):
        if kind == FREE_EARLIER and spot.is_unfreed and growing.intersection(spot.sites):
            each["kind"] = LEAK
    found = [each for each in found if largest - each["peak"] >= least]
    holding = _most(found_spots, "held_bytes", least)
    found += _copies(objects, process, holding, largest)
    found += _by_calls(trace, process, found_spots)
    return found


def _most(found: Sequence[Spot], name: str, least: float) -> list[Spot]:
    kept = [spot for spot in found if spot.sums[name] >= least]
    return sorted(kept, key=lambda spot: -spot.sums[name])[:_MOST_PLACES]


# ---- the peak, taken again ----


def _peaks_changed(
    trace: Trace, process: Process, tried: Sequence[tuple[str, Spot]]
) -> list[dict[str, Any]]:
    """For each spot its objects freed when they are no longer needed; or those that nothing needs
    never made; or made no larger than is ever used of them."""
    if not tried:
        return []
    objects = trace.objects()
    sites = [site for kind, spot in tried if kind == FREE_EARLIER for site in spot.sites]
    sure = _sure_sites(trace, process, sites)
    at = moments(process, process.order)
    certain = pl.col("free_site").is_in(sorted(sure)).fill_null(value=False)
    after_use = pl.min_horizontal(at["last"] + 1, at["end"])
    as_used = pl.when(is_void(process)).then(at["birth"]).otherwise(after_use)
    columns = {
        "site": pl.col("site").fill_null(0).cast(pl.Int64),
        "size": pl.col("size").cast(pl.Int64),
        "untouched": untouched(),
        "birth": at["birth"],
        "end": at["end"],
        "unneeded": is_unneeded(process),
        # Each change has two numbers: with all teardown left out, and with that alone which is
        # sure.
        "soonest": not_needed(process),
        "surely": pl.when(certain).then(not_needed(process)).otherwise(as_used),
        "freed_at": pl.col("free_site").fill_null(0).cast(pl.Int64),
    }
    numbers: dict[str, dict[int, int]] = {FREE_EARLIER: {}, NEVER_USED: {}, UNTOUCHED: {}}
    for number, (kind, spot) in enumerate(tried):
        numbers[kind] |= dict.fromkeys(spot.sites, number)
    freed_at = [dict[int, int]() for _ in tried]
    with ChangedPeaks(last_births(objects, process), 2 * len(tried)) as sweep:
        for batch in batches(objects, process, columns):
            for kind, of_site in numbers.items():
                where = pl.col("site").is_in(list(of_site))
                mine = batch.filter(where & (pl.col("unneeded") == (kind == NEVER_USED)))
                if mine.is_empty():
                    continue
                change = mine["site"].replace_strict(of_site, return_dtype=pl.Int64).to_numpy()
                _put(sweep, mine, change, kind)
                if kind == FREE_EARLIER:
                    _note_frees(freed_at, mine, change)
            sweep.add(*(batch[name].to_numpy() for name in ("birth", "end", "size")))
        peaks = sweep.peaks.tolist()
    most = [max(each, key=each.__getitem__, default=0) for each in freed_at]
    frees = _places(trace, process, most)
    found = []
    for number, (kind, spot) in enumerate(tried):
        low, high = sorted(peaks[2 * number : 2 * number + 2])
        found.append(
            {
                "kind": kind,
                **described_spot(spot),
                "others": [described(place) for place in spot.others],
                "at_peak": spot.sums[_AT_PEAK[kind]],
                "held": spot.sums["held_bytes"],
                "peak": low,
                "peak_low": low,
                "peak_high": high,
                "never_freed": kind == FREE_EARLIER and spot.is_unfreed,
                "freed_at": frees[number],
                "teardown": low < high,
            }
        )
    return found


_AT_PEAK = {
    FREE_EARLIER: "idle_bytes",
    NEVER_USED: "unneeded_bytes",
    UNTOUCHED: "untouched_bytes",
}


def _put(sweep: ChangedPeaks, mine: pl.DataFrame, change: NDArray[np.int64], kind: str) -> None:
    sizes = mine["untouched" if kind == UNTOUCHED else "size"].to_numpy()
    births, ends = mine["birth"].to_numpy(), mine["end"].to_numpy()
    for variant, name in enumerate(("soonest", "surely")):
        soonest = mine[name].to_numpy()
        starts = soonest if kind == FREE_EARLIER else births
        there = (starts < ends) & (sizes > 0)
        if kind == NEVER_USED:
            there &= soonest <= births
        numbers = 2 * change[there] + variant
        sweep.put(numbers, starts[there], -sizes[there])
        sweep.put(numbers, ends[there], sizes[there])


def _note_frees(
    freed_at: Sequence[dict[int, int]], mine: pl.DataFrame, change: NDArray[np.int64]
) -> None:
    table = mine.with_columns(pl.Series("change", change)).group_by("change", "freed_at")
    for number, site, size in table.agg(pl.col("size").sum()).iter_rows():
        freed_at[number][site] = freed_at[number].get(site, 0) + size


def _sure_sites(trace: Trace, process: Process, sites: Sequence[int]) -> set[int]:
    """Of the sites that free objects of ``sites``, those in functions that only free."""
    objects = trace.objects()
    wanted = pl.col("site").is_in(list(sites)) & pl.col("before_teardown_bytes").is_not_null()
    table = in_slices(
        objects,
        process.start,
        process.rows,
        lambda part: part.filter(wanted).select("free_site").drop_nulls().unique(),
        lambda parts: parts.unique(),
    )
    frees = [int(site) for site in table["free_site"][:_MOST_FREES]]
    stacks = trace.stacks([(process.number, site) for site in frees])
    return {
        site
        for site, frames in zip(frees, stacks, strict=True)
        if any(
            SURE_TEARDOWN.search(bare_name(frame["function"] or ""))
            for frame in program_frames(frames)[:_FREEING_FRAMES]
        )
    }


def _places(trace: Trace, process: Process, sites: Sequence[int]) -> list[dict[str, Any] | None]:
    stacks = trace.stacks([(process.number, site) for site in sites])
    places = [place_of(frames) for frames in stacks]
    return [described(place) if place is not None else None for place in places]


# ---- containers that grow by copying ----


def _copies(
    objects: pl.LazyFrame, process: Process, holding: Sequence[Spot], largest: int
) -> list[dict[str, Any]]:
    """For each place whose objects grow by copying, the peak with the last size from the start."""
    chains = [(spot, copying.chains(objects, process, spot.sites)) for spot in holding]
    chains = [(spot, chain) for spot, chain in chains if chain.links]
    if not chains:
        return []
    at = moments(process, process.order)
    columns = {"birth": at["birth"], "end": at["end"], "size": pl.col("size").cast(pl.Int64)}
    with ChangedPeaks(last_births(objects, process), len(chains)) as sweep:
        for number, (_, chain) in enumerate(chains):
            sweep.put(np.full(len(chain.times), number), chain.times, chain.sizes)
        for batch in batches(objects, process, columns):
            births, ends, sizes = (batch[name].to_numpy() for name in ("birth", "end", "size"))
            sweep.add(births, ends, sizes)
        peaks = sweep.peaks.tolist()
    least = LEAST_SHARE * max(process.instructions, 1)
    found = []
    for peak, (spot, chain) in zip(peaks, chains, strict=True):
        saves = largest - peak >= max(LEAST_BYTES, LEAST_SHARE * largest)
        if not saves and chain.instructions < least:
            continue
        found.append(
            {
                "kind": RESERVE,
                **described_spot(spot),
                "at_peak": spot.sums["held_bytes"],
                "links": chain.links,
                "copied_bytes": chain.copied,
                "copy_instructions": chain.instructions,
                "peak": peak,
                "peak_low": peak,
                "peak_high": peak,
            }
        )
    return found


# ---- what costs calls ----


def _by_calls(trace: Trace, process: Process, places: Sequence[Spot]) -> Iterator[dict[str, Any]]:
    found = [
        (kind, spot, spot.sums[name])
        for spot in places
        for kind, name, share in (
            (SHORT_LIVED, "soon", MOST_FREED_SOON),
            (CROSS_THREAD, "crossing", CROSSING),
        )
        if spot.sums[name] and spot.sums[name] >= share * spot.sums["objects"]
    ]
    costs = _costs(trace, process, [site for _, spot, _ in found for site in spot.sites])
    for kind, spot, calls in found:
        mine = costs.filter(pl.col("site").is_in(spot.sites))
        yield {
            "kind": kind,
            **described_spot(spot),
            "calls": calls,
            "malloc_instructions": _mean(mine, "malloc"),
            "free_instructions": _mean(mine, "free"),
        }


def _costs(trace: Trace, process: Process, sites: Sequence[int]) -> pl.DataFrame:
    """By the sites that allocate and free the same objects: how many these are, and what a call at
    either takes on average, in instructions; null where it was not counted."""
    both = ["site", "free_site"]
    wanted = pl.col("site").is_in(sorted(sites)) & pl.col("free_bytes").is_not_null()
    pairs = in_slices(
        trace.objects(),
        process.start,
        process.rows if sites else 0,
        lambda part: part.filter(wanted).group_by(both).agg(objects=pl.len()),
        lambda parts: parts.group_by(both).agg(pl.col("objects").sum()),
    )
    spent = (
        trace.sites()
        .filter(pl.col("process") == process.number, pl.col("calls") > 0)
        .select("site", mean=pl.col("instructions") / pl.col("calls"))
        .collect()
    )
    freeing = spent.select(free_site="site", free="mean")
    return pairs.join(spent.rename({"mean": "malloc"}), "site", how="left").join(
        freeing, "free_site", how="left"
    )


def _mean(costs: pl.DataFrame, call: str) -> float | None:
    """Over the objects whose call was counted; None where they are fewer than half."""
    counted = costs.drop_nulls(call)
    objects = int(counted["objects"].sum())
    if not objects or 2 * objects < costs["objects"].sum():
        return None
    return float((counted["objects"] * counted[call]).sum()) / objects
