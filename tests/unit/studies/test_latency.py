"""Histograms of how long calls took, read from files that a program may have written over."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tare.campaign import rounds
from tare.records.metrics import METRICS, Status
from tare.records.runs import Outcome, Record, Run
from tare.studies.latency import report, weigh
from tare.studies.latency.histograms import (
    BUCKETS,
    OPERATIONS,
    SIZES,
    UnreadableError,
    middle,
    read_folder,
    read_process,
)
from tare.studies.latency.long_calls import read_sites
from tare.studies.latency.observe import PERCENTILES, WITH_METRICS
from tare.studykit.budget import Effort, Setting
from tests.support.mutations import mutated

ROWS = 4 * SIZES + 1
SHARD_BYTES = 675_840
EMPTY = 20
TICKS, NANOSECONDS = 3_000_000, 1_000_000  # three ticks in a nanosecond
NAMES = ("/lib/inner.so", "/lib/inner.so")
Counts = Sequence[tuple[int, int, int]]
"""Row, bucket, calls."""


def header(
    magic: bytes = b"TARELAT1", end: int = TICKS, empty: int = EMPTY, incomplete: int = 0
) -> bytes:
    numbers = (7, 1, 0, 0, ROWS, BUCKETS, incomplete, 0)
    times = (SHARD_BYTES, empty, 60_000, 0, 0, end, NANOSECONDS)
    names = b"".join(name.encode().ljust(4096, b"\0") for name in NAMES)
    return (struct.pack("<8s8I7Q", magic, *numbers, *times) + names).ljust(3 * 4096, b"\0")


def shard(calls: Counts, longest: int = 0, long_calls: int = 0) -> bytes:
    words = np.zeros(SHARD_BYTES // 8, "<u8")
    words[:5] = longest
    words[5 + 4] = long_calls  # of malloc, waited
    for row, bucket, number in calls:
        words[64 + row * BUCKETS + bucket] = number
    return words.tobytes()


def written(folder: Path, *shards: bytes, start: bytes | None = None) -> Path:
    path = folder / "7.0.latency"
    path.write_bytes((header() if start is None else start) + b"".join(shards))
    return path


def bucket_of(ticks: int) -> int:
    return min(range(BUCKETS), key=lambda bucket: abs(middle(bucket) - ticks))


def test_calls_of_all_threads_and_processes_are_summed(tmp_path: Path) -> None:
    first, second = shard([(0, 30, 5), (72, 40, 2)], 90), shard([(0, 30, 1), (17, 8, 1)], 300, 3)
    path = written(tmp_path, first, second)
    process = read_process(path)
    assert process is not None
    assert (process.pid, process.servers, process.is_complete) == (7, NAMES, True)
    (tmp_path / "8.0.latency").write_bytes(path.read_bytes())
    found = read_folder(tmp_path)
    assert int(found.calls("malloc").sum()) == 14
    assert int(found.calls("malloc", 17).sum()) == 2
    assert int(found.calls("free").sum()) == 4
    assert int(found.long_calls.sum()) == 6
    assert found.longest("malloc") == pytest.approx((300 - EMPTY) / 3e9)
    assert found.clock_seconds == pytest.approx(EMPTY / 3e9)


@pytest.mark.parametrize("seed", range(3))
def test_percentiles_are_within_a_64th(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ticks = sorted(int(chance.lognormvariate(6, 2)) + EMPTY + 100 for _ in range(2000))
    counts: dict[int, int] = {}
    for each in ticks:
        bucket = bucket_of(each)
        counts[bucket] = counts.get(bucket, 0) + 1
    written(tmp_path, shard([(3, bucket, n) for bucket, n in counts.items()], ticks[-1]))
    found = read_folder(tmp_path)
    for parts in (5000, 9000, 9900, 9990):
        exact = ticks[-(-len(ticks) * parts // 10_000) - 1]
        seconds = found.percentile("malloc", parts)
        assert seconds is not None
        assert abs(seconds * 3e9 + EMPTY - exact) <= exact / 64 + 1
    assert found.percentile("malloc", 9999) is None, "none of 2,000 calls is beyond it"
    assert found.percentile("calloc", 5000) is None


def test_what_is_as_quick_as_the_clock_is_a_tick(tmp_path: Path) -> None:
    written(tmp_path, shard([(0, 5, 100)], 5))
    assert read_folder(tmp_path).percentile("malloc", 5000) == pytest.approx(1 / 3e9)


def test_buckets_follow_one_another() -> None:
    middles = list(map(middle, range(BUCKETS)))
    assert middles == sorted(set(middles))
    assert middles[:64] == list(range(64))
    assert middles[-1] < 1 << 40


@pytest.mark.parametrize(
    "data",
    [
        b"TARELAT1",
        header(),
        header(magic=b"TARELAT9") + shard([]),
        header() + shard([])[:-1],
        header() + shard([(0, 0, 1 << 63)]),
        header() + shard([], long_calls=1 << 50),
        header() + shard([]) * 17,
        header(end=0) + shard([]),
        header(empty=1 << 50) + shard([]),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, data: bytes) -> None:
    written(tmp_path, start=data)
    with pytest.raises(UnreadableError):
        read_folder(tmp_path)


def test_a_process_that_wrote_nothing_is_none(tmp_path: Path) -> None:
    for data in (b"", bytes(8), bytes(3 * 4096 + SHARD_BYTES)):
        assert read_process(written(tmp_path, start=data)) is None


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(5)
    whole = header() + shard([(0, 30, 50), (72, 40, 9)], 1000)
    read = 0
    for _ in range(150):
        written(tmp_path, start=mutated(whole[:9000], chance) + whole[9000:])
        try:
            found = read_folder(tmp_path)
        except UnreadableError:
            continue
        read += 1
        for operation in OPERATIONS:
            for parts in PERCENTILES.values():
                seconds = found.percentile(operation, parts)
                assert seconds is None or seconds > 0
    assert 0 < read < 150


CALLS = """\
M 1000 2000 1000 /no/such/object
C 0 4 100 900 1101 1201
C 0 2 700 5000 1101 1201
C 4 0 0 400 1301 99
C 4 0 0 40"""
"""The last has been cut off."""


def test_long_calls_are_summed_by_operation_and_stack(tmp_path: Path) -> None:
    (tmp_path / "7.0.latency.calls").write_text(CALLS)
    malloc, free = read_sites(tmp_path, lambda ticks: ticks / 1000)
    assert [frame["offset"] for frame in malloc.frames] == [100, 200]
    assert {frame["object"] for frame in malloc.frames} == {"/no/such/object"}
    assert (malloc.operation, malloc.calls, malloc.bytes) == ("malloc", 2, 700)
    assert (malloc.seconds, malloc.max_seconds) == (5.9, 5.0)
    assert (malloc.faulted, malloc.waited, malloc.preempted) == (0, 1, 1)
    assert (free.operation, free.calls, free.faulted) == ("free", 1, 0)
    assert [frame["object"] for frame in free.frames] == ["/no/such/object", ""]


def test_damaged_lines_of_long_calls_are_left_out(tmp_path: Path) -> None:
    chance = random.Random(7)
    seen = set()
    for _ in range(100):
        (tmp_path / "7.0.latency.calls").write_bytes(mutated(CALLS.encode(), chance))
        seen.add(sum(site.calls for site in read_sites(tmp_path, float)))
    assert 3 in seen
    assert min(seen) < 3


def test_a_bill_leaves_out_an_allocator_of_the_programs_own() -> None:
    setting = Setting("p", ("own",), "own", Effort.THOROUGH, 1.0, 60.0, 1)
    assert weigh.next_runs(setting, []) == []
    assert weigh.expected_seconds(setting) == 0


def test_each_value_is_a_metric() -> None:
    for operation in WITH_METRICS:
        for name in (*PERCENTILES, "max"):
            assert METRICS[f"{operation}_{name}_seconds"].unit == "s"


def done(run: Run, status: Status = Status.OK) -> Record:
    return Record(run, Outcome(status, values={}), "")


def test_runs_come_behind_the_timed_ones() -> None:
    plan = rounds.Plan(("p",), ("a", "b", "c"), "a", runs=10, warmup=1)
    records = [
        done(Run("compare", "p", name, 0, order), Status.FAILED if name == "c" else Status.OK)
        for order, name in enumerate(plan.managers, 1)
    ]
    order = 3
    while runs := report.next_round(plan, records):
        for run in runs:
            order += 1
            assert run.order == order
            records.append(done(run))
    mine = [record.run for record in records[3:]]
    watched = [(run.manager, run.observer) for run in mine]
    assert {run.study for run in mine} == {"latency"}
    assert watched.count(("a", "latency")) == 12, "the baseline twice a round, 6 rounds at most"
    assert watched.count(("b", "latency")) == 6
    assert sorted(watched[18:]) == [("a", "latency-causes"), ("b", "latency-causes")]
    whole = rounds.Plan(("p",), ("a", "b"), "a", runs=10)
    assert report.planned_runs(whole) == len(mine)


def test_without_a_good_run_there_is_nothing_to_time() -> None:
    plan = rounds.Plan(("p",), ("a",), "a")
    failed = [done(Run("compare", "p", "a", 0, 1), Status.FAILED)]
    assert report.next_round(plan, failed) == []
