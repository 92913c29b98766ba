"""The heap trace: a folder of Parquet files with a row for each object, opened and checked.

    objects.parquet    a row per object, by process and in order of birth
    sites.parquet      a row per call site: a tree, in which the caller is another site
    pointers.parquet   a row per store of a pointer to an object
    regions.parquet    a row per region
    events.parquet     starts, ends, marks, and where recording went on and off
    meta.json          what was recorded, of which program, and whether it is complete

On the disk, the moments after an object's birth are distances from the moment before: a program
repeats its distances, so they take a third of the room. ``Trace.objects`` gives them as clocks.

docs/trace.md describes every column. A trace can come from anywhere, so whatever reads one goes
through ``open_trace``, which holds the files against the schema and against each other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from tare.base.display import Displayed
from tare.base.documents import DocumentError, converted, no_number
from tare.base.errors import TareError, UsageError
from tare.base.libraries import pa, pc, pl, pq
from tare.base.parquet_files import first_damaged

FORMAT, VERSION = "tare-trace", 5
META_FILE = "meta.json"
OPERATIONS = ("malloc", "calloc", "realloc", "aligned", "new", "region")
FREE_OPERATIONS = ("", "free", "realloc", "region")
"""By the numbers of raw recordings, where 0 is not known."""

CLOCKS = ("instructions", "nanoseconds", "bytes")
MOMENTS = ("birth", "first_use", "last_use", "unreachable", "free", "before_teardown")

TABLES: dict[str, dict[str, str]] = {
    "objects": {
        "process": "u32",
        "id": "u64",
        "operation": "text",
        "thread": "u32",
        "site": "u32?",
        "region": "u32?",
        "size": "u64",
        "usable_size": "u64?",
        "touched": "u64?",
        "alignment": "u64?",
        "resized_from": "u64?",
        "address": "u64?",
        "free_thread": "u32?",
        "free_site": "u32?",
        "free_operation": "text?",
        **{f"{moment}_{clock}": "u64?" for moment in MOMENTS for clock in CLOCKS},
        "birth_bytes": "u64",
    },
    "sites": {
        "process": "u32",
        "site": "u32",
        "caller": "u32?",
        "function": "text",
        "object": "text",
        "file": "text",
        "line": "u32?",
        "address": "u64",
        "offset": "u64",
        "calls": "u64?",
        "instructions": "u64?",
    },
    "pointers": {
        "process": "u32",
        "instructions": "u64",
        "source": "u64?",
        "offset": "u64",
        "target": "u64?",
    },
    "regions": {
        "process": "u32",
        "region": "u32",
        "parent": "u32?",
        "site": "u32?",
        "created_nanoseconds": "u64?",
        "created_bytes": "u64?",
        "destroyed_nanoseconds": "u64?",
        "destroyed_bytes": "u64?",
        "clears": "u64",
    },
    "events": {
        "process": "u32",
        "instructions": "u64?",
        "nanoseconds": "u64?",
        "bytes": "u64",
        "kind": "text",
        "live_objects": "u64?",
        "live_bytes": "u64?",
        "reachable_objects": "u64?",
        "reachable_bytes": "u64?",
    },
}
"""Columns and types as they are read; a type with a question mark may be empty."""

DISTANCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "first_use": ("lag", ("birth",)),
    "last_use": ("use", ("first_use", "birth")),
    "free": ("rest", ("last_use", "birth")),
    "unreachable": ("reach", ("birth",)),
    "before_teardown": ("need", ("birth",)),
}
"""For each later moment of an object, in an order in which they can be computed: the name of the
distance that is stored, and from where it counts: the first of these moments that is known."""

STORED = dict(TABLES)
"""Columns and types of each file, as ``TABLES``."""
STORED["objects"] = {
    name: kind
    for name, kind in TABLES["objects"].items()
    if name not in {f"{moment}_{clock}" for moment in DISTANCES for clock in CLOCKS}
} | {f"{distance}_{clock}": "u64?" for distance, _ in DISTANCES.values() for clock in CLOCKS}

_SINCE = {
    2: {
        "objects": frozenset(
            {"address", "free_thread", "free_site"}
            | {f"{what}_nanoseconds" for what in ("lag", "use", "rest", "reach", *MOMENTS)}
        ),
        "events": frozenset({"nanoseconds"}),
    },
    3: {
        "objects": frozenset({"free_operation"}),
        "regions": frozenset(TABLES["regions"]),
    },
    4: {
        "objects": frozenset(
            {"touched"}
            | {f"{what}_{clock}" for what in ("need", "before_teardown") for clock in CLOCKS}
        )
    },
    5: {"sites": frozenset({"calls", "instructions"})},
}
"""By version, the columns that traces had not before."""

_META_LIMIT = 64 << 20
_MOST_PROCESSES = 100_000
_MOST_SITES = 1 << 24
_MOST_ROWS_IN_GROUP = 1 << 22
_DEEPEST_STACK = 4096
_MOST_FRAMES_LISTED = 1 << 26
_FRAME_COLUMNS = ("function", "object", "file", "line", "offset")
_DAMAGED = "the trace is damaged: record it again"


class TraceDamageError(UsageError):
    """The rows of a trace contradict each other; ``tare.heap_traces.residence.reading`` says of
    which trace."""


U64 = Annotated[int, Meta(ge=0, description="a number of 64 bits")]


def _refuse_longer_numbers(described: Struct) -> None:
    for name in described.__struct_fields__:
        value = getattr(described, name)
        if isinstance(value, int) and value >= 1 << 64:
            raise ValueError(f"{name}: must be a number of 64 bits, not {value}")


class TracedProcess(Struct, frozen=True):
    """What meta.json says of a process."""

    process: U64
    pid: U64
    parent: U64
    program: str
    end: str
    instructions: U64
    allocated_bytes: U64
    objects: U64
    complete: bool
    nanoseconds: U64 = 0
    """Not there before version 2."""

    def __post_init__(self) -> None:
        _refuse_longer_numbers(self)


class TraceHeader(Struct, frozen=True):
    """What meta.json says in every trace."""

    version: Annotated[int, Meta(ge=1, le=VERSION)]
    observer: str
    observed: tuple[str, ...]
    program: dict[str, Any]
    manager: str
    complete: bool
    reason: str
    processes: Annotated[
        tuple[TracedProcess, ...],
        Meta(max_length=_MOST_PROCESSES, description=f"a list of at most {_MOST_PROCESSES:,}"),
    ]
    objects: U64

    def __post_init__(self) -> None:
        _refuse_longer_numbers(self)
        if [process.process for process in self.processes] != [*range(len(self.processes))]:
            raise ValueError("processes: they are not numbered 0, 1, 2, …")
        if sum(process.objects for process in self.processes) != self.objects:
            raise ValueError("objects: those of the processes do not add up to all objects")


@dataclass(frozen=True)
class Trace(Displayed):
    """An opened trace. ``meta`` is all of meta.json; ``header`` is what each trace has there.
    ``clocks_are_stored`` says that its objects have their moments as clocks on the disk, as other
    recorders may write them."""

    folder: Path
    meta: Mapping[str, Any]
    clocks_are_stored: bool = False

    @cached_property
    def header(self) -> TraceHeader:
        return converted(self.meta, TraceHeader)

    @property
    def processes(self) -> Sequence[Mapping[str, Any]]:
        """What meta.json says of each process, by number."""
        processes: list[dict[str, Any]] = self.meta["processes"]
        return processes

    @property
    def sample_bytes(self) -> int:
        """Of how many allocated bytes one was sampled; 0 where all objects are there."""
        found = self.meta.get("sample_bytes", 0)
        return found if type(found) is int and 0 <= found < 1 << 64 else 0

    def objects(self) -> pl.LazyFrame:
        """A row per object, by process and id, with every moment on both clocks."""
        stored = self._scan("objects")
        if self.clocks_are_stored:
            return stored.select(*TABLES["objects"])
        for moment, (distance, origins) in DISTANCES.items():
            stored = stored.with_columns(
                (
                    pl.coalesce(*(f"{origin}_{clock}" for origin in origins))
                    + pl.col(f"{distance}_{clock}")
                ).alias(f"{moment}_{clock}")
                for clock in CLOCKS
            )
        return stored.select(*TABLES["objects"])

    def sites(self) -> pl.LazyFrame:
        """A row per call site."""
        return self._scan("sites")

    def pointers(self) -> pl.LazyFrame:
        """A row per store of a pointer; none unless "pointers" is in ``meta["observed"]``."""
        return self._scan("pointers")

    def regions(self) -> pl.LazyFrame:
        """A row per region."""
        return self._scan("regions")

    def events(self) -> pl.LazyFrame:
        """Starts and ends of processes, marks of reachability, and where recording went on and
        off."""
        return self._scan("events").select(*TABLES["events"])

    def _scan(self, name: str) -> pl.LazyFrame:
        version = self.header.version
        kinds = (TABLES if name == "objects" and self.clocks_are_stored else STORED)[name]
        types = {"u32": pl.UInt32, "u64": pl.UInt64, "text": pl.String}
        columns = {column: types[kind.rstrip("?")] for column, kind in kinds.items()}
        if not _in_version(version, name, kinds):
            return pl.LazyFrame(schema=columns)
        found = pl.scan_parquet(table_file(self.folder, name), glob=False)
        return found.with_columns(
            pl.lit(None, kind).alias(column)
            for column, kind in columns.items()
            if _is_newer(version, name, column)
        )

    def site_frames(self) -> pl.DataFrame:
        """Every call site with its stack: columns process, site and ``frames``, a list of structs
        (function, object, file, line, offset), the innermost frame first.

        Raises UsageError where the stacks are so deep that they would not fit into memory.
        """
        sites = self.sites().collect()
        frame = pl.struct(*_FRAME_COLUMNS).alias("frame")
        steps = sites.select("process", frame, "caller", at="site")
        reached = sites.select("process", "site", at="site")
        parts: list[pl.DataFrame] = []
        for _ in range(_DEEPEST_STACK):
            found = reached.join(steps, on=["process", "at"], how="inner", maintain_order="left")
            if parts and found.is_empty():
                break
            parts.append(found.select("process", "site", "frame"))
            if sum(part.height for part in parts) > _MOST_FRAMES_LISTED:
                raise UsageError(f"{self.folder}: the stacks of its call sites are too deep")
            reached = found.select("process", "site", at="caller").drop_nulls("at")
        frames = pl.concat(parts).group_by("process", "site").agg(frames="frame")
        return frames.sort("process", "site")

    def stacks(self, sites: Sequence[tuple[int, int]]) -> list[list[dict[str, Any]]]:
        """The stacks of call sites, given as (process, site): for each its frames, the innermost
        first, as dicts of function, object, file, line and offset. A site that is not there has
        none."""
        table, place, callers = self._placed_sites
        stacks = []
        for process, site in sites:
            at: int | None = site
            rows: list[int] = []
            while at is not None and (process, at) in place and len(rows) < _DEEPEST_STACK:
                rows.append(place[process, at])
                at = callers[rows[-1]]
            stacks.append(rows)
        named = [*{row for rows in stacks for row in rows}]
        alike = table.select(_FRAME_COLUMNS)[named].with_columns(
            row=pl.Series(named, dtype=pl.Int64)
        )
        frames: dict[int, dict[str, Any]] = {}
        for *values, numbers in alike.group_by(_FRAME_COLUMNS).agg("row").iter_rows():
            frame = dict(zip(_FRAME_COLUMNS, values, strict=True))
            frames.update((row, frame) for row in numbers)
        return [[frames[row] for row in rows] for rows in stacks]

    @cached_property
    def _placed_sites(
        self,
    ) -> tuple[pl.DataFrame, Mapping[tuple[int, int], int], Sequence[int | None]]:
        """The table of call sites, the row of each (process, site), and the caller of each row."""
        table = self.sites().collect()
        keys = table.select("process", "site").iter_rows()
        return table, {key: row for row, key in enumerate(keys)}, table["caller"].to_list()

    def frames_of(self, process: int, site: int) -> list[dict[str, Any]]:
        """The stack of one call site; see ``stacks``."""
        return self.stacks([(process, site)])[0]

    def size_bytes(self) -> int:
        """Of all its files, on the disk."""
        return sum(path.stat().st_size for path in self.folder.iterdir() if path.is_file())


def _is_newer(version: int, table: str, column: str) -> bool:
    """Whether traces of that version do not have the column."""
    return any(
        version < since and column in columns.get(table, ()) for since, columns in _SINCE.items()
    )


def _in_version(version: int, table: str, columns: Mapping[str, str]) -> dict[str, str]:
    """The columns that traces of that version have; none of a table that they have not."""
    return {name: kind for name, kind in columns.items() if not _is_newer(version, table, name)}


def order_clock(observed: Collection[str]) -> str:
    """The clock that tells any two events of a process apart: ``observed`` is that of meta.json."""
    return "nanoseconds" if "nanoseconds" in observed else "instructions"


def sample_weight(sample_bytes: int) -> pl.Expr:
    """How many objects of the program an object of a trace stands for, on average, where one byte
    in ``sample_bytes`` was marked by chance: 1 where that is 0."""
    if sample_bytes == 0:
        return pl.lit(1.0)
    chance = 1 - (pl.col("size").cast(pl.Float64) / -sample_bytes).exp()
    return pl.when(pl.col("size") == 0).then(1.0).otherwise(1 / chance)


def table_file(folder: Path, name: str) -> Path:
    """The file of a table of the trace in ``folder``."""
    return folder / f"{name}.parquet"


def is_trace(folder: Path) -> bool:
    """Whether ``folder`` looks like a heap trace, of whatever version."""
    try:
        with (folder / META_FILE).open("rb") as file:
            meta = json.loads(file.read(_META_LIMIT))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(meta, dict) and meta.get("format") == FORMAT


def open_trace(path: Path | str) -> Trace:
    """The trace in the folder ``path``.

    Raises UsageError where it is no trace, is of a newer version, or where a file does not have the
    columns or the number of rows that it must have. The values inside are not read; see
    ``violations``.
    """
    folder = Path(path)
    meta = _read_meta(folder)
    _refuse_damage(folder, meta)
    rows, clocked = {}, False
    for name in TABLES:
        stored, clocks = (
            _in_version(meta["version"], name, columns) for columns in (STORED[name], TABLES[name])
        )
        if not stored:
            continue
        rows[name], found = _check_table(table_file(folder, name), stored, clocks)
        clocked |= found != stored
    if rows["objects"] != meta["objects"]:
        raise UsageError(
            f"{folder}: {META_FILE} counts {meta['objects']} objects, and objects.parquet has "
            f"{rows['objects']}",
            _DAMAGED,
        )
    if rows["sites"] > _MOST_SITES:
        raise UsageError(f"{folder} has {rows['sites']} call sites: at most {_MOST_SITES}")
    return Trace(folder, meta, clocked)


def _refuse_damage(folder: Path, meta: Mapping[str, Any]) -> None:
    known = meta.get("files")
    known = known if isinstance(known, dict) else {}
    digests = {}
    for name in TABLES:
        if (path := table_file(folder, name)).is_file():
            digest = known.get(name)
            digests[path] = digest if isinstance(digest, str) else ""
    try:
        damaged = first_damaged(digests)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error}") from None
    if damaged is not None:
        raise UsageError(f"{damaged} was changed after it was written", _DAMAGED)


def _read_meta(folder: Path) -> dict[str, Any]:
    path = folder / META_FILE
    try:
        if path.stat().st_size > _META_LIMIT:
            raise UsageError(f"{path} is too large for a heap trace")
        meta = json.loads(path.read_bytes(), parse_constant=no_number)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{folder} is not a heap trace (it has no {META_FILE})",
            "record one with: tare trace -o NAME.tare -- PROGRAM",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise UsageError(f"{path} does not describe a heap trace")
    version = meta.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise UsageError(
            f"{path} has version {version!r}; this Tare reads up to {VERSION}",
            "use the Tare that wrote it, or a newer one",
        )
    try:
        converted(meta, TraceHeader)
    except DocumentError as error:
        raise UsageError(f"{path}: {error}") from None
    return meta


def _check_table(path: Path, *allowed: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    """The number of rows of a Parquet file, and which of the ``allowed`` columns it has."""
    try:
        metadata = pq.read_metadata(path)
        found = metadata.schema.to_arrow_schema()
    except FileNotFoundError:
        raise UsageError(f"{path} is missing", _DAMAGED) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}", _DAMAGED) from None
    for columns in allowed:
        expected = arrow_schema(columns)
        if found.names == expected.names and found.types == expected.types:
            break
    else:
        raise UsageError(f"{path} does not have the columns of a heap trace")
    rows = 0
    for group in range(metadata.num_row_groups):
        in_group = metadata.row_group(group).num_rows
        if not 0 <= in_group <= _MOST_ROWS_IN_GROUP:
            raise UsageError(f"{path}: a row group of {in_group} rows is more than Tare reads")
        rows += in_group
        for place, (name, kind) in enumerate(columns.items()):
            statistics = metadata.row_group(group).column(place).statistics
            if not kind.endswith("?") and statistics is not None and statistics.null_count:
                raise UsageError(f"{path}: {name} is empty in some rows", _DAMAGED)
    return rows, columns


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """The pyarrow.Schema of a table of ``TABLES``."""
    types = {"u32": pa.uint32(), "u64": pa.uint64(), "text": pa.string()}
    return pa.schema(
        [
            pa.field(name, types[kind.rstrip("?")], nullable=kind.endswith("?"))
            for name, kind in columns.items()
        ]
    )


def filled_up(columns: Mapping[str, Any], expected: Mapping[str, str]) -> dict[str, Any]:
    """``columns``, pyarrow arrays, with those of ``expected`` that are missing, all empty."""
    schema = arrow_schema(expected)
    rows = len(next(iter(columns.values())))
    missing = [field for field in schema if field.name not in columns]
    return {**columns, **{field.name: pa.nulls(rows, field.type) for field in missing}}


def with_distances(objects: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of objects as ``TABLES`` has them, pyarrow arrays, as ``STORED`` has them."""
    columns = dict(objects)
    for clock in CLOCKS:
        for moment, (distance, origins) in DISTANCES.items():
            origin = pc.coalesce(*(objects[f"{name}_{clock}"] for name in origins))
            columns[f"{distance}_{clock}"] = pc.subtract(objects[f"{moment}_{clock}"], origin)
    return {name: columns[name] for name in STORED["objects"]}


def with_clocks(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of ``with_distances``."""
    columns = dict(stored)
    for clock in CLOCKS:
        for moment, (distance, origins) in DISTANCES.items():
            origin = pc.coalesce(*(columns[f"{name}_{clock}"] for name in origins))
            columns[f"{moment}_{clock}"] = pc.add(origin, stored[f"{distance}_{clock}"])
    return {name: columns[name] for name in TABLES["objects"]}


def remove_trace(folder: Path) -> None:
    """Delete a trace; only a folder that holds one."""
    if not is_trace(folder):
        raise UsageError(f"{folder} is not a heap trace, so it is not deleted")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise TareError(f"cannot delete {folder}: {error.strerror or error}") from None
