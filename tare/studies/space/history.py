"""The objects of a recorded process: which were alive at a moment, and where objects had been.

The rows of a heap trace come in the order of births, each with the time of its free, so one reading
gives all moments: what is born between two of them, and lives beyond the second, is alive then.
Beside the objects alive, memory holds only ranges of addresses, as many as the heap has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tare.base.libraries import NDArray, np, pl
from tare.heap_traces.peak import Peak, PeakSweep
from tare.heap_traces.residence import BATCH_ROWS, Process
from tare.heap_traces.trace import TraceDamageError
from tare.studies.space.ranges import Coverage, Ranges, nothing, union
from tare.studies.space.split import Objects

_NEVER = (1 << 63) - 1
_ADDRESS_LIMIT = 1 << 47
_COLUMNS = ("address", "size", "usable_size", "site", "birth_nanoseconds", "free_nanoseconds",
            "birth_bytes")  # fmt: skip


@dataclass(frozen=True)
class Moment:
    """``ever`` is where objects had been by then, those that were alive included;
    ``allocated_bytes`` is what had been asked for."""

    objects: Objects
    ever: Ranges
    allocated_bytes: int


@dataclass
class _Rows:
    """Objects in the order of their births, as int64."""

    addresses: NDArray[np.int64]
    sizes: NDArray[np.int64]
    usable: NDArray[np.int64]
    sites: NDArray[np.int64]
    births: NDArray[np.int64]
    frees: NDArray[np.int64]
    allocated: NDArray[np.int64]

    def part(self, which: slice | NDArray[np.bool_]) -> _Rows:
        return _Rows(*(column[which] for column in vars(self).values()))

    def with_more(self, more: _Rows) -> _Rows:
        pairs = zip(vars(self).values(), vars(more).values(), strict=True)
        return _Rows(*(np.concatenate(pair) for pair in pairs))

    def ranges(self) -> Ranges:
        ends = self.addresses + np.maximum(self.usable, self.sizes)
        return np.stack([self.addresses, ends], axis=1)


def moments(
    objects: pl.LazyFrame,
    process: Process,
    times: Sequence[int],
    inherited: Moment | None = None,
    tag: int = 0,
) -> Iterator[Moment]:
    """What there was at each of ``times``, which ascend, in nanoseconds of ``process``.

    ``inherited`` is what the process had when a fork made it. Of that it may have freed parts,
    which is not recorded: an object is taken for gone where a later one lies. ``tag`` is added to
    the number of each known call site.
    """
    ever, waiting = nothing(), nothing()
    alive, allocated = _nobody(), 0
    batches = _batches(objects, process)
    rest = _nobody()
    for time in times:
        while True:
            born = int((rest.births <= time).sum())  # they ascend
            now, rest = rest.part(slice(born)), rest.part(slice(born, None))
            if born:
                allocated = int(now.allocated[-1])
                waiting = union(waiting, now.ranges())
                alive = alive.with_more(now.part(now.frees > time))
            if len(rest.births) or (batch := next(batches, None)) is None:
                break
            rest = batch
        alive = alive.part(alive.frees > time)
        mine = _by_address(alive, tag)
        ever, waiting = union(ever, waiting), nothing()
        yield _with_inherited(Moment(mine, ever, allocated), inherited)


def _nobody() -> _Rows:
    return _Rows(*(np.zeros(0, np.int64) for _ in range(7)))


def _batches(objects: pl.LazyFrame, process: Process) -> Iterator[_Rows]:
    before = 0
    for start in range(process.start, process.start + process.rows, BATCH_ROWS):
        rows = min(BATCH_ROWS, process.start + process.rows - start)
        batch = objects.slice(start, rows).select(pl.col(*_COLUMNS).cast(pl.UInt64)).collect()
        if batch["address"].null_count() or batch["birth_nanoseconds"].null_count():
            raise TraceDamageError("it has objects without an address or a time")
        address, size, usable, site, birth, free, allocated = (
            batch[name].fill_null(_NEVER if name == "free_nanoseconds" else 0)
            .clip(upper_bound=_NEVER).to_numpy().astype(np.int64)
            for name in _COLUMNS
        )  # fmt: skip
        if (np.diff(birth) < 0).any() or int(birth[0]) < before:
            raise TraceDamageError("its objects are not in the order of their births")
        if int(max(address.max(), size.max(), usable.max())) > _ADDRESS_LIMIT:
            raise TraceDamageError("it holds an impossible address or size")
        before = int(birth[-1])
        yield _Rows(address, size, np.maximum(usable, 1), site, birth, free, allocated)


def _by_address(rows: _Rows, tag: int) -> Objects:
    order = np.argsort(rows.addresses, kind="stable")
    sites = np.where(rows.sites > 0, rows.sites + tag, 0)[order]
    return Objects(rows.addresses[order], rows.sizes[order], rows.usable[order], sites)


def _with_inherited(mine: Moment, inherited: Moment | None) -> Moment:
    if inherited is None:
        return mine
    theirs = inherited.objects
    covered = Coverage(mine.ever[:, 0], mine.ever[:, 1])
    left = covered.below(theirs.ends) == covered.below(theirs.addresses)
    columns = [
        np.concatenate([own, other[left]])
        for own, other in zip(vars(mine.objects).values(), vars(theirs).values(), strict=True)
    ]
    order = np.argsort(columns[0], kind="stable")
    objects = Objects(*(column[order] for column in columns))
    return Moment(objects, union(mine.ever, inherited.ever), mine.allocated_bytes)


def peak(objects: pl.LazyFrame, process: Process) -> Peak:
    """The most bytes that live objects asked for at one moment, exactly, in nanoseconds."""
    if process.rows == 0:
        return Peak(0, 0)
    last = process.start + process.rows - 1
    rows = [*range(process.start + BATCH_ROWS - 1, last, BATCH_ROWS), last]
    births = objects.select("birth_nanoseconds")
    lasts = np.array([births.slice(row, 1).collect().item() for row in rows], np.uint64)
    with PeakSweep(lasts) as sweep:
        for batch in _batches(objects, process):
            ends = np.maximum(batch.frees, batch.births)
            sweep.add(batch.births.astype(np.uint64), ends.astype(np.uint64), batch.sizes)
    return sweep.peak


def allocated_by(objects: pl.LazyFrame, process: Process, time: int) -> int:
    """How many bytes had been allocated at a time in nanoseconds."""
    mine = objects.slice(process.start, process.rows)
    until = mine.filter(pl.col("birth_nanoseconds") <= time)
    return int(until.select(pl.col("birth_bytes").max()).collect().item() or 0)
