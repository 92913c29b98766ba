"""Deaths of which the memory could be used again in place: the next thing that the thread asks for
has the same size. Counting references with reuse (Reinking and others, PLDI 2021) serves these."""

from __future__ import annotations

from tare.base.libraries import np, pl
from tare.heap_traces.calls import following
from tare.heap_traces.residence import Process, batches, moments


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
    frees = reusable = 0
    waiting: list[pl.DataFrame] = []  # frees that no birth has followed yet
    for batch in batches(objects, process, columns):
        births = batch.sort("thread", maintain_order=True)
        freed = batch.drop_nulls("end").select("size", "end", thread="freed_by")
        frees += freed.height
        freed = pl.concat([*waiting, freed])
        is_due = pl.col("end") < batch["birth"].max()
        due = freed.filter(is_due)
        place = following(
            due["thread"].to_numpy(),
            due["end"].to_numpy(),
            births["thread"].to_numpy(),
            births["birth"].to_numpy(),
        )
        is_followed = place < births.height
        next_size = births["size"].to_numpy()[place[is_followed]]
        same = next_size == due["size"].to_numpy()[is_followed]
        served = np.zeros(births.height, bool)
        served[place[is_followed][same]] = True
        reusable += int(served.sum())
        # Of those that wait for one birth, one of each size is enough.
        left = due.filter(pl.Series(~is_followed)).unique(["thread", "size"])
        waiting = [freed.filter(~is_due), left]
    return {"frees": frees, "reusable": reusable}
