"""From a raw recording to a heap trace, in bounded memory.

Births come in the order of object ids, deaths in the order in which objects die. So for each
process the births are read twice: first for their clocks, which tell the bytes clock of a use; then
for the rows, a row group at a time. In between the deaths are put at the places of their objects
in a temporary file, as long as there are objects, of which little is in memory at a time.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare.base.errors import TareError
from tare.base.files import hash_file
from tare.base.libraries import NDArray, np, pa
from tare.base.units import format_count
from tare.heap_traces.invariants import broken_rows, last_births
from tare.heap_traces.matching import BirthClock, Deaths
from tare.heap_traces.recording import (
    Frame,
    Process,
    TableReader,
    read_frames,
    read_processes,
)
from tare.heap_traces.symbols import unfold
from tare.heap_traces.trace import (
    CLOCKS,
    FORMAT,
    FREE_OPERATIONS,
    META_FILE,
    OPERATIONS,
    TABLES,
    VERSION,
    filled_up,
    table_file,
)
from tare.heap_traces.writing import TableWriter, constant, known, numbers, words

_DEATH_BATCH = 1 << 15
"""Rows that are put in place before the pages which they touched are let go: at most 128 MB."""
_MOST_SITES = 1 << 23
_FRAMES_AT_ONCE = 100_000
_MOST_U32 = (1 << 32) - 1
_WITHOUT_NAMES = ("recorder", "instrument")
"""Observers whose frames are still to be named; recordings of others have names as they are."""
_FIRST_NOTE_SECONDS, _NOTE_SECONDS = 2.0, 10.0
_COPIED_NUMBERS = (
    "instructions",
    "nanoseconds",
    "allocated_bytes",
    "threads",
    "unknown_frees",
    "inherited_frees",
)


@dataclass(frozen=True)
class _Sites:
    """The call sites of a process as they were written: ``rows`` of them, and the number of each of
    the recording's, from 1. Functions that are inlined have rows of their own."""

    numbers: NDArray[np.uint64]
    rows: int

    def renumber(self, wanted: NDArray[np.uint64]) -> int:
        """Refer to what was written. What refers to a site that was not recorded becomes unknown;
        how many."""
        lost = wanted >= len(self.numbers)
        wanted[lost] = 0
        wanted[:] = self.numbers[wanted]
        return int(np.count_nonzero(lost))


@dataclass
class _Sum:
    """What the rows of all processes add up to."""

    objects: int = 0
    sites: int = 0
    allocating_sites: int = 0
    violations: dict[str, int] = field(default_factory=dict)

    def add_violations(self, found: Mapping[str, int]) -> None:
        for name, number in found.items():
            self.violations[name] = self.violations.get(name, 0) + number


class _Progress:
    """Tells ``note`` how far a conversion is, once it takes longer than a moment."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._next = time.monotonic() + _FIRST_NOTE_SECONDS

    def tell(self, doing: str, objects: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _NOTE_SECONDS
            self._note(f"{doing}: {format_count(objects)} objects so far")


def convert(
    recording: Path,
    folder: Path,
    facts: Mapping[str, Any],
    reason: str = "",
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write the trace of the files in ``recording`` into the existing empty ``folder``; returns
    what meta.json holds.

    ``facts`` goes into meta.json as it is, and must have what ``tare.heap_traces.trace`` expects
    there of the program and the manager. ``reason`` says why the run was not a good one, if so.
    Temporary files lie in ``recording``. Raises TareError where the disk is full or a file is not a
    recording's.
    """
    try:
        found = read_processes(recording)
        is_named = facts["observer"] not in _WITHOUT_NAMES
        total, described = _write_tables(found, folder, _Progress(note), recording, is_named)
        problems = [text for process in described for text in process.pop("damage")]
        if not reason and not found:
            reason = f"the {facts['observer']} wrote no recording"
        reasons = [reason, *(_incomplete(process) for process in described), *problems]
        if total.violations:
            reasons.append("rows that contradict each other: " + "; ".join(total.violations))
        reason = next(filter(None, reasons), "")
        meta = {
            "format": FORMAT,
            "version": VERSION,
            **facts,
            "complete": not reason,
            "reason": reason,
            "damage": problems,
            "violations": total.violations,
            "objects": total.objects,
            "sites": total.sites,
            "allocating_sites": total.allocating_sites,
            "processes": described,
            "files": {name: hash_file(table_file(folder, name)) for name in TABLES},
        }
        (folder / META_FILE).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise TareError(
            f"cannot write the trace to {folder}: {error.strerror or error}",
            "free some space or name another folder with -o",
        ) from None
    except pa.ArrowException as error:
        raise TareError(f"cannot write the trace to {folder}: {error}") from None
    return meta


def _incomplete(process: Mapping[str, Any]) -> str:
    if process["complete"] or process["end"] != "running":
        return ""
    return f"process {process['pid']} ({process['program'] or 'unknown'}) was killed"


def _write_tables(
    found: list[Process], folder: Path, progress: _Progress, temporary: Path, is_named: bool
) -> tuple[_Sum, list[dict[str, Any]]]:
    total = _Sum()
    described = []
    with ExitStack() as stack:
        tables = {name: stack.enter_context(TableWriter(folder, name)) for name in TABLES}
        of_processes = zip(found, _frames_of(found, is_named), strict=True)
        for number, (process, (frames, problem)) in enumerate(of_processes):
            source = _Source(number, process, [*process.damage, *problem])
            damage = source.damage
            before = total.objects
            sites = _write_sites(tables["sites"], source, frames)
            total.sites += sites.rows
            _write_objects(tables["objects"], source, sites, total, progress, temporary)
            _write_pointers(tables["pointers"], source)
            _write_regions(tables["regions"], source, sites)
            _write_events(tables["events"], source)
            described.append(
                {
                    "process": number,
                    "pid": process.pid,
                    "parent": process.numbers["parent"],
                    "program": process.program,
                    "end": process.end,
                    **{name: process.numbers[name] for name in _COPIED_NUMBERS},
                    "objects": total.objects - before,
                    "complete": process.end != "running" and not damage,
                    "damage": [f"process {process.pid}: {text}" for text in damage],
                }
            )
    return total, described


@dataclass(frozen=True)
class _Source:
    """The recording of a process, with its number in the trace; what is wrong with it goes into
    ``damage``, once."""

    number: int
    process: Process
    damage: list[str]

    def read(self, name: str, **options: Any) -> Iterator[Any]:
        """The batches of a table."""
        reader = TableReader(self.process.table(name), name, **options)
        yield from reader
        if reader.damage:
            text = f"the end of its {name} is missing: {reader.damage}"
            if text not in self.damage:
                self.damage.append(text)


# ---- objects ----


def _write_objects(
    table: TableWriter,
    source: _Source,
    sites: _Sites,
    total: _Sum,
    progress: _Progress,
    temporary: Path,
) -> None:
    with BirthClock(temporary) as clock:
        for births in source.read("births", wanted=("instructions", "bytes")):
            clock.append(births["instructions"], births["bytes"])
            progress.tell("reading the recording", total.objects + clock.rows)
        clock.close()
        with Deaths(temporary, clock.rows) as deaths:
            _read_deaths(source, deaths)
            row, lost_sites = 0, 0
            before = dict.fromkeys(CLOCKS, 0)
            allocating = np.zeros(sites.rows + 1, np.bool_)
            for births in source.read("births"):
                rows = len(births["size"])
                lost_sites += sites.renumber(births["site"])
                allocating[births["site"]] = True
                their_deaths = deaths.part(row, rows)
                lost_sites += sites.renumber(their_deaths["free_site"])
                columns = _object_columns(source.number, row, births, their_deaths, clock)
                columns = filled_up(columns, TABLES["objects"])
                total.add_violations(broken_rows(columns, row, before, sites.rows))
                table.write(columns)
                before = last_births(columns)
                row += rows
                total.objects += rows
                progress.tell("writing the trace", total.objects)
    total.allocating_sites += int(np.count_nonzero(allocating[1:]))
    if lost_sites:
        source.damage.append(f"the call sites of {lost_sites} objects are missing")


def _object_columns(
    number: int,
    rows_before: int,
    births: Mapping[str, NDArray[np.uint64]],
    deaths: Mapping[str, NDArray[np.uint64]],
    clock: BirthClock,
) -> dict[str, Any]:
    rows = len(births["size"])
    before_teardown = np.where(
        deaths["before_teardown"] > 0,
        np.maximum(deaths["before_teardown"], births["instructions"]),
        0,
    )
    operation, free_operation = births["operation"], deaths["free_operation"]
    if (
        operation.max() >= len(OPERATIONS)
        or free_operation.max() >= len(FREE_OPERATIONS)
        or births["thread"].max() > _MOST_U32
    ):
        raise TareError("the recording holds an unknown operation or thread", "build Tare again")
    return {
        "process": constant(number, rows),
        "id": numbers(np.arange(rows_before + 1, rows_before + rows + 1, dtype=np.uint64)),
        "operation": words(operation, OPERATIONS),
        "thread": numbers(births["thread"], kind="u32"),
        "site": known(births["site"], kind="u32"),
        "region": known(births["region"], kind="u32"),
        "size": numbers(births["size"]),
        "usable_size": known(births["usable_size"]),
        "touched": known(deaths["touched"]),
        "alignment": known(births["alignment"]),
        "resized_from": known(births["resized_from"]),
        "address": known(births["address"]),
        "free_thread": known(deaths["free_thread"], kind="u32"),
        "free_site": known(deaths["free_site"], kind="u32"),
        "free_operation": words(free_operation, (None, *FREE_OPERATIONS[1:])),
        "birth_instructions": known(births["instructions"]),
        "birth_nanoseconds": known(births["nanoseconds"]),
        "birth_bytes": numbers(births["bytes"]),
        "first_use_instructions": known(deaths["first_use"]),
        "first_use_bytes": known(clock.at(deaths["first_use"])),
        "last_use_instructions": known(deaths["last_use"]),
        "last_use_bytes": known(clock.at(deaths["last_use"])),
        "before_teardown_instructions": known(before_teardown),
        "before_teardown_bytes": known(clock.at(before_teardown)),
        "unreachable_instructions": known(deaths["unreachable_instructions"]),
        "unreachable_bytes": known(deaths["unreachable_bytes"]),
        "free_instructions": known(deaths["free_instructions"]),
        "free_nanoseconds": known(deaths["free_nanoseconds"]),
        "free_bytes": known(deaths["free_bytes"]),
    }


def _read_deaths(source: _Source, deaths: Deaths) -> None:
    batches = source.read("deaths", batch_rows=_DEATH_BATCH)
    if lost := sum(deaths.put(batch) for batch in batches):
        source.damage.append(f"{lost} deaths belong to objects whose births are missing")


# ---- the other tables ----


def _frames_of(
    found: Sequence[Process], is_named: bool
) -> Iterator[tuple[list[list[Frame]], list[str]]]:
    """For each process its frames, and why they end too soon. Each frame is a list: the functions
    at one place, the innermost first. The names of many are asked for at once."""
    waiting: list[tuple[list[Frame], list[str]]] = []
    for place, process in enumerate(found):
        frames, problem = read_frames(process.table("frames"))
        told = [f"the end of its frames is missing: {problem}"] if problem else []
        waiting.append((frames, told))
        if place + 1 < len(found) and sum(len(frames) for frames, _ in waiting) < _FRAMES_AT_ONCE:
            continue
        every = [frame for frames, _ in waiting for frame in frames]
        named = iter([[frame] for frame in every] if is_named else unfold(every))
        for frames, told in waiting:
            yield list(itertools.islice(named, len(frames))), told
        waiting.clear()


def _write_sites(table: TableWriter, source: _Source, frames: Sequence[Sequence[Frame]]) -> _Sites:
    """Write the call sites of a process."""
    each = [*frames, [Frame()]]
    flat = [frame for functions in each for frame in functions]
    counts = np.array([len(functions) for functions in each], np.int64)
    outermost = np.cumsum(counts) - 1
    texts = {
        name: pa.array([getattr(frame, name) for frame in flat])
        for name in ("function", "object", "file")
    }
    lines = np.array([frame.line for frame in flat], np.uint64)
    offsets = np.array([frame.offset for frame in flat], np.uint64)
    numbers_so_far = [np.zeros(1, np.uint64)]
    written = 0
    costs = _costs(source)
    for batch in source.read("sites"):
        known_numbers = np.concatenate(numbers_so_far)
        first = len(known_numbers)
        ids = np.arange(first, first + len(batch["frame"]), dtype=np.uint64)
        if np.any(batch["caller"] >= ids):
            source.damage.append(
                "the end of its call sites is missing: one comes before its caller"
            )
            break
        frame = np.minimum(batch["frame"], np.uint64(len(frames))).astype(np.int64)
        rows = counts[frame]
        last = (written + np.cumsum(rows)).astype(np.uint64)
        call = np.repeat(np.arange(len(rows)), rows)
        total = len(call)
        depth = written + np.arange(total) + rows[call] - last[call].astype(np.int64)
        here = np.arange(written + 1, written + total + 1, dtype=np.uint64)
        outer = np.concatenate([known_numbers, last])[batch["caller"]][call]
        place = outermost[frame][call] - depth
        places = pa.array(place)
        table.write(
            {
                "process": constant(source.number, total),
                "site": numbers(here, kind="u32"),
                "caller": known(np.where(depth == 0, outer, here - np.uint64(1)), kind="u32"),
                **{name: values.take(places) for name, values in texts.items()},
                "line": known(lines[place], kind="u32"),
                "address": numbers(batch["address"][call]),
                "offset": numbers(offsets[place]),
                **{
                    name: known(np.where(here == last[call], _of_sites(sums, ids)[call], 0))
                    for name, sums in costs.items()
                },
            }
        )
        numbers_so_far.append(last)
        written += total
        if written > _MOST_SITES:
            raise TareError(
                f"process {source.process.pid} has more than {_MOST_SITES} call sites",
                "record without them: --no-sites",
            )
    return _Sites(np.concatenate(numbers_so_far), written)


def _costs(source: _Source) -> dict[str, NDArray[np.uint64]]:
    """By the recording's number of a site: how often it called the manager, and for how many
    instructions. They are there of processes that came to their end."""
    sums = {name: np.zeros(0, np.uint64) for name in ("calls", "instructions")}
    for batch in source.read("costs", wanted=("site", *sums)):
        sites = batch["site"][batch["site"] <= _MOST_SITES]
        for name, values in sums.items():
            grown = np.zeros(max(len(values), int(sites.max(initial=0)) + 1), np.uint64)
            grown[: len(values)] = values
            np.add.at(grown, sites, batch[name][batch["site"] <= _MOST_SITES])
            sums[name] = grown
    return sums


def _of_sites(sums: NDArray[np.uint64], sites: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """0 of those that have none."""
    return np.append(sums, np.uint64(0))[np.minimum(sites, len(sums))]


def _write_pointers(table: TableWriter, source: _Source) -> None:
    for batch in source.read("pointers"):
        table.write(
            {
                "process": constant(source.number, len(batch["source"])),
                "instructions": numbers(batch["instructions"]),
                "source": known(batch["source"]),
                "offset": numbers(batch["offset"]),
                "target": known(batch["target"]),
            }
        )


def _write_regions(table: TableWriter, source: _Source, sites: _Sites) -> None:
    last = _last_rows(source)
    row = 0
    for batch in source.read("regions"):
        kept = last[row : row + len(batch["region"])]
        row += len(kept)
        if not np.any(kept):
            continue
        batch = {name: values[kept] for name, values in batch.items()}
        sites.renumber(batch["site"])
        table.write(
            {
                "process": constant(source.number, len(batch["region"])),
                "region": numbers(batch["region"], kind="u32"),
                "parent": known(batch["parent"], kind="u32"),
                "site": known(batch["site"], kind="u32"),
                **{
                    f"{moment}_{clock}": known(batch[f"{moment}_{clock}"])
                    for moment in ("created", "destroyed")
                    for clock in ("nanoseconds", "bytes")
                },
                "clears": numbers(batch["clears"]),
            }
        )


def _last_rows(source: _Source) -> NDArray[np.bool_]:
    """For each row of a process's regions whether it is the last of that region: the instrument
    writes one when a region is made, and one when it goes."""
    batches = source.read("regions", wanted=("region",))
    found = np.concatenate([np.zeros(0, np.uint64), *(batch["region"] for batch in batches)])
    _, from_the_end = np.unique(found[::-1], return_index=True)
    last = np.zeros(len(found), np.bool_)
    last[len(found) - 1 - from_the_end] = True
    return last


def _write_events(table: TableWriter, source: _Source) -> None:
    """A start, the marks, where recording went on and off, and the end, if the process lived to
    tell of it."""
    process = source.process
    live = ("live_objects", "live_bytes", "reachable_objects", "reachable_bytes")

    def write(kind: str, columns: Mapping[str, Any], rows: int) -> None:
        table.write(
            {
                "process": constant(source.number, rows),
                "kind": pa.array([kind]).take(pa.array(np.zeros(rows, np.int64))),
                **{name: pa.nulls(rows, pa.uint64()) for name in live},
                **columns,
            }
        )

    clock = "nanoseconds" if process.numbers["nanoseconds"] else "instructions"

    def moment(time: int, bytes_: int) -> dict[str, Any]:
        clocks = {clock: time, "bytes": bytes_}
        return {name: pa.array([value], pa.uint64()) for name, value in clocks.items()}

    write("start", moment(0, 0), 1)
    for batch in source.read("marks"):
        columns = {name: numbers(values) for name, values in batch.items()}
        write("mark", columns, len(batch["bytes"]))
    for batch in source.read("switches"):
        for when, bytes_, off in zip(*(batch[name].tolist() for name in batch), strict=True):
            write("off" if off else "on", moment(when, bytes_), 1)
    if process.end != "running":
        write("end", moment(process.numbers[clock], process.numbers["allocated_bytes"]), 1)
