"""Makes a schedule of a heap trace: the file of events that ``tare-replay`` follows.

The columns that matter are read here, batch by batch, and handed to ``tare-replay compile``, which
puts births, uses, stores and deaths in order. `replay/schedule/src/event.rs` describes the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tare.base.errors import TareError, UsageError
from tare.base.libraries import NDArray, np, pa, pc, pq
from tare.base.native import native_file
from tare.heap_traces.trace import DISTANCES, Trace, order_clock, table_file

Numbers: TypeAlias = "NDArray[np.uint64]"

DEATHS = ("free", "unreachable", "last-use")
TOUCHES = ("birth", "uses", "first-line")
REGIONS = ("trace", "site")
"""Where the region of an object comes from: recorded, or one for each call site."""
NEEDED_WORDS = {"unreachable": "unreachable", "last-use": "last_use"}
"""What a trace must have observed for a death other than the program's frees."""

_NEVER = (1 << 64) - 1
_BATCH_ROWS = 1 << 15
"""So few that the columns of a batch stay in the cache."""
_PIPE_BYTES = 1 << 20
_MOMENTS = ("first_use", "last_use", "free", "unreachable")
"""In the order in which the compiler takes them."""
_ENDS = {"free": ("free",), "unreachable": ("free", "unreachable"), "last-use": ("last_use",)}
"""By each death, the moments at which it can be."""
_ZEROED = "calloc"
_WITH_REGION, _WITH_REGION_SHIFT = "region", 1
_ALIGNMENT_SHIFT, _GREATEST_ALIGNMENT = 8, 30
_THREAD_SHIFT, _FREE_THREAD_SHIFT, _THREAD_MASK = 16, 40, (1 << 24) - 1
_ERROR_TAIL = 2000
_OF_ROW = " of the trace: "
"""In what the compiler says of a row that cannot be; its other troubles are of the machine."""


@dataclass(frozen=True)
class How:
    """``death`` is of ``DEATHS``, ``touch`` of ``TOUCHES``. ``process`` None is the one with the
    most objects. With ``threads`` the schedule says which thread does what; with ``pointers`` it
    has the stores of pointers, where they were recorded; with ``pace``
    when things happened. ``regions`` is of ``REGIONS``, or empty
    where objects are to have none."""

    death: str = "free"
    touch: str = "birth"
    process: int | None = None
    threads: bool = False
    pointers: bool = True
    regions: str = ""
    pace: bool = False


def is_collected(trace: Trace) -> bool:
    """Whether the recorded program had a collector in place of frees."""
    observed = trace.header.observed
    return "unreachable" in observed and "free" not in observed


def check(trace: Trace, how: How) -> int:
    """The process to replay. Raises UsageError where the trace does not have what ``how`` needs."""
    if how.death not in DEATHS or how.touch not in TOUCHES or how.regions not in ("", *REGIONS):
        raise UsageError(f"cannot replay with '{how.death}', '{how.touch}' and '{how.regions}'")
    if how.regions == "site" and "sites" not in trace.header.observed:
        raise UsageError(f"{trace.folder} has no call sites", "record it again, without --no-sites")
    if how.death == "free" and is_collected(trace):
        raise UsageError(
            f"{trace.folder} has no frees: the program's objects were collected",
            "replay them with --death unreachable",
        )
    needed = {NEEDED_WORDS.get(how.death), "last_use" if how.touch == "uses" else None} - {None}
    if missing := needed - set(trace.header.observed):
        option = {"unreachable": "--reachability", "last_use": "--last-use"}
        hints = " ".join(sorted(option[str(word)] for word in missing))
        raise UsageError(
            f"{trace.folder} lacks what --death {how.death}, --touch {how.touch} needs",
            f"record it again, with: tare trace {hints}",
        )
    if trace.sample_bytes:
        raise UsageError(
            f"{trace.folder} is a sample of the objects: a replay needs all of them",
            "record it again, without sampling",
        )
    if how.pace and order_clock(trace.header.observed) != "nanoseconds":
        raise UsageError(
            f"{trace.folder} has no times, so its pace is not known",
            "record it with the recorder: tare trace, without --last-use, --reachability and "
            "--pointers",
        )
    if how.process is None:
        return max(range(len(trace.processes)), key=lambda n: trace.header.processes[n].objects)
    if not 0 <= how.process < len(trace.processes):
        raise UsageError(f"{trace.folder} has no process {how.process}")
    return how.process


def compile_trace(trace: Trace, how: How, target: Path) -> dict[str, int]:
    """Write the schedule of ``trace`` to the new file ``target``; gives what its header counts, and
    ``compiler_bytes``, the memory that it took."""
    process = check(trace, how)
    observed = trace.header.observed
    clock = order_clock(observed)
    stores = how.pointers and "pointers" in observed and clock == "instructions"
    target.unlink(missing_ok=True)
    reader = _Reader(trace, how, process, clock)
    command = [str(native_file("bin/tare-replay")), "compile", "--death", how.death]
    flags = {
        "--uses": how.touch == "uses",
        "--threads": how.threads,
        "--pace": how.pace,
        "--clocks": trace.clocks_are_stored,
    }
    command += [flag for flag, given in flags.items() if given]
    with tempfile.TemporaryFile() as errors:
        pipes = [_wide_pipe() for _ in range(2 if stores else 1)]
        if stores:
            command += ["--stores", str(pipes[1][0])]
        compiler = subprocess.Popen(
            [*command, str(target)],
            stdin=pipes[0][0],
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=[read for read, _ in pipes],
        )
        for read, _ in pipes:
            os.close(read)
        rows = [reader.objects(), reader.stores()]
        _feed_all([write for _, write in pipes], rows, trace)
        facts, _ = compiler.communicate()
        if compiler.returncode != 0:
            errors.seek(0)
            told = errors.read(_ERROR_TAIL).decode(errors="replace").strip()
            target.unlink(missing_ok=True)
            if _OF_ROW in told:
                raise UsageError(f"{trace.folder} contradicts itself: {told}", "record it again")
            raise TareError(f"{trace.folder} cannot be compiled: {told}")
    counted: dict[str, int] = json.loads(facts)
    return counted


def _wide_pipe() -> tuple[int, int]:
    """A pipe with room for the next batch, so that both of its ends are at work."""
    ends = os.pipe()
    with contextlib.suppress(OSError):  # it works as it is, only more slowly
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return ends


def _feed_all(pipes: Sequence[int], rows: Sequence[Iterator[Any]], trace: Trace) -> None:
    """Write to each pipe what its iterator gives, all at once. A pipe whose reader has gone is
    left: the reader says why."""
    failures: list[BaseException] = []

    def feed(pipe: int, parts: Iterator[Any]) -> None:
        try:
            with open(pipe, "wb") as stream:
                for part in parts:
                    stream.write(part)
        except BrokenPipeError:
            pass
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=feed, args=pair) for pair in zip(pipes, rows, strict=False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        lines = str(failure).splitlines() or [type(failure).__name__]
        raise UsageError(f"{trace.folder} cannot be read: {lines[0][:200]}")


class _Reader:
    """Gives the rows of one process of a trace as the compiler takes them."""

    def __init__(self, trace: Trace, how: How, process: int, clock: str) -> None:
        self._trace = trace
        self._how = how
        self._process = process
        self._clock = clock

    def objects(self) -> Iterator[bytes | memoryview]:
        """Batches of the columns that ``tare-replay compile`` takes."""
        ends = self._moments()
        wanted = [f"birth_{self._clock}", "size", *ends, "resized_from"]
        wanted += [self._region] if self._region else []
        for batch in self._batches("objects", [*wanted, *self._in_about()]):
            columns = [_values(batch, name) for name in wanted]
            yield from _batch([*columns[:2], self._about(batch), *columns[2:]])

    def _moments(self) -> list[str]:
        """Their columns in the order of ``_MOMENTS``; empty names for those that are not needed."""
        needed = set(_ENDS[self._how.death])
        if self._how.touch == "uses":
            needed |= {"first_use", "last_use"}
        names = {moment: moment for moment in _MOMENTS}
        if not self._trace.clocks_are_stored:
            for moment in tuple(needed):
                needed |= _origins(moment)
            names = {moment: distance for moment, (distance, _) in DISTANCES.items()}
        return [f"{names[m]}_{self._clock}" if m in needed else "" for m in _MOMENTS]

    @property
    def _region(self) -> str:
        """The column of what stands for regions; empty where objects are to have none."""
        return {"trace": "region", "site": "site"}.get(self._how.regions, "")

    def _in_about(self) -> list[str]:
        return [
            "operation",
            "alignment",
            *(["thread", "free_thread"] if self._how.threads else []),
            *(["free_operation"] if self._how.regions == "trace" else []),
        ]

    def stores(self) -> Iterator[bytes | memoryview]:
        """Batches: time, source, offset, target. A store into what is no object is left out."""
        for batch in self._batches("pointers", ["instructions", "source", "offset", "target"]):
            kept = batch.filter(pc.is_valid(batch["source"]))
            names = ("instructions", "source", "offset", "target")
            yield from _batch([_values(kept, name) for name in names])

    def _batches(self, name: str, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        alone = len(self._trace.processes) == 1
        path = table_file(self._trace.folder, name)
        # Texts that repeat are compared once, and not in each row.
        texts = ["operation"] if name == "objects" else []
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            there = _columns_with_values(file) if texts else set(file.schema_arrow.names)
            columns = [column for column in wanted if column in {*there, *texts}]
            columns += [] if alone else ["process"]
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                if not alone:
                    batch = batch.filter(pc.equal(batch["process"], self._process))
                yield batch

    def _about(self, batch: pa.RecordBatch) -> Numbers | None:
        """The words about the objects; None where there is nothing to say."""
        parts: list[Numbers] = []
        operations = batch["operation"]
        known = operations.dictionary.to_pylist()
        if _ZEROED in known:
            zeroed = operations.indices.to_numpy() == known.index(_ZEROED)
            parts.append(zeroed.astype(np.uint64))
        if self._how.regions == "trace" and "free_operation" in batch.schema.names:
            with_region = pc.equal(batch["free_operation"], _WITH_REGION).fill_null(False)
            bits = with_region.to_numpy(zero_copy_only=False).astype(np.uint64)
            parts.append(bits << np.uint64(_WITH_REGION_SHIFT))
        if (alignment := _values(batch, "alignment")) is not None:
            power = (alignment & (alignment - np.uint64(1))) == 0
            logarithm = np.log2(np.where(power, np.maximum(alignment, 1), 1))
            bits = np.minimum(logarithm, _GREATEST_ALIGNMENT).astype(np.uint64)
            parts.append(bits << np.uint64(_ALIGNMENT_SHIFT))
        if self._how.threads:
            for name, shift in (("thread", _THREAD_SHIFT), ("free_thread", _FREE_THREAD_SHIFT)):
                if (thread := _values(batch, name)) is not None:
                    there = np.where(thread == _NEVER, 0, thread & np.uint64(_THREAD_MASK))
                    parts.append(there << np.uint64(shift))
        return sum(parts[1:], start=parts[0]) if parts else None


def _columns_with_values(file: pq.ParquetFile) -> set[str]:
    """Without those that are empty, which take as long to read as others."""
    facts = file.metadata
    found = set()
    for group in map(facts.row_group, range(facts.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            told = column.statistics if column.is_stats_set else None
            if told is None or not told.has_null_count or told.null_count < column.num_values:
                found.add(column.path_in_schema)
    return found


def _origins(moment: str) -> set[str]:
    """The moments, without births, that the distance to this one is counted from."""
    origins = set(DISTANCES[moment][1]) - {"birth"}
    return origins.union(*(_origins(origin) for origin in origins))


def _values(batch: pa.RecordBatch, name: str) -> Numbers | None:
    """A column as 64-bit numbers, ``_NEVER`` where it is empty; None where all of it is, or where
    it is not there."""
    if name not in batch.schema.names:
        return None
    column = batch[name]
    if column.null_count == len(column):
        return None
    if column.null_count:
        column = column.cast("uint64").fill_null(_NEVER)
    found: Numbers = column.to_numpy().astype(np.uint64, copy=False)
    return found


def _batch(columns: list[Numbers | None]) -> Iterator[bytes | memoryview]:
    """The parts of one batch of rows, as ``tare-replay compile`` reads them. The first column is
    there, unless the batch is empty."""
    there = [(bit, column) for bit, column in enumerate(columns) if column is not None]
    if not there:
        return
    yield len(there[0][1]).to_bytes(8, "little")
    yield sum(1 << bit for bit, _ in there).to_bytes(8, "little")
    for _, column in there:
        yield np.ascontiguousarray(column).data.cast("B")
