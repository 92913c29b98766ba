"""The traces of real programs that come with Tare: whole, small, the same under all managers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tare.base.native import native_file
from tare.heap_traces.schedule import DEATHS, How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.memory_managers import mmtk
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.studies.minheap.question import minheap
from tare.studies.minheap.replayed_report import HIGH
from tare.studykit.least_heap.replayed import PARTS
from tests.support import ROOT

FOLDER = ROOT / "traces"
TRACES = sorted(FOLDER.glob("*.tare"))
MOST_BYTES = 5_000_000
PLANS = ("semispace", "genimmix", "markcompact")


def test_there_are_some_and_they_are_small() -> None:
    assert len(TRACES) >= 8
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) < MOST_BYTES


@pytest.mark.parametrize("folder", TRACES, ids=lambda folder: folder.stem)
def test_a_shipped_trace_is_whole_and_says_nothing_of_where_it_was_made(folder: Path) -> None:
    trace = open_trace(folder)
    assert trace.meta["complete"]
    assert not trace.meta["violations"]
    assert {"free", "last_use", "pointers"} <= set(trace.meta["observed"])
    assert trace.meta["machine"] == {}
    assert "/tmp" not in json.dumps(trace.meta)


@pytest.mark.parametrize("folder", TRACES, ids=lambda folder: folder.stem)
def test_every_kind_of_manager_ends_with_the_same_objects(folder: Path, tmp_path: Path) -> None:
    trace = open_trace(folder)
    schedule = tmp_path / "schedule"
    counted = compile_trace(trace, How(), schedule)
    # In a trace what a realloc gives is another object.
    assert counted["objects"] + counted["resizes"] == trace.meta["objects"]
    assert counted["stores"] > 0
    replay = str(native_file("bin/tare-replay"))
    commands = [
        [replay, "run"],
        [replay, "run", "--heap", "marksweep", "--every", "65536", "--reclaim", "1"],
        *(list(mmtk.command(plan, {"period": "256KiB"})) for plan in PLANS),
    ]
    said = {
        subprocess.run([*words, str(schedule)], capture_output=True, text=True, check=True).stdout
        for words in commands
    }
    assert len(said) == 1, said


@pytest.mark.parametrize("folder", TRACES, ids=lambda folder: folder.stem)
def test_earlier_deaths_need_less(folder: Path, tmp_path: Path) -> None:
    trace = open_trace(folder)
    peaks = {
        death: compile_trace(trace, How(death=death), tmp_path / death)["peak_bytes"]
        for death in DEATHS
        if death != "unreachable"
    }
    assert 0 < peaks["last-use"] <= peaks["free"]


def test_least_heaps_of_a_real_program(tmp_path: Path) -> None:
    names = ["semispace", "markcompact", "marksweep(glibc, every=64KiB)"]
    results = minheap(FOLDER / "gawk.tare", names, repeats=1, folder=tmp_path / "out")
    found = {r.run.manager: r.outcome for r in read_records(results.folder)}
    live = results.document["schedule"]["peak_bytes"]
    for name in names:
        values = found[name].values
        assert found[name].status is Status.OK
        assert values[HIGH] >= live
        assert sum(values[part] for part in PARTS if part in values) == values[HIGH]
    # Half of the heap is kept free for all but a few large objects.
    assert found["semispace"].values["heap_copy_reserve_bytes"] > 0.3 * live
    assert found["semispace"].values[HIGH] > found["markcompact"].values[HIGH]
    assert results.document["oracles"]["last-use"] < results.document["oracles"]["free"] == live


def test_the_scripts_say_what_they_do() -> None:
    for script in ("make.py", "study.py"):
        command = [sys.executable, "-m", "py_compile", str(FOLDER / script)]
        assert subprocess.run(command, check=False).returncode == 0
