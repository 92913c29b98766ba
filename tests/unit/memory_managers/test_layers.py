"""Layers over a manager: how the counters of the mark-sweep layer are read."""

from __future__ import annotations

import struct
from dataclasses import fields
from pathlib import Path

import pytest

from tare.base.errors import TareError, UsageError
from tare.memory_managers.layers import layers, marksweep, split_name

MAGIC = 0x324B52414D455254


def counters(
    path: Path, pid: int, pauses: list[tuple[int, int, int]], **counts: int
) -> marksweep.Process:
    """A file as the layer writes it, read back: ``pauses`` are begin, end and kind."""
    given = {"collections": len(pauses), "records": len(pauses)} | counts
    given |= {"slots": 2}
    numbers = [given.get(field.name, 0) for field in fields(marksweep.Counts)]
    of_header, of_threads = numbers[:-8], numbers[-8:]
    header = struct.pack(f"<4Q{len(of_header)}Q", MAGIC, pid, 1, 0, *of_header).ljust(512, b"\0")
    slots = struct.pack("<8Q", *of_threads) + struct.pack("<8Q", 10, *[0] * 7)
    names = b"/m.so\0".ljust(1792, b"\0") + b"/f.so\0".ljust(1792, b"\0")
    rows = b"".join(
        struct.pack("<16Q", begin, end, *[0] * 5, kind, end, *[0] * 7)
        for begin, end, kind in pauses
    )
    path.write_bytes(header + names + slots.ljust(192 * 64, b"\0") + rows)
    process = marksweep.read_process(path)
    assert process is not None
    return process


def test_a_file_is_read_back(tmp_path: Path) -> None:
    process = counters(
        tmp_path / "1", 77, [(10, 30, 1), (50, 60, 0)], swept_bytes=5, allocated_objects=7
    )
    assert process.pid == 77
    assert process.counts.allocated_objects == 17
    assert process.servers == ("/m.so", "/f.so")
    assert process.counts.swept_bytes == 5
    assert process.collections[["begin", "end"]].tolist() == [(10, 30), (50, 60)]
    assert process.collections["released"].tolist() == [30, 60]


def test_the_first_pauses_of_collections_beside_the_program(tmp_path: Path) -> None:
    records = [(10, 14, 64), (30, 32, 1 | 128)]
    process = counters(tmp_path / "1", 1, records, collections=1, pause_nanoseconds=6)
    assert process.collections["begin"].tolist() == [30]
    assert process.first_pauses["begin"].tolist() == [10]
    assert marksweep.stopped_seconds([process]) == pytest.approx(6e-9)
    assert marksweep.pause_histogram([process]) == [[2, 4, 1], [4, 8, 1]]


def test_pauses_that_were_put_in_are_no_collections(tmp_path: Path) -> None:
    kinds = [1, *marksweep.PAUSES.values()]
    records = [(10 * n, 10 * n + 5, kind) for n, kind in enumerate(kinds)]
    process = counters(tmp_path / "1", 1, records, collections=1, pause_nanoseconds=5)
    assert process.collections["begin"].tolist() == [0]
    assert process.pauses["begin"].tolist() == [10, 20, 30]
    assert marksweep.stopped_seconds([process]) == pytest.approx(5e-9)
    assert marksweep.pause_histogram([process]) == [[4, 8, 1]]


@pytest.mark.parametrize(
    ("others", "nanoseconds"),
    [
        ([], 30),
        ([(15, 20, 0)], 30),  # within the first
        ([(5, 15, 0)], 35),
        ([(25, 55, 0)], 50),
        ([(100, 101, 0)], 31),
    ],
)
def test_pauses_that_overlap_stop_the_program_once(
    tmp_path: Path, others: list[tuple[int, int, int]], nanoseconds: int
) -> None:
    first = counters(tmp_path / "1", 1, [(10, 30, 0), (50, 60, 0)], pause_nanoseconds=30)
    second = counters(
        tmp_path / "2", 2, others, pause_nanoseconds=sum(end - begin for begin, end, _ in others)
    )
    assert marksweep.stopped_seconds([first, second]) == pytest.approx(nanoseconds / 1e9)


def test_pauses_without_a_record_count_too(tmp_path: Path) -> None:
    process = counters(tmp_path / "1", 1, [(10, 30, 0)], pause_nanoseconds=1020, records_lost=4)
    assert marksweep.stopped_seconds([process]) == pytest.approx(1020e-9)


def test_pauses_by_length(tmp_path: Path) -> None:
    pauses = [(0, length, 0) for length in (1, 2, 3, 4, 1023, 1024)]
    process = counters(tmp_path / "1", 1, pauses)
    assert marksweep.pause_histogram([process]) == [
        [1, 2, 1], [2, 4, 2], [4, 8, 1], [512, 1024, 1], [1024, 2048, 1],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "kind", "said"), [(86, 2, True), (86, 1, False), (1, 2, False), (None, 2, False)]
)
def test_a_full_heap_is_known_by_code_and_record(
    tmp_path: Path, code: int | None, kind: int, said: bool
) -> None:
    process = counters(tmp_path / "1", 1, [(0, 1, kind)])
    assert bool(marksweep.ran_out([process], code)) == said


def test_the_longest_pause_is_that_of_one_process(tmp_path: Path) -> None:
    processes = [
        counters(tmp_path / str(pid), pid, [], longest_nanoseconds=1000 * pid, marked_bytes=pid)
        for pid in (1, 2)
    ]
    found = marksweep.values(processes)
    assert found["max_pause_seconds"] == pytest.approx(2e-6)
    assert found["marked_bytes"] == 3


def test_no_metric_without_all_processes(tmp_path: Path) -> None:
    assert marksweep.values([counters(tmp_path / "1", 1, [], uncounted=1)]) == {}


@pytest.mark.parametrize("content", [b"x", b"x" * 4096, struct.pack("<Q", MAGIC)])
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1").write_bytes(content)
    with pytest.raises(TareError, match="not a file of counters"):
        marksweep.read_process(tmp_path / "1")


def test_a_record_cut_off_is_left_out(tmp_path: Path) -> None:
    counters(tmp_path / "1", 1, [(0, 1, 0), (2, 3, 0)])
    path = tmp_path / "1"
    path.write_bytes(path.read_bytes()[:-8])
    process = marksweep.read_process(path)
    assert process is not None
    assert len(process.collections) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("every=0B", "at least 1B"),
        ("every=often", "must be a size"),
        ("reclaim=-1", "must not be negative"),
        ("markers=0", "1 to 16"),
        ("markers=17", "1 to 16"),
        ("mark=concurrent, free=honour", "needs free=ignore"),
        ("free=never", "must be one of ignore, honour, quarantine"),
        ("heap=big", "must be a size"),
    ],
)
def test_values_that_cannot_be_are_refused(option: str, message: str) -> None:
    name = split_name(f"marksweep(glibc, {option})")
    assert name is not None
    with pytest.raises(UsageError, match=message):
        layers()[name.layer].environment(name.options)


def test_words_stand_for_sizes() -> None:
    variables = marksweep.environment({"every": "never"})
    assert int(variables["TARE_MARKSWEEP_EVERY"]) == (1 << 64) - 1
    assert marksweep.environment({})["TARE_MARKSWEEP_EVERY"] == "0"
    assert marksweep.environment({"every": "64KiB"})["TARE_MARKSWEEP_EVERY"] == "65536"
