"""Replays under mark-sweep over malloc, against what a collector with sets counts."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import resolve
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.studies.replay.question import replay
from tests.native.replay.schedules import ALLOCATORS, Compiled, replayer, shown
from tests.native.replay.test_mmtk import Store, tangled, write_trace
from tests.support.traces import Row, objects_frame


def swept(schedule: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """What a replay under mark-sweep says, and its report."""
    report = schedule.parent / "swept.json"
    done = replayer("run", "--heap", "marksweep", *options, "--report", report, schedule)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(report.read_text())


def restless(count: int, seed: int) -> tuple[pl.DataFrame, list[Store]]:
    """Objects that are born, freed and resized at random, with stores between those that live."""
    draw = random.Random(seed)
    rows: list[dict[str, int]] = []
    stores: list[Store] = []
    from_which: list[int | None] = []
    living: list[int] = []
    time = 0
    while len(rows) < count:
        time += 10
        if living and draw.random() < 0.5:
            source, target = draw.choice(living), draw.choice([None, *living])
            stores.append((time, source, draw.randrange(0, 96, 8), target))
            continue
        old = living.pop(draw.randrange(len(living))) if len(living) > 30 else None
        if old is not None:
            rows[old - 1]["free"] = time
        from_which.append(old if draw.random() < 0.3 else None)
        rows.append({"birth": time + 1, "size": draw.choice((0, 5, 8, 40, 64, 100, 500, 5000))})
        living.append(len(rows))
    resized_from = pl.Series(from_which, dtype=pl.UInt64)
    return objects_frame(rows).with_columns(resized_from=resized_from), stores


class NaiveMarkSweep:
    """What a mark-sweep collector must count, found with sets."""

    def __init__(self, every: int, reclaim: int) -> None:
        self.every, self.reclaim = every, reclaim
        self.roots: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.fields: dict[int, dict[int, int]] = {}
        self.since = self.born = self.collections = self.marked = self.swept = 0

    def allocate(self, slot: int, size: int) -> None:
        self.since += size
        if self.since > self.every:
            self.collect()
            self.since = size
        self.born += 1
        self.sizes[self.born], self.fields[self.born] = size, {}
        self.roots[slot] = self.born

    def collect(self) -> None:
        self.collections += 1
        reached: set[int] = set()
        found = set(self.roots.values())
        while found:
            reached |= found
            found = {to for one in found for to in self.fields[one].values()} - reached
        self.marked += sum(self.sizes[one] for one in reached)
        if self.reclaim and self.collections % self.reclaim == 0:
            for one in self.sizes.keys() - reached:
                self.swept += self.sizes.pop(one)
                del self.fields[one]

    def follow(self, event: str) -> None:
        kind, *words = event.split()
        slot = int(words[0])
        if kind == "Allocate":
            self.allocate(slot, int(words[1]))
        elif kind == "Free":
            del self.roots[slot]
        elif kind == "Store":
            fields = self.fields[self.roots[slot]]
            fields.pop(int(words[1]), None)
            if words[2] != "None":
                fields[int(words[1])] = self.roots[int(words[2].strip("Some()"))]
        elif kind == "Resize":
            old = self.roots[slot]
            if int(words[1]) > self.sizes[old]:
                self.allocate(slot, int(words[1]))
                self.fields[self.roots[slot]] = dict(self.fields[old])
            else:
                inside = int(words[1]) // 8 * 8
                kept = {at: to for at, to in self.fields[old].items() if at < inside}
                self.fields[old] = kept


@pytest.mark.parametrize("seed", range(3))
def test_allocators_that_move_what_is_resized_agree(tmp_path: Path, seed: int) -> None:
    schedule = tmp_path / "s.schedule"
    trace = write_trace(tmp_path / "t.tare", *restless(3_000, seed))
    compile_trace(open_trace(trace), How(), schedule)
    told = {swept(schedule)[0]}
    for name in ALLOCATORS:
        preload = " ".join(map(str, resolve(name).preload))
        command = [str(native_file("bin/tare-replay")), "run", str(schedule)]
        environment = {"LD_PRELOAD": preload}
        done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        told.add(done.stdout)
    assert len(told) == 1


@pytest.mark.parametrize("reclaim", [0, 1, 3])
@pytest.mark.parametrize("every", [2_000, 50_000])
def test_marksweep_reclaims_what_a_naive_one_does(tmp_path: Path, every: int, reclaim: int) -> None:
    schedule = tmp_path / "s.schedule"
    trace = write_trace(tmp_path / "t.tare", *restless(3_000, seed=every + reclaim))
    counted = compile_trace(open_trace(trace), How(), schedule)
    assert counted["stores"] > 500
    assert counted["resizes"] > 50
    naive = NaiveMarkSweep(every, reclaim)
    for event in shown(schedule):
        naive.follow(event)
    told, report = swept(schedule, "--every", str(every), "--reclaim", str(reclaim))
    assert told == replayer("run", schedule).stdout
    assert report["collections"] == naive.collections > 10
    assert (report["marked_bytes"], report["swept_bytes"]) == (naive.marked, naive.swept)
    assert (naive.swept > 0) == (reclaim > 0)
    assert 0 < report["max_pause_seconds"] <= report["collector_seconds"] <= report["seconds"]


@pytest.mark.parametrize(("every", "reclaim"), [(64 << 10, 1), (1 << 20, 1), (256 << 10, 4)])
def test_marksweep_holds_what_lives_and_a_period_of_garbage(
    compiled: Compiled, every: int, reclaim: int
) -> None:
    live, size, count = 1 << 20, 1 << 12, 5_000
    rows = [{"birth": 1, "size": live}]
    rows += [{"birth": 10 * n, "size": size, "free": 10 * n + 5} for n in range(1, count)]
    schedule, _ = compiled(rows)
    _, report = swept(schedule, "--every", str(every), "--reclaim", str(reclaim))
    held = live + reclaim * every
    # Each object has a header of glibc's, and its first and last page are also its neighbours'.
    assert held - reclaim * size <= report["peak_active_bytes"] <= 1.01 * held + (4 << 12)
    assert report["reserved_bytes"] == pytest.approx(held, rel=0.1, abs=1 << 18)


def test_marksweep_with_no_period_follows_what_lives(compiled: Compiled) -> None:
    size, count = 1 << 20, 200
    rows = [{"birth": 10 * n, "size": size} for n in range(1, count)]
    schedule, _ = compiled(rows)
    _, report = swept(schedule)
    # After 4, 8, 16, 32, 64 and 128 MiB: each time as much again as is alive.
    assert report["collections"] == 6
    assert report["marked_bytes"] == (4 + 8 + 16 + 32 + 64 + 128) * size


def test_a_pointer_holds_what_has_died(tmp_path: Path) -> None:
    count, size = 1_000, 64
    # A list: each object points to the one before and then that dies; the last lives.
    rows: list[Row] = [
        {"birth": 10 * n, "size": size, "free": 10 * n + 15 if n < count else None}
        for n in range(1, count + 1)
    ]
    stores = [(10 * n + 1, n, 8, n - 1) for n in range(2, count + 1)]
    schedule = tmp_path / "s.schedule"
    trace = write_trace(tmp_path / "t.tare", objects_frame(rows), stores)
    swept_bytes = {}
    for pointers in (True, False):
        compile_trace(open_trace(trace), How(pointers=pointers), schedule)
        _, report = swept(schedule, "--every", "640")
        swept_bytes[pointers] = report["swept_bytes"]
    assert swept_bytes[True] == 0
    assert swept_bytes[False] > 0.98 * size * count


def test_marksweep_is_the_replayers_own_over_any_malloc(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(3_000, seed=1))
    names = [f"marksweep({name}, every=16KiB)" for name in ALLOCATORS]
    results = replay(
        trace, ["glibc", *names], runs=1, warmup=0, seed=1, folder=tmp_path / "results"
    )
    records = read_records(results.folder)
    assert {record.outcome.status for record in records} == {Status.OK}
    found = {record.run.manager: record.outcome.values for record in records}
    assert "collections" not in found["glibc"]
    for key in ("collections", "marked_bytes", "swept_bytes", "graph_digest"):
        assert len({found[name][key] for name in names}) == 1, key
    assert found[names[0]]["collections"] > 20
    assert len({values["graph_digest"] for values in found.values()}) == 1
    told = results.document["managers"]
    assert not any("layer" in told[name] for name in names)
    assert not any("TARE_MARKSWEEP" in key for name in names for key in told[name]["environment"])


def test_a_replayer_that_did_not_collect_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(100, seed=1))
    monkeypatch.setattr("tare.studykit.replayer._heap_words", lambda _: ["--heap", "malloc"])
    results = replay(trace, ["marksweep(glibc)"], runs=1, warmup=0, folder=tmp_path / "results")
    found = {r.run.manager: r.outcome.status for r in read_records(results.folder)}
    assert found == {"glibc": Status.OK, "marksweep(glibc)": Status.NOT_LOADED}
