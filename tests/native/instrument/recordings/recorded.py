"""Records a program with the bare instrument, and reads what it wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tare.base.native import native_file
from tare.heap_traces.recording import (
    TABLES,
    Frame,
    Process,
    TableReader,
    read_frames,
    read_processes,
)
from tare.heap_traces.trace import OPERATIONS
from tare.observers import instrument
from tests.support import AS_DEBIAN_COMPILES, SUPPORT

Completed = subprocess.CompletedProcess[str]
Columns = Mapping[str, NDArray[np.uint64]]
Compile = Callable[..., Path]
PROGRAMS = SUPPORT / "programs"
BLOCK_ROWS = 4096
"""That the tool keeps before it writes them."""


@dataclass(frozen=True)
class Recording:
    """A process's tables, whole. ``deaths`` has a row for each row of ``births``, zeros where none
    was written; ``damage`` maps a table to why it ends too soon."""

    process: Process
    births: Columns
    deaths: Columns
    sites: Columns
    pointers: Columns
    marks: Columns
    switches: Columns
    regions: Columns
    costs: Columns
    frames: Sequence[Frame]
    damage: Mapping[str, str]

    def of_size(self, size: int) -> list[int]:
        """Rows of the objects of that size, in order of birth."""
        return [int(row) for row in np.flatnonzero(self.births["size"] == size)]

    def only(self, size: int) -> int:
        (row,) = self.of_size(size)
        return row

    def calls(self, row: int) -> list[str]:
        """The functions that led to an object's birth, the innermost first."""
        names, site = [], int(self.births["site"][row])
        while site != 0:
            names.append(self.frames[int(self.sites["frame"][site - 1])].function)
            site = int(self.sites["caller"][site - 1])
        return names


OF_A_JVM = {"references"}
"""Tables that the instrument does not write."""


def read(folder: Path) -> list[Recording]:
    return [_read_one(process) for process in read_processes(folder)]


def _read_one(process: Process) -> Recording:
    tables, damage = {}, {}
    for name in TABLES.keys() - OF_A_JVM:
        reader = TableReader(process.table(name), name)
        batches = list(reader)
        empty = np.zeros(0, np.uint64)
        tables[name] = {
            column: np.concatenate([batch[column] for batch in batches]) if batches else empty
            for column in TABLES[name]
        }
        if reader.damage:
            damage[name] = reader.damage
    frames, why = read_frames(process.table("frames"))
    if why:
        damage["frames"] = why
    births = len(tables["births"]["size"])
    rows = tables["deaths"]["id"]
    assert (rows > 0).all()
    assert (rows <= births).all() or damage or process.end == "running"
    rows, places = np.unique(rows[::-1], return_index=True)
    places = len(tables["deaths"]["id"]) - 1 - places
    known = rows <= births
    aligned = {}
    for column, values in tables["deaths"].items():
        aligned[column] = np.zeros(births, np.uint64)
        aligned[column][rows[known].astype(np.int64) - 1] = values[places[known]]
    return Recording(process, **{**tables, "deaths": aligned}, frames=frames, damage=damage)


def check(recording: Recording) -> None:
    """What holds for every recording of a process that wrote its end."""
    births, deaths, sites = recording.births, recording.deaths, recording.sites
    numbers = recording.process.numbers
    count = len(births["size"])
    assert recording.damage == {}
    assert recording.process.end in ("exit", "exec")
    assert count == numbers["objects"]
    assert count == 0 or births["bytes"][-1] == numbers["allocated_bytes"]
    for table in (births, recording.pointers, recording.marks):
        assert (np.diff(table["instructions"].astype(np.int64)) >= 0).all()
        assert (table["instructions"] <= numbers["instructions"]).all()
    assert (np.diff(births["bytes"].astype(np.int64)) >= 0).all()
    assert (births["operation"] < len(OPERATIONS)).all()
    assert (births["thread"] >= 1).all()
    assert (births["thread"] <= max(numbers["threads"], 1)).all()
    assert (births["usable_size"] >= births["size"])[births["usable_size"] > 0].all()
    assert (births["alignment"] & (births["alignment"] - np.uint64(1)) == 0)[
        births["alignment"] > 0
    ].all()

    assert (deaths["id"] == np.arange(1, count + 1)).all(), "each object ends, if only alive"
    first, last, free = (deaths[name] for name in ("first_use", "last_use", "free_instructions"))
    used, freed = first > 0, free > 0
    assert (used == (last > 0)).all()
    assert (births["instructions"] <= first)[used].all()
    assert (first <= last).all()
    assert (last <= free)[freed].all()
    assert (deaths["touched"] <= births["size"]).all()
    assert (births["instructions"] <= free)[freed].all()
    assert (births["bytes"] <= deaths["free_bytes"])[freed].all()
    assert (deaths["free_bytes"][~freed] == 0).all()
    unreachable = deaths["unreachable_instructions"]
    found = unreachable > 0
    assert (found == (deaths["unreachable_bytes"] > 0)).all()
    assert (births["instructions"] <= unreachable)[found].all()
    assert (unreachable <= free)[found & freed].all()
    assert np.isin(unreachable[found], recording.marks["instructions"]).all()

    grown = births["resized_from"] > 0
    before = births["resized_from"][grown].astype(np.int64) - 1
    assert (before < np.flatnonzero(grown)).all()
    assert (births["operation"][grown] == OPERATIONS.index("realloc")).all()
    assert (free[before] == births["instructions"][grown]).all()
    assert (last[before] == free[before]).all(), "a realloc uses what it keeps"

    assert (births["site"] <= len(sites["caller"])).all()
    assert (sites["caller"] <= np.arange(len(sites["caller"]))).all()
    assert (sites["frame"] < len(recording.frames)).all()
    for name in ("source", "target"):
        assert (recording.pointers[name] <= count).all()
    for mark in zip(*(column.tolist() for column in recording.marks.values()), strict=True):
        _check_mark(recording, *mark)


def _check_mark(
    recording: Recording,
    instructions: int,
    bytes_: int,
    live_objects: int,
    live_bytes: int,
    reachable_objects: int,
    reachable_bytes: int,
) -> None:
    births, deaths = recording.births, recording.deaths
    free = deaths["free_instructions"]
    live = (births["bytes"] <= bytes_) & (births["instructions"] <= instructions)
    live &= (free == 0) | (free > instructions)
    assert live_objects == np.count_nonzero(live)
    assert live_bytes == births["size"][live].sum()
    assert reachable_objects <= live_objects
    assert reachable_bytes <= live_bytes
    lost = (deaths["unreachable_instructions"] > 0) & (
        deaths["unreachable_instructions"] <= instructions
    )
    # What a later search finds again was not lost; its row says nothing of it.
    assert np.count_nonzero(live & lost) <= live_objects - reachable_objects


def command(folder: Path, *options: str) -> list[str]:
    return [
        str(native_file(instrument.LAUNCHER)), "--tool=tareinst", "--command-line-only=yes",
        "--quiet", "--vgdb=no", "--trace-children=yes", f"--trace-folder={folder}", *options,
    ]  # fmt: skip


def tool(
    tmp_path: Path, *argv: str | Path, options: Sequence[str] = (), **more: Any
) -> tuple[Completed, list[Recording]]:
    """The bare tool, without Tare around it: what it recorded of each process, unchecked."""
    folder = tmp_path / "recording"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", **more.pop("env", {})}
    done = subprocess.run(
        [*command(folder, *options), *map(str, argv)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env=environment, **more,
    )  # fmt: skip
    return done, read(folder)


def recorded(tmp_path: Path, *argv: str | Path, **more: Any) -> tuple[Recording, str]:
    """The recording of a program of one process that ends well, checked, and what it printed."""
    done, recordings = tool(tmp_path, *argv, **more)
    assert (done.returncode, done.stderr) == (0, "")
    (recording,) = recordings
    check(recording)
    return recording, done.stdout


def built(folder: Path, name: str, *flags: str) -> Path:
    """A program of tests/support/programs, compiled."""
    compiler = ("c++", "-std=c++17") if name.endswith("cpp") else ("cc",)
    own = ("-O1", "-g", "-pthread", *AS_DEBIAN_COMPILES)
    target = folder / Path(name).stem
    subprocess.run([*compiler, *own, *flags, "-o", target, PROGRAMS / name], check=True)
    return target


either_way = pytest.mark.parametrize("sites", ["yes", "no"])
"""Without call sites the blocks of code are longer."""

NO_GUARDS = "the kernel has no guards (MADV_GUARD_INSTALL, Linux 6.13)"
