"""Recordings of real programs against what Valgrind's own tools see of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tare.observers import call_sites, instrument
from tests.native.instrument.programs import REAL, real_command
from tests.native.instrument.recordings.recorded import (
    Recording,
    built,
    check,
    command,
    read,
    recorded,
)
from tests.support.valgrind import (
    both_tools,
    loads_elsewhere,
    needs_valgrind,
    theirs,
    valgrind_environment,
)

__all__ = ["both_tools"]


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
    words = real_command({**REAL, **MORE}[request.param], tools)
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
