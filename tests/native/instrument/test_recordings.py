"""What the instrument records, against programs that know what they do and Valgrind's own tools."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
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
from tare.memory_managers.manager import resolve
from tare.observers import call_sites, instrument
from tests.native.instrument.test_counts import OPTIONS, OWN_MALLOC, PRELUDE, REAL, write_inputs
from tests.support import AS_DEBIAN_COMPILES, SUPPORT
from tests.support.valgrind import (
    both_tools,
    loads_elsewhere,
    needs_valgrind,
    real_program,
    theirs,
    valgrind_environment,
)

__all__ = ["both_tools"]

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


# ---- uses ----

OBJECT, OBJECT_STEP, NEIGHBOUR, MARKER = 4160, 64, 2048, 60_000
"""As in uses.c."""


either_way = pytest.mark.parametrize("sites", ["yes", "no"])
"""Without call sites the blocks of code are longer."""


@either_way
def test_the_first_and_the_last_use_by_every_kind_of_access(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "uses.c", "-mcx16")
    recording, printed = recorded(tmp_path, program, options=[f"--sites={sites}"])
    names = printed.split()
    count = len(names) // 2
    assert count > 70
    markers = np.array(
        [recording.births["instructions"][recording.only(MARKER + i)] for i in range(2 * count + 1)]
    )
    wrong = {}
    for way, name in enumerate(names[:count]):
        row = recording.only(OBJECT + OBJECT_STEP * way)
        uses = [recording.deaths[each][row] for each in ("first_use", "last_use")]
        # Between which markers; 0: before the first, so never.
        seen = [int(np.searchsorted(markers, use, side="right")) for use in uses]
        places = [way + 1, names.index(name, count) + 1]
        if seen != ([0, 0] if name.startswith("nothing") else places):
            wrong[name] = seen, places
        neighbour = recording.only(NEIGHBOUR + way)
        assert recording.deaths["first_use"][neighbour] == 0, f"beside what {name} uses"
    assert wrong == {}


@either_way
def test_how_far_each_object_was_touched(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "touches.c")
    recording, printed = recorded(tmp_path, program, options=[f"--sites={sites}"])
    told = [tuple(map(int, line.split())) for line in printed.splitlines()]
    assert len(told) == 20
    seen = [(size, int(recording.deaths["touched"][recording.only(size)])) for size, _ in told]
    assert seen == told


# ---- births and deaths ----

BIRTHS = {
    # size: operation, alignment, grown out of the size, given back
    100_000_100: ("calloc", 0, None, True),
    3001: ("malloc", 0, None, True),
    3002: ("realloc", 0, 3001, True),
    3003: ("malloc", 0, None, True),
    200_005: ("realloc", 0, 3003, True),
    3006: ("realloc", 0, 200_005, True),
    3007: ("realloc", 0, None, True),
    3012: ("realloc", 0, None, True),
    3008: ("malloc", 0, None, True),
    3009: ("aligned", 128, None, True),
    3584: ("aligned", 512, None, True),
    3011: ("aligned", 1024, None, True),
    3013: ("aligned", 4096, None, True),
    3014: ("aligned", 4096, None, True),
    0: ("malloc", 0, None, True),
    3015: ("new", 0, None, True),
    3016: ("new", 0, None, True),
    3017: ("new", 0, None, True),
    3018: ("new", 0, None, True),
    3019: ("new", 0, None, True),
    3020: ("new", 64, None, True),
    3021: ("new", 64, None, True),
    2304: ("new", 256, None, True),
    1017: ("new", 0, None, True),
    3022: ("new", 0, None, False),
    3023: ("new", 0, None, True),
}
USED = {100_000_100, 3001, 3003, 200_005, 3023}
"""A realloc uses the object that it grows or shrinks, whose content it keeps."""


@either_way
def test_every_way_to_be_born(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "births.cpp")
    recording, _ = recorded(tmp_path, program, options=[f"--sites={sites}"])
    births, deaths = recording.births, recording.deaths
    rows = {size: recording.only(size) for size in BIRTHS}
    ids = {size: row + 1 for size, row in rows.items()}
    for size, (operation, alignment, origin, freed) in BIRTHS.items():
        row = rows[size]
        assert OPERATIONS[births["operation"][row]] == operation, size
        assert births["alignment"][row] == alignment, size
        assert births["resized_from"][row] == (0 if origin is None else ids[origin]), size
        assert (deaths["free_instructions"][row] > 0) == freed, size
        assert (deaths["last_use"][row] > 0) == (size in USED), size
    order = list(rows.values())
    assert order == sorted(order)
    large = rows[100_000_100]
    assert deaths["first_use"][large] == deaths["last_use"][large]
    added = np.diff(births["bytes"][: len(order) + order[0]].astype(np.int64))
    assert added[rows[3002] - 1] == 1
    assert added[rows[200_005] - 1] == 200_005 - 3003
    assert added[rows[3006] - 1] == 0


# ---- call sites ----

DEPTH = 80_000
CALLS = {
    5001: ["direct", "main"],
    5002: ["recursive"] * (DEPTH + 1) + ["main"],
    5004: ["called", "by_pointer", "main"],
    5005: ["of_virtual", "Derived::make()", "main"],
    5006: ["last_call", "main"],
    5007: ["main"],
    5008: ["catches", "main"],
    5009: ["catches", "main"],
    5010: ["lands", "main"],
    5012: ["interrupted", "main"],
    5014: ["left", "main"],
    5017: ["after", "main"],
}
"""A function that jumps to another in place of a call is on nobody's stack."""


def up_to(functions: Sequence[str], last: str) -> list[str]:
    return list(functions[: functions.index(last) + 1])


def test_the_calls_that_lead_to_an_object(tmp_path: Path) -> None:
    recording, _ = recorded(tmp_path, built(tmp_path, "calls.cpp"))
    for size, expected in CALLS.items():
        calls = recording.calls(recording.only(size))
        assert up_to(calls, "main") == expected, size
        assert len(calls) - len(expected) <= 3, "what stands above main"
    for size, innermost, called in ((5011, "handler", "interrupted"), (5015, "compares", "sorts"),
                                    (5013, "leaving_handler", "left")):  # fmt: skip
        calls = up_to(recording.calls(recording.only(size)), "main")
        # Between them, what the C library calls.
        assert (calls[0], *calls[-2:]) == (innermost, called, "main")
    assert recording.calls(recording.only(5016))[0] == "in_thread"
    first, second = (recording.births["site"][row] for row in recording.of_size(5003))
    assert first != second
    frames = [recording.frames[int(recording.sites["frame"][each - 1])] for each in (first, second)]
    assert [frame.function for frame in frames] == ["two_lines", "two_lines"]
    assert frames[0].line + 1 == frames[1].line
    assert frames[0].file.endswith("calls.cpp")
    assert frames[0].offset < frames[1].offset


def test_of_an_endless_recursion_the_inner_half_is_kept(tmp_path: Path) -> None:
    deep = 1_200_000
    recording, _ = recorded(tmp_path, built(tmp_path, "calls.cpp"), str(deep))
    calls = recording.calls(recording.only(5002))
    assert deep / 3 < len(calls) < deep
    assert set(calls) == {"recursive"}
    assert recording.calls(recording.only(5017))[0] == "after"


# ---- real programs, against Valgrind's own tools ----

MORE = {
    "grep": ["grep", "-cE", "7(1|2)+[0-5]", "{input}/lines"],
    "git": ["git", "hash-object", "{input}/lines"],
    "xz": ["xz", "-0", "--threads=1", "--stdout", "{input}/lines"],
    # From 1.7 on it seeds its tables at random, so that its instructions vary.
    "jq": ["jq", "-n", "[range(300)] | map(tostring) | length"],
    "mawk": ["mawk", "{ n[$1 % 50]++ } END { print length(n) }", "{input}/lines"],
    "find": ["find", "{input}/files", "-name", "*.pm"],
}


@pytest.fixture(scope="module")
def tools(request: pytest.FixtureRequest) -> Path:
    """Our tool and Valgrind's in one folder."""
    folder: Path = request.getfixturevalue("both_tools")
    for name in ("dhat-amd64-linux", "vgpreload_dhat-amd64-linux.so"):
        shutil.copy(Path("/usr/libexec/valgrind") / name, folder)
    return folder


@dataclass(frozen=True)
class Real:
    """A real program and what was recorded of it and counted in the same run."""

    name: str
    words: list[str]
    recording: Recording
    count: Mapping[str, Any]


@pytest.fixture(scope="module", params=[*REAL, *MORE])
def real(request: pytest.FixtureRequest, tools: Path) -> Real:
    """On input that it finds under one path for all tools."""
    words = {**REAL, **MORE}[request.param]
    found = real_program(words[0], valgrind_environment(tools)["PATH"])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    write_inputs(tools)
    words = [found, *(word.replace("{input}", str(tools)) for word in words[1:])]
    counts = tools / "counts-of-recorded"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    recording = record_real(tools, words, f"--count-folder={counts}", "--usable-size=glibc")
    (count,) = instrument.read_counts(counts)
    return Real(request.param, words, recording, count)


def record_real(both: Path, words: Sequence[str], *options: str) -> Recording:
    folder = both / "recording"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    launcher, *own = command(folder, *options)
    subprocess.run(
        [both / Path(launcher).name, *own, *words], env=valgrind_environment(both),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    (recording,) = read(folder)
    check(recording)
    return recording


def test_a_recording_has_what_is_counted(real: Real) -> None:
    numbers, births = real.recording.process.numbers, real.recording.births
    proof = real.count["proof_instructions"]
    assert numbers["instructions"] == real.count["instructions"] + proof
    assert numbers["allocated_bytes"] == real.count["allocated_bytes"]
    assert numbers["objects"] == real.count["objects"] + real.count["resized_objects"]
    grown = births["resized_from"] > 0
    assert np.count_nonzero(grown) == real.count["resized_objects"]
    kept = real.recording.deaths["free_instructions"] == 0
    assert np.count_nonzero(kept) == real.count["live_objects"]
    assert births["size"][kept].sum() == real.count["live_bytes"]
    wanted = sum(operation["bytes"] for operation in real.count["operations"].values())
    assert births["size"].sum() == wanted
    costs = real.recording.costs
    for operation, counted in real.count["operations"].items():
        here = costs["operation"] == call_sites._OPERATIONS.index(operation)
        for name in ("calls", "instructions", "bytes"):
            assert costs[name][here].sum() == counted[name]


@needs_valgrind
def test_objects_and_bytes_are_memcheck_s(real: Real, tools: Path) -> None:
    if real.name == "python":
        pytest.skip("its garbage depends on addresses, which memcheck's malloc changes")
    said = theirs(tools, "memcheck", "--run-libc-freeres=no", "--run-cxx-freeres=no", *real.words)
    match = re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes", said)
    assert match, said
    allocations, frees, size = (int(text.replace(",", "")) for text in match.groups())
    births, deaths = real.recording.births, real.recording.deaths
    # A realloc is a new object to both, of its whole size.
    assert len(births["size"]) == allocations
    assert np.count_nonzero(deaths["free_instructions"]) == frees
    # gawk and perl copy their environment, where memcheck preloads one object more.
    extra = len(f":{tools}/vgpreload_memcheck-amd64-linux.so")
    assert size - births["size"].sum() in (0, extra, 2 * extra)


CLOCKS = ("first_use", "last_use", "free_instructions")


def test_lives_are_the_same_without_call_sites(real: Real, tools: Path) -> None:
    bare = record_real(tools, real.words, "--sites=no", "--usable-size=glibc")
    assert not bare.births["site"].any()
    births, deaths = real.recording.births, real.recording.deaths
    if real.name in ("gawk", "jq"):
        assert (bare.births["size"] == births["size"]).all()
        return
    for column, found in bare.births.items():
        assert column == "site" or (found == births[column]).all(), column
    for column in ("free_instructions", "free_bytes"):
        assert (bare.deaths[column] == deaths[column]).all(), column
    # A use has the time of the start of its block, which may be the same block as the birth's.
    assert ((bare.deaths["first_use"] > 0) == (deaths["first_use"] > 0)).all()
    later = deaths["last_use"].astype(np.int64) - bare.deaths["last_use"].astype(np.int64)
    assert (later >= 0).all()
    assert later.sum() <= 50 * len(later)


def test_usable_sizes_are_what_the_manager_says(real: Real, tools: Path) -> None:
    asked = record_real(tools, real.words, "--usable-size=call")
    assert asked.births["usable_size"].all(), "malloc_usable_size was not called"
    births, deaths = real.recording.births, real.recording.deaths
    if real.name == "jq":
        assert (asked.births["usable_size"] == births["usable_size"]).all()
        return
    later = 0
    if real.name == "gawk" and len(births["size"]) > 0:
        # Before its first object it parses /proc/self/maps, in which the tool's mappings are, too.
        later = int(births["instructions"][0]) - int(asked.births["instructions"][0])
    for column, found in asked.births.items():
        if column != "site":
            shift = later if column == "instructions" else 0
            assert (found.astype(np.int64) + shift == births[column].astype(np.int64)).all(), column
    for column, found in asked.deaths.items():
        shifts = np.where(found > 0, later if column in CLOCKS else 0, 0)
        assert (found.astype(np.int64) + shifts == deaths[column].astype(np.int64)).all(), column
    rows = range(0, len(asked.births["size"]), 97)
    assert [asked.calls(row) for row in rows] == [real.recording.calls(row) for row in rows]


def test_threads_and_signals_go_on_while_the_manager_is_asked(tmp_path: Path) -> None:
    """The call of malloc_usable_size is not the program's, but what others do meanwhile is."""
    program = built(tmp_path, "asked.c", "-fno-builtin", "-lpthread")
    recording, _ = recorded(tmp_path, program, options=["--usable-size=call"])
    births = recording.births
    assert np.count_nonzero(births["size"] == 40) == 3 * 400
    assert np.count_nonzero(births["size"] == 17) > 20, "no handler allocated"
    assert (births["usable_size"] == births["size"])[births["size"] == 40].all()
    assert np.count_nonzero(np.diff(births["thread"].astype(np.int64))) > 300, "no thread waited"


FRAMES = 4
"""How many of the innermost frames are compared with DHAT's."""
Key = tuple[str, ...]
DHAT_S_OWN = re.compile(r"vgpreload_dhat|\(vg_replace_")
"""In frames of what it puts in the place of functions, without and with debug information."""


def dhat(both: Path, words: Sequence[str]) -> dict[Key, NDArray[np.int64]]:
    """DHAT's blocks, bytes and accesses in bytes, by the innermost functions."""
    out = both / "dhat.json"
    theirs(both, "dhat", f"--dhat-out-file={out}", "--show-below-main=yes",
           "--read-inline-info=no", *words)  # fmt: skip
    profile = json.loads(out.read_text())
    found: dict[Key, NDArray[np.int64]] = {}
    for point in profile["pps"]:
        frames = [profile["ftbl"][place] for place in point["fs"]]
        key = tuple(dhat_function(frame) for frame in frames if not DHAT_S_OWN.search(frame))
        values = [point["tbk"], point["tb"], point["rb"] + point["wb"]]
        found[key[:FRAMES]] = found.get(key[:FRAMES], np.zeros(3, np.int64)) + values
    return found


def dhat_function(frame: str) -> str:
    """Of `0x1234: function (file:line)`, or `(in object)`, or ??? for the function."""
    name = re.sub(r"^0x[0-9A-F]+: | \([^()]*\)$", "", frame)
    return name.replace("???", "").replace("__libc_start_call_main", "(below main)")


def by_innermost(recording: Recording) -> dict[Key, NDArray[np.int64]]:
    """Objects, bytes and objects used, by the innermost functions. An object grown out of another
    counts where that was born, as in DHAT."""
    births, used = recording.births, recording.deaths["first_use"] > 0
    sites = births["site"].copy()
    for row in np.flatnonzero(births["resized_from"]):
        sites[row] = sites[int(births["resized_from"][row]) - 1]
    found: dict[Key, NDArray[np.int64]] = {}
    for site in np.unique(sites):
        here = sites == site
        key = tuple(recording.calls(int(np.flatnonzero(births["site"] == site)[0]))[:FRAMES])
        values = [np.count_nonzero(here), births["size"][here].sum(), np.count_nonzero(used & here)]
        found[key] = found.get(key, np.zeros(3, np.int64)) + np.array(values, np.int64)
    return found


@needs_valgrind
def test_calls_and_unused_objects_are_dhat_s(real: Real, tools: Path) -> None:
    mine, its = by_innermost(real.recording), dhat(tools, real.words)
    if real.name == "xz" and loads_elsewhere():
        pytest.skip("DHAT of Valgrind 3.26 names no function of liblzma, ours does; not known why")
    objects, accessed = 0, 2
    if real.name == "python":  # its garbage depends on addresses, which DHAT's malloc changes
        same = sum(min(mine[key][objects], its[key][objects]) for key in mine.keys() & its.keys())
        assert same > 0.98 * len(real.recording.births["size"])
        return
    assert {key: values[objects] for key, values in mine.items()} == {
        key: values[objects] for key, values in its.items()
    }
    unused = {key for key, values in its.items() if values[accessed] == 0}
    assert {key for key, values in mine.items() if values[accessed] == 0} == unused


# ---- pointers and reachability ----


def graph_at_end(recording: Recording) -> dict[tuple[int, int], int]:
    """Which object each word of an object points into: (source, offset) to target, by rows from 1;
    static memory has 0 for its source and addresses for offsets."""
    births, stores = recording.births, recording.pointers
    graph: dict[tuple[int, int], int] = {}
    events: list[tuple[int, int, tuple[int, ...]]] = [
        (int(births["instructions"][row]), 0, (int(births["resized_from"][row]), int(row) + 1))
        for row in np.flatnonzero(births["resized_from"])
    ]
    rows = zip(*(stores[name].tolist() for name in TABLES["pointers"]), strict=True)
    events += [(when, 1, tuple(store)) for when, *store in rows]
    for _, kind, values in sorted(events, key=lambda event: event[:2]):
        if kind == 0:  # a realloc takes along what fits
            before, after = values
            taken = {at: to for (source, at), to in graph.items() if source == before}
            room = int(births["size"][after - 1])
            graph |= {(after, at): to for at, to in taken.items() if at + 8 <= room}
            continue
        source, offset, target = values
        graph.pop((source, offset), None)
        if target != 0:
            graph[source, offset] = target
    alive = {0, *(np.flatnonzero(recording.deaths["free_instructions"] == 0) + 1).tolist()}
    return {place: to for place, to in graph.items() if place[0] in alive and to in alive}


@either_way
def test_the_graph_from_the_stores_of_pointers(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "pointers.c")
    options = ["--pointers=yes", f"--sites={sites}"]
    recording, printed = recorded(tmp_path, program, options=options)
    size = recording.births["size"]
    graph = graph_at_end(recording)
    found = {(int(size[s - 1]), at, int(size[to - 1])) for (s, at), to in graph.items() if s != 0}
    true = {tuple(map(int, line.split())) for line in printed.splitlines()}
    edges = {edge for edge in true if edge[0] != 0}
    assert len(edges) > 1500
    assert found == edges
    roots = {(0, at, int(size[to - 1])) for (source, at), to in graph.items() if source == 0}
    assert {edge for edge in true if edge[0] == 0} <= roots


NODES, FIRST_LIST, LOST_MARKER = 40, 600, 50_000
"""As in lost.c."""
HELD, LOST, HELD_THEN_LOST, HALF_LOST = range(4)
LISTS = {
    "held by nothing": LOST,
    "held by a static variable, then overwritten": HELD_THEN_LOST,
    "held by a thread-local variable": HELD,
    "held in memory that the program maps": HELD,
    "held by a pointer to the last byte": HELD,
    "held by a pointer with a tag": HELD,
    "a circle, held by nothing": LOST,
    "held by the middle": HALF_LOST,
    "held by another object, that is then lost": HELD_THEN_LOST,
    "held by the stack of a thread, then overwritten": HELD_THEN_LOST,
    "held by a thread-local variable of another thread": HELD,
}


@pytest.mark.parametrize("manager", ["glibc", "jemalloc", "mimalloc", "snmalloc"])
def test_lost_objects_are_found_by_the_next_search(tmp_path: Path, manager: str) -> None:
    preload = ":".join(map(str, resolve(manager).preload))
    program = built(tmp_path, "lost.c")
    recording, _ = recorded(
        tmp_path, program, options=["--reachability=32768"], env={"LD_PRELOAD": preload}
    )
    born, found = recording.births["instructions"], recording.deaths["unreachable_instructions"]
    assert len(recording.marks["bytes"]) >= 14
    held_by_chance: list[str] = []
    for place, (what, expected) in enumerate(LISTS.items()):
        size = FIRST_LIST + 8 * place
        rows = recording.of_size(size)
        assert len(rows) == NODES, what
        # The marker is large enough for a search at its birth.
        when = [born[recording.only(LOST_MARKER + size)]]
        if expected == HELD_THEN_LOST:
            when.append(born[recording.only(LOST_MARKER + size + 1)])
        lost = [np.count_nonzero(found[rows] == each) for each in when]
        held = np.count_nonzero((found[rows] == 0) | (found[rows] > when[-1]))
        assert sum(lost) + held == NODES, what
        if expected == HELD:
            assert lost == [0], what
        elif lost != {HELD_THEN_LOST: [0, NODES], LOST: [NODES]}.get(expected, [NODES // 2]):
            assert lost[-1] < NODES, what
            held_by_chance.append(what)
    # The search is conservative. Heaps that are mapped lie beside other mappings. The end of such
    # a one, as the dynamic linker keeps of its own first memory, can be the address of an object.
    assert len(held_by_chance) <= (0 if manager == "glibc" else 1), held_by_chance


@pytest.fixture
def program(compile_c: Compile) -> Callable[..., Path]:
    """Compile the body of main, after what stands before it."""

    def build(body: str, before: str = "", name: str = "program") -> Path:
        source = f"{PRELUDE}{before}\nint main(void) {{ {body}\n return 0; }}\n"
        return compile_c(source, *OPTIONS, name=name)

    return build


NO_GUARDS = "the kernel has no guards (MADV_GUARD_INSTALL, Linux 6.13)"


def test_a_search_passes_over_guards_within_a_mapping(tmp_path: Path, program: Compile) -> None:
    """Stacks of glibc 2.42 have them. To read one would end the program."""
    path = program("""
      const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
      char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, kind, -1, 0);
      void **behind = (void **)(memory + 131072), **removed = (void **)memory;
      if (madvise(memory, 65536, 102) != 0) return puts("no guards") < 0;
      *behind = malloc(701);
      for (int i = 0; i < 100; ++i) free(malloc(1000));
      madvise(memory, 4096, 103);
      *removed = malloc(702);
      for (int i = 0; i < 100; ++i) free(malloc(1000));
      *behind = *removed = NULL;
      for (int i = 0; i < 100; ++i) free(malloc(1000));""")
    recording, printed = recorded(tmp_path, path, options=["--reachability=50000"])
    if printed:
        pytest.skip(NO_GUARDS)
    searches = recording.marks["instructions"]
    assert len(searches) >= 6
    found = recording.deaths["unreachable_instructions"]
    for size in (701, 702):
        assert found[recording.only(size)] in searches[-2:]


def test_what_each_of_several_stacks_in_one_mapping_holds(tmp_path: Path, program: Compile) -> None:
    """As those of glibc 2.42 lie. The program says so where its kernel has no guards."""
    path = program(
        """
      const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
      char *memory = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, kind, -1, 0);
      pthread_barrier_init(&barrier, NULL, 3);
      pthread_t threads[3];
      for (long i = 0; i < 3; ++i) {
        if (madvise(memory + i * STACK, 4096, 102) != 0) return puts("no guards") < 0;
        pthread_attr_t where;
        pthread_attr_init(&where);
        pthread_attr_setstack(&where, memory + i * STACK + 4096, STACK - 4096);
        if (i != 1) pthread_create(&threads[i], &where, work, (void *)i);
      }
      pthread_barrier_wait(&barrier);
      for (int i = 0; i < 100; ++i) free(malloc(1000));
      pthread_barrier_wait(&barrier);
      pthread_join(threads[0], NULL);
      pthread_join(threads[2], NULL);""",
        """enum { STACK = 1 << 20 };
        static pthread_barrier_t barrier;
        static void *work(void *number) {
          void *volatile held = malloc(700 + (long)number);
          pthread_barrier_wait(&barrier);
          pthread_barrier_wait(&barrier);
          free(held);
          return number; }""",
    )
    recording, printed = recorded(tmp_path, path, options=["--reachability=50000"])
    if printed:
        pytest.skip(NO_GUARDS)
    assert len(recording.marks["instructions"]) >= 2
    for size in (700, 702):
        row = recording.only(size)
        assert recording.deaths["unreachable_instructions"][row] == 0
        assert recording.deaths["free_instructions"][row] > 0


# ---- threads, processes, ends ----


def test_threads(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      pthread_t threads[4];
      for (long i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, (void *)i);
      for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);""",
        """static void *work(void *number) {
          volatile char *p[100];
          for (int round = 0; round < 100; ++round) {
            for (int i = 0; i < 100; ++i) p[i] = malloc(700 + (long)number);
            for (int i = 0; i < 100; i += 2) p[i][i] = 1;
            for (int i = 0; i < 100; ++i) free((void *)p[i]);
          }
          return number; }""",
    )
    recording, _ = recorded(tmp_path, path, options=["--pointers=yes", "--reachability=500000"])
    assert recording.process.numbers["threads"] == 5
    threads = set()
    for number in range(4):
        rows = recording.of_size(700 + number)
        assert len(rows) == 10_000
        (thread,) = set(recording.births["thread"][rows].tolist())
        threads.add(thread)
        assert (recording.deaths["free_instructions"][rows] > 0).all()
        assert np.count_nonzero(recording.deaths["first_use"][rows]) == 5000
    assert threads == {2, 3, 4, 5}


def test_a_guard_is_not_read_while_another_thread_makes_it(
    tmp_path: Path, program: Compile
) -> None:
    """glibc 2.42 makes guards of stacks so; other threads run during the call."""
    path = program(
        """
      pthread_t thread;
      pthread_create(&thread, NULL, guards, NULL);
      for (int i = 0; i < 4000; ++i) free(malloc(700));
      is_over = 1;
      void *refused;
      pthread_join(thread, &refused);
      return refused != NULL;""",
        """static volatile int is_over;
        static void *guards(void *unused) {
          while (!is_over) {
            const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
            char *p = mmap(NULL, 16 << 12, PROT_READ | PROT_WRITE, kind, -1, 0);
            if (madvise(p + (8 << 12), 4096, 102 /* MADV_GUARD_INSTALL */) != 0) return p;
            munmap(p, 16 << 12);
          }
          return unused; }""",
    )
    done, _ = tool(tmp_path, path, options=["--reachability=1000"])
    if (done.returncode, done.stderr) == (1, ""):
        pytest.skip(NO_GUARDS)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thousand_threads(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      for (int i = 0; i < 1000; ++i) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
      }""",
        """static void *work(void *unused) {
          volatile char *p = malloc(700);
          *p = 1;
          free((void *)p);
          return unused; }""",
    )
    recording, _ = recorded(tmp_path, path)
    rows = recording.of_size(700)
    assert recording.births["thread"][rows].tolist() == list(range(2, 1002))
    assert (recording.deaths["first_use"][rows] > 0).all()
    assert {recording.calls(row)[0] for row in rows} == {"work"}


FORKS = """
  volatile char *before = malloc(701), *kept = malloc(702);
  pid_t child = FORK();
  if (child == 0) {
    before[1] = 1;
    free((void *)before);
    free(keep(malloc(703)));
    _exit(0);
  }
  waitpid(child, NULL, 0);
  kept[1] = 1;
  free(keep(malloc(704)));"""


def test_the_child_of_a_fork_has_a_recording_of_its_own(tmp_path: Path, program: Compile) -> None:
    path = program(FORKS.replace("FORK", "fork"))
    _, (parent, child) = tool(tmp_path, path)
    check(parent)
    check(child)
    assert child.process.numbers["parent"] == parent.process.pid
    assert child.process.numbers["inherited_frees"] == 1
    assert child.births["size"].tolist() == [703]
    assert child.calls(0)[0] == "main"
    assert [size for size in parent.births["size"].tolist() if size >= 700] == [701, 702, 704]
    row = parent.only(701)
    assert parent.deaths["free_instructions"][row] == 0
    assert parent.deaths["first_use"][row] == 0
    assert parent.deaths["first_use"][parent.only(702)] > 0
    assert child.process.numbers["instructions"] < parent.process.numbers["instructions"]


def test_a_vfork_that_execs(tmp_path: Path, program: Compile) -> None:
    last = program("for (int i = 0; i < 20; ++i) keep(malloc(705));", name="last")
    path = program(f"""
      keep(malloc(706));
      pid_t child = vfork();
      if (child == 0) {{ execl("{last}", "last", NULL); _exit(1); }}
      int status;
      waitpid(child, &status, 0);
      keep(malloc(707));
      return status;""")
    done, recordings = tool(tmp_path, path)
    assert done.returncode == 0
    parent, child = recordings[0], recordings[-1]
    check(parent)
    check(child)
    assert [size for size in parent.births["size"].tolist() if size >= 700] == [706, 707]
    assert child.births["size"].tolist().count(705) == 20
    assert child.process.pid != parent.process.pid
    assert {each.process.pid for each in recordings} == {child.process.pid, parent.process.pid}


def test_before_and_after_an_exec(tmp_path: Path, program: Compile) -> None:
    last = program("free(keep(malloc(708)));", name="last")
    path = program(f"""
      volatile char *kept = malloc(709);
      void *freed = malloc(710);
      execl("/nonexistent", "x", NULL);
      kept[1] = 1;
      free(freed);
      keep(malloc(711));
      execl("{last}", "last", NULL);""")
    done, (first, second) = tool(tmp_path, path)
    assert done.returncode == 0
    assert (first.process.end, second.process.end) == ("exec", "exit")
    assert first.process.pid == second.process.pid
    check(first)
    check(second)
    assert first.deaths["first_use"][first.only(709)] > 0
    assert first.deaths["free_instructions"][first.only(710)] > 0
    assert first.of_size(711)
    assert second.of_size(708)


@pytest.mark.parametrize(
    ("end", "number"),
    [("abort();", signal.SIGABRT), ("*(volatile int *)0 = 1;", signal.SIGSEGV),
     ("raise(SIGTERM);", signal.SIGTERM), ("__builtin_trap();", signal.SIGILL)],
)  # fmt: skip
def test_a_crash_leaves_a_whole_recording(
    tmp_path: Path, program: Compile, end: str, number: int
) -> None:
    path = program(f"for (int i = 0; i < 60; ++i) *(volatile char *)malloc(712) = 1; {end}")
    done, (recording,) = tool(tmp_path, path)
    assert done.returncode == -number
    check(recording)
    rows = recording.of_size(712)
    assert len(rows) == 60
    assert (recording.deaths["first_use"][rows] > 0).all()


def test_a_killed_process_leaves_all_but_its_last_blocks(tmp_path: Path, program: Compile) -> None:
    born = 50_000
    path = program(f"""
      for (int i = 0; i < {born}; ++i) free(keep(malloc(713)));
      puts("ready");
      fflush(stdout);
      for (;;) pause();""")
    folder = tmp_path / "recording"
    folder.mkdir()
    words = [*command(folder), str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.kill()
    (recording,) = read(folder)
    assert recording.process.end == "running"
    assert recording.damage == {}, "whole blocks are written in one piece"
    assert born - BLOCK_ROWS < len(recording.births["size"]) <= born
    ended = np.count_nonzero(recording.deaths["free_instructions"])
    assert born - 2 * BLOCK_ROWS < ended <= born
    assert not recording.births["site"].any() or recording.calls(0)[0] == "main"


def test_signals_that_allocate_in_the_midst_of_everything(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      static char other[1 << 16];
      stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
      sigaltstack(&stack, NULL);
      struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
      sigaction(SIGPROF, &action, NULL);
      struct itimerval often = {{0, 5000}, {0, 5000}};
      setitimer(ITIMER_PROF, &often, NULL);
      while (handled < 20)
        for (int i = 0; i < 300; ++i) {
          volatile char *p = malloc(26);
          p[i % 26] = 1;
          free((void *)p);
        }
      setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
      printf("%d", handled);""",
        OWN_MALLOC
        + """static volatile int handled;
        static void handle(int number) { *(volatile char *)malloc(25) = number; ++handled; }""",
    )
    recording, printed = recorded(tmp_path, path)
    rows = recording.of_size(25)
    assert len(rows) == int(printed) >= 20
    for row in rows:
        assert recording.calls(row)[0] == "handle"
        # The function that is interrupted has called nothing, so only what called it is known.
        assert "(below main)" in recording.calls(row)
    assert {recording.calls(row)[0] for row in recording.of_size(26)} == {"main"}
    assert (recording.deaths["first_use"][recording.of_size(26)] > 0).all()


# ---- the tool's own manners ----


def test_a_full_disk_is_told_of_once(tmp_path: Path, program: Compile) -> None:
    path = program('for (int i = 0; i < 40000; ++i) free(keep(malloc(716))); puts("done");')
    folder = tmp_path / "recording"

    def fill() -> None:
        for name in ("births", "deaths"):
            (folder / f"{os.getpid()}.0.{name}").symlink_to("/dev/full")

    done, _ = tool(tmp_path, path, preexec_fn=fill)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("is the disk full?") == 1
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_may_not_grow_keeps_what_it_has(tmp_path: Path, program: Compile) -> None:
    path = program('for (int i = 0; i < 40000; ++i) free(keep(malloc(717))); puts("done");')

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))

    done, (recording,) = tool(tmp_path, path, preexec_fn=limit, restore_signals=False)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("is the disk full?") == 1
    assert 4096 <= len(recording.births["size"]) < 40_000
    assert "births" in recording.damage
    assert (recording.births["size"][1:] == 717).all()


def test_a_folder_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    words = command(tmp_path / "missing")
    done = subprocess.run([*words, "/bin/echo", "done"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "cannot write" in done.stderr


def test_memory_is_bounded_by_what_is_alive(tmp_path: Path, program: Compile) -> None:
    """Ten times the objects, one alive at a time, and no more memory in the tool, which is in the
    process of the program."""
    path = program(
        """
      for (long left = atol(getenv("OBJECTS")); left > 0; --left) free(keep(malloc(40)));
      char line[200];
      for (FILE *file = fopen("/proc/self/status", "r"); fgets(line, sizeof line, file);)
        if (strncmp(line, "VmHWM:", 6) == 0) fputs(line + 6, stdout);"""
    )
    peaks = []
    for objects in (300_000, 3_000_000):
        done, (recording,) = tool(tmp_path, path, env={"OBJECTS": str(objects)})
        assert len(recording.births["size"]) >= objects
        amount, unit = done.stdout.split()
        assert unit == "kB"
        peaks.append(int(amount))
    assert peaks[1] - peaks[0] < 1024


def test_a_program_may_close_everything_and_go_elsewhere(tmp_path: Path, program: Compile) -> None:
    path = program("""
      keep(malloc(718));
      for (int file = 0; file < 2000; ++file) close(file);
      if (chdir("/") != 0) return 1;
      for (int i = 0; i < 10000; ++i) free(keep(malloc(719)));
      if (open("/dev/null", 0) != 0 || dup(0) != 1) return 2;
      keep(strdup("a frame that was not seen before"));""")
    recording, _ = recorded(tmp_path, path)
    assert len(recording.of_size(718)) == 1
    assert len(recording.of_size(719)) == 10_000


def test_a_recording_repeats(tmp_path: Path, program: Compile) -> None:
    path = program("for (int i = 0; i < 3000; ++i) free(keep(malloc(i * 7 % 5000)));")
    first, second = (recorded(tmp_path, path)[0] for _ in range(2))
    for table in ("births", "deaths", "sites"):
        for column, values in getattr(first, table).items():
            assert (values == getattr(second, table)[column]).all(), column


# ---- teardown ----


def test_what_is_read_to_be_freed_is_told_from_work(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      struct node *lists[2] = {make(700), make(800)};
      long sum = work(100000);
      destroy(lists[0]);
      free(malloc(16));
      for (struct node *node = lists[1], *next; node != NULL; node = next) {
        next = node->next;
        sum += work(node->value + 1000);
        free(node);
      }
      return sum == 0;""",
        """struct node { struct node *next; long value; };
        static struct node *make(size_t size) {
          struct node *first = NULL;
          for (int i = 0; i < 100; ++i) {
            struct node *node = malloc(size);
            *node = (struct node){first, i};
            first = node;
          }
          return first; }
        static long work(long steps) {
          volatile long sum = 0;
          for (long i = 0; i < steps; ++i) sum += i;
          return sum; }
        static void destroy(struct node *node) {
          for (struct node *next; node != NULL; node = next) {
            next = node->next;
            free(node);
          } }""",
    )
    recording, _ = recorded(tmp_path, path)
    deaths = recording.deaths
    torn, worked = (recording.of_size(size) for size in (700, 800))
    assert len(torn) == len(worked) == 100
    # Before the first free, of the node made last, the dynamic linker looks free up.
    before = deaths["before_teardown"][torn][:-1]
    assert (before > 0).all()
    assert (before < deaths["last_use"][torn][:-1] - 100_000).all(), "before the work"
    assert (deaths["before_teardown"][worked] == 0).all(), "its work is a use"
    assert (deaths["free_thread"][torn] == 1).all()
    assert (deaths["free_site"][torn] > 0).all()
