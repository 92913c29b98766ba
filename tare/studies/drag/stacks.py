"""The call stacks of a heap trace, with what the objects that they allocated were held for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.heap_traces.residence import (
    Process,
    processes,
    site_table,
)
from tare.heap_traces.trace import Trace
from tare.report.stacks import (
    OTHER,
    UNKNOWN,
    Frame,
    Stack,
    frame_of,
)

MOST_STACKS = 100_000
_IN_VAIN = ("lag", "drag_freed", "drag_unfreed", "void")
_SUMMED = ("objects", "bytes", "vain", "mean_vain")


@dataclass
class SiteStack(Stack):
    """``sums`` has ``_SUMMED``: objects, bytes, unused byte-time and mean unused bytes.
    ``sites`` are the (process, site) that share the frames."""

    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0.0))
    sites: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        for name in _SUMMED:
            self.sums[name] += row[name]
        if row["site"] is not None:
            self.sites.append((row["process"], row["site"]))


def stacks_of(
    trace: Trace, weight: str, found: Sequence[Process] | None = None, most: int = MOST_STACKS
) -> list[SiteStack]:
    """The stacks of a trace with their sums, the heaviest first; those that are left over are
    one, called ``OTHER``. ``found`` bounds them to some of the processes."""
    if "last_use" not in trace.meta["observed"] and weight == "vain":
        raise UsageError(
            f"{trace.folder} has no last uses", "choose another --weight: bytes or objects"
        )
    if found is None:
        found = processes(trace.objects(), trace.processes)
    vain = pl.sum_horizontal(_IN_VAIN)
    table = (
        site_table(trace.objects(), found, "bytes", trace.sample_bytes)
        .with_columns(vain.alias("vain"), (vain / pl.max_horizontal("end", 1.0)).alias("mean_vain"))
        .select("process", "site", *_SUMMED)
        .sort([weight, "process", "site"], descending=[True, False, False])
    )
    named = trace.site_frames()
    stacks: dict[tuple[Frame, ...], SiteStack] = {}
    kept = table.head(most).join(
        named, on=["process", "site"], how="left", maintain_order="left", validate="1:1"
    )
    for row in kept.iter_rows(named=True):
        frames = tuple(map(frame_of, row["frames"] or ())) or (Frame(UNKNOWN, UNKNOWN),)
        stacks.setdefault(frames, SiteStack(frames)).add(row)
    if table.height > most:
        rest = table.slice(most).select(pl.col(*_SUMMED).sum()).row(0, named=True)
        other = (Frame(OTHER, OTHER),)
        stacks.setdefault(other, SiteStack(other)).add(rest | {"process": None, "site": None})
    return sorted(stacks.values(), key=lambda stack: -stack.sums[weight])
