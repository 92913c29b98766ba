"""Deaths of which the memory could be used again in place: the next thing that the thread asks for
has the same size. Counting references with reuse (Reinking and others, PLDI 2021) serves these."""

from __future__ import annotations

from tare.base.libraries import np, pl
from tare.heap_traces.residence import Process, batches, moments

MOST_OBJECTS = 4 << 20
"""The first ones of a process, which are looked at, so that memory is bounded."""


def reuse(objects: pl.LazyFrame, process: Process) -> dict[str, int]:
    """``frees`` of the program, and how many are ``reusable``: the next allocation of the freeing
    thread, which takes one of them at most, has the size of the object."""
    at = moments(process, process.order)
    columns = {
        "size": pl.col("size"),
        "birth": at["birth"],
        "thread": pl.col("thread"),
        "end": pl.when(pl.col("free_bytes").is_not_null()).then(at["end"]),
        "freed_by": pl.coalesce("free_thread", "thread"),
    }
    parts: list[pl.DataFrame] = []
    for batch in batches(objects, process, columns):
        parts.append(batch)
        if sum(part.height for part in parts) >= MOST_OBJECTS:
            break
    if not parts:
        return {"frees": 0, "reusable": 0}
    rows = pl.concat(parts)
    dead = rows.filter(pl.col("end").is_not_null())
    reusable = 0
    for (thread,), freed in dead.group_by("freed_by"):
        born = rows.filter(pl.col("thread") == thread).sort("birth")
        births, sizes = born["birth"].to_numpy(), born["size"].to_numpy()
        following = np.searchsorted(births, freed["end"].to_numpy(), side="right")
        known = following < len(births)
        following, wanted = following[known], freed["size"].to_numpy()[known]
        reusable += len(np.unique(following[sizes[following] == wanted]))
    return {"frees": dead.height, "reusable": reusable}
