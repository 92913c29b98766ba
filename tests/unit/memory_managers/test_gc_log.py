"""The log of a JVM's collections, and its union with what the agent saw."""

from __future__ import annotations

import json
import re
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.errors import TareError
from tare.memory_managers.runtimes import Process
from tare.memory_managers.runtimes.jvm.collectors import COLLECTORS
from tare.memory_managers.runtimes.jvm.gc_log import read_gc_log
from tare.memory_managers.runtimes.jvm.processes import read_processes
from tare.memory_managers.runtimes.jvm.stops import read_stops

DATA = Path(__file__).parent / "gc-logs"
STOPS: dict[str, dict[str, Any]] = json.loads((DATA / "stops.json").read_text())
HEADER = struct.Struct("<11Q")
MAGIC = 0x314D564A45524154
LOGS = sorted(path.stem for path in DATA.glob("*.log"))


def write_stops(path: Path, stops: list[list[int]], ended_ns: int = 0, **fields: int) -> None:
    """As the agent writes them."""
    counts = len(stops), fields.get("dropped", 0), fields.get("collector_cpu_ns", 0)
    header = HEADER.pack(MAGIC, 7, 0, ended_ns, *counts, 0, 0, 0, 0)
    body = b"".join(struct.pack("<3Q", *stop) for stop in stops)
    path.write_bytes(header.ljust(4096, b"\0") + body)


def process_of(name: str, folder: Path) -> Process:
    """The process whose log and stops are kept under that name."""
    (folder / "7.gc.log").write_bytes((DATA / f"{name}.log").read_bytes())
    write_stops(folder / "7.stops", **STOPS[name])
    (process,) = read_processes(folder)
    return process


def test_every_collector_of_every_version_is_there() -> None:
    assert {name.split("-")[0] for name in LOGS} == {"11", "17", "21", "25", "27"}
    assert {name.split("-")[1] for name in LOGS} == {
        "Serial",
        "Parallel",
        "G1",
        "Shenandoah",
        "Z",
        "Epsilon",
    }
    assert set(STOPS) == set(LOGS)


@pytest.mark.parametrize("name", LOGS)
def test_a_real_log_agrees_with_the_agent(name: str, tmp_path: Path) -> None:
    process = process_of(name, tmp_path)
    stops = STOPS[name]["stops"]
    assert COLLECTORS[process.collector].flag == f"Use{name.split('-')[1]}GC"
    collecting = [pause for pause in process.pauses if pause.collection != -1]
    # The agent knows nothing of the log, and saw a stop inside of each pause and nowhere else.
    assert len([pause for pause in process.pauses if pause.cpu_ns is not None]) == len(collecting)
    for start, finish, _ in stops:
        assert any(pause.start_ns <= start < finish <= pause.end_ns for pause in collecting)
    assert sum(pause.cpu_ns or 0 for pause in collecting) == sum(stop[2] for stop in stops)
    assert sum(each.pauses for each in process.collections) == len(collecting)
    assert sum(each.pause_ns for each in process.collections) == sum(
        pause.end_ns - pause.start_ns for pause in collecting
    )


@pytest.mark.parametrize("name", LOGS)
def test_pauses_do_not_overlap(name: str, tmp_path: Path) -> None:
    pauses = process_of(name, tmp_path).pauses
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(pauses))


@pytest.mark.parametrize("name", LOGS)
def test_collections_are_those_that_the_log_numbers(name: str, tmp_path: Path) -> None:
    text = (DATA / f"{name}.log").read_text()
    numbers = {int(number) for number in re.findall(r"GC\((\d+)\)", text)}
    process = process_of(name, tmp_path)
    assert {each.number for each in process.collections} == numbers
    full = [each for each in process.collections if each.kind == "full"]
    assert len(full) == len(re.findall(r"\] GC\(\d+\) Pause Full .*ms$", text, re.MULTILINE))
    young = [each for each in process.collections if each.kind in ("young", "mixed")]
    assert len(young) == len(set(re.findall(r"(GC\(\d+\)) (?:Pause Young|Minor Coll)", text)))


@pytest.mark.parametrize("name", [name for name in LOGS if not name.endswith(("Z", "Shenandoah"))])
def test_allocated_bytes_are_what_the_program_allocated(name: str, tmp_path: Path) -> None:
    """40 MiB in objects, and up to 4 that a JVM needs for itself; the log rounds each collection
    to whole MiB."""
    process = process_of(name, tmp_path)
    assert process.allocated_bytes is not None
    rounded = len(process.collections) << 19
    assert process.allocated_bytes + rounded >= 40 << 20
    assert process.allocated_bytes - rounded <= 44 << 20


@pytest.mark.parametrize("log", sorted((DATA / "mmtk").glob("*.log")), ids=lambda log: log.stem)
def test_collections_of_mmtk_are_those_that_it_counts(log: Path, tmp_path: Path) -> None:
    """It counts from the end of the first, which its statistics begin with."""
    (tmp_path / "7.gc.log").write_bytes(log.read_bytes())
    write_stops(tmp_path / "7.stops", [], ended_ns=1)
    (process,) = read_processes(tmp_path)
    assert process.collector == "mmtk"
    counted, milliseconds = log.with_suffix(".txt").read_text().splitlines()[1].split()
    _, *collections = process.collections
    assert len(collections) == int(counted)
    pauses = sum(each.pause_ns for each in collections) / 1e6
    assert pauses == pytest.approx(float(milliseconds), rel=0.05)


def test_a_cause_in_parentheses_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "[100ns][gc,start] GC(0) Pause Full (System.gc())\n"
        "[900ns][gc      ] GC(0) Pause Full (System.gc()) 3M->1M(61M) 0.001ms\n"
    )
    (collection,) = read_gc_log(log).collections
    assert (collection.kind, collection.cause) == ("full", "System.gc()")
    assert (collection.used_before, collection.used_after) == (3 << 20, 1 << 20)


def test_a_young_collection_that_became_a_full_one_is_one_pause(tmp_path: Path) -> None:
    (tmp_path / "7.gc.log").write_text(
        "[5ns][gc] Using Serial\n"
        "[100ns][gc,start] GC(0) Pause Young (Allocation Failure)\n"
        "[200ns][gc,start] GC(1) Pause Full (Allocation Failure)\n"
        "[700ns][gc      ] GC(1) Pause Full (Allocation Failure) 60M->20M(61M) 0.001ms\n"
        "[800ns][gc      ] GC(0) Pause Young (Allocation Failure) 60M->20M(61M) 0.001ms\n"
        '[950ns][safepoint] Safepoint "GenCollectForAllocation", Time since last: 1 ns, '
        "Reaching safepoint: 20 ns, Cleanup: 0 ns, At safepoint: 880 ns, Total: 900 ns\n"
    )
    write_stops(tmp_path / "7.stops", [[90, 930, 500]], ended_ns=2000)
    (process,) = read_processes(tmp_path)
    (pause,) = process.pauses
    assert (pause.start_ns, pause.end_ns, pause.cpu_ns, pause.collection) == (50, 950, 500, 1)
    assert [(each.kind, each.pause_ns) for each in process.collections] == [
        ("young", 0),
        ("full", 900),
    ]


def test_a_stop_that_the_log_does_not_have_counts(tmp_path: Path) -> None:
    """The JVM was killed before it wrote the end of its pause."""
    (tmp_path / "7.gc.log").write_text(
        "[5ns][gc] Using Serial\n[100ns][gc,start] GC(0) Pause Young (Allocation Failure)\n[2"
    )
    write_stops(tmp_path / "7.stops", [[90, 930, 500]])
    (process,) = read_processes(tmp_path)
    (pause,) = process.pauses
    assert (pause.start_ns, pause.end_ns, pause.cpu_ns) == (90, 930, 500)
    assert not process.ended
    assert process.allocated_bytes is None


@given(st.lists(st.binary(max_size=200), max_size=20), st.sampled_from(LOGS), st.integers(0))
def test_a_strange_log_gives_less_and_no_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], name: str, cut: int
) -> None:
    path = tmp_path_factory.mktemp("strange") / "log"
    real = (DATA / f"{name}.log").read_bytes()
    path.write_bytes(real[: cut % len(real)] + b"\n".join(lines))
    log = read_gc_log(path)
    assert len(log.safepoints) <= real.count(b"\n") + len(lines) + 1


def test_an_endless_line_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"[1ns][gc] Using " + b"x" * (1 << 20) + b"\n[5ns][gc] Using G1\n")
    assert read_gc_log(path).uses == "G1"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        b"x" * 5000,
        HEADER.pack(MAGIC, 1, 0, 0, 1 << 40, 0, 0, 0, 0, 0, 0).ljust(4096, b"\0"),
        HEADER.pack(MAGIC, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0).ljust(4096, b"\0") + b"\0" * 24,
        HEADER.pack(MAGIC, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0).ljust(4096, b"\0")
        + struct.pack("<3Q", 9, 3, 0),
    ],
)
def test_a_file_that_no_agent_left_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "1.stops"
    path.write_bytes(content)
    with pytest.raises(TareError, match=r"1\.stops"):
        read_stops(path)


def test_a_jvm_killed_before_its_agent_began_left_nothing(tmp_path: Path) -> None:
    path = tmp_path / "1.stops"
    path.write_bytes(b"\0" * 4096)
    assert read_stops(path) is None
