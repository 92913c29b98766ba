"""Replays by several threads: each does what was recorded of it, in an order that objects prove."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.base.errors import UsageError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.studies.replay.question import replay
from tests.native.replay.test_mmtk import Store, write_trace
from tests.support.traces import objects_frame

FIRST_SIZE = 10_000
"""Objects of these tests have a size of their own from here on, by which a log knows them."""
BY_THREADS = How(threads=True)
TRIES = 5

LOGGING = """
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
/* A malloc that never reuses memory and tells what it was asked for: + or -, who, size, threads. */
enum { MOST = 1 << 20 };
static struct { int who, size, threads; } entries[MOST];
static atomic_int count;
static _Atomic(char *) next;
static void note(int size, int sign) {
  if (size < 10000) return;
  struct stat facts;
  stat("/proc/self/task", &facts);
  int at = atomic_fetch_add(&count, 1);
  if (at < MOST) entries[at].who = gettid(), entries[at].size = sign * size,
                 entries[at].threads = (int)facts.st_nlink - 2;
}
void *malloc(size_t n) {
  static atomic_int made;
  if (!next && !atomic_fetch_add(&made, 1))
    next = mmap(NULL, 1ul << 40, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  size_t room = (n + 31) & ~15ul;
  char *place = atomic_fetch_add(&next, (char *)room);
  *(size_t *)(void *)place = n;
  note((int)n, 1);
  return place + 16;
}
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void free(void *p) { if (p) note((int)*(size_t *)(void *)((char *)p - 16), -1); }
void *realloc(void *p, size_t n) {
  size_t had = p ? *(size_t *)(void *)((char *)p - 16) : 0;
  void *q = malloc(n);
  memcpy(q, p, had < n ? had : n);
  free(p);
  return q;
}
__attribute__((destructor)) static void tell(void) {
  FILE *log = fopen(getenv("LOG"), "w");
  for (int at = 0; at < count && at < MOST; ++at)
    fprintf(log, "%d %d %d\\n", entries[at].who, entries[at].size, entries[at].threads);
  fclose(log);
}
"""


def busy(count: int, threads: int, seed: int) -> tuple[pl.DataFrame, list[Store]]:
    """Objects of several threads, freed and pointed to by any of them, some of them resized."""
    draw = random.Random(seed)
    rows: list[dict[str, int]] = []
    stores: list[Store] = []
    living: list[int] = []
    more: dict[str, list[int | None]] = {"thread": [], "free_thread": [], "resized_from": []}
    time = 0
    while len(rows) < count:
        time += 10
        if living and draw.random() < 0.4:
            source, target = draw.choice(living), draw.choice([None, *living])
            stores.append((time, source, 8 * draw.randrange(12), target))
            continue
        old = living.pop(draw.randrange(len(living))) if len(living) > 200 else None
        if old is not None:
            rows[old - 1]["free"] = time
        rows.append({"birth": time + 1, "size": draw.choice((0, 5, 8, 40, 96, 500, 5000))})
        living.append(len(rows))
        more["resized_from"].append(old if draw.random() < 0.2 else None)
        more["thread"].append(draw.randrange(threads))
        more["free_thread"].append(draw.randrange(threads))
    frame = objects_frame(rows)
    kinds = {name: frame.schema[name] for name in more}
    return frame.with_columns(pl.Series(name, more[name], kinds[name]) for name in more), stores


def compiled(
    folder: Path, objects: pl.DataFrame, stores: Sequence[Store] = ()
) -> tuple[Path, dict[str, int]]:
    trace = write_trace(folder / "t.tare", objects, stores)
    schedule = folder / "t.schedule"
    return schedule, compile_trace(open_trace(trace), BY_THREADS, schedule)


def run(schedule: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(native_file("bin/tare-replay")), "run", *options, str(schedule)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_leave_what_one_thread_leaves(tmp_path: Path, threads: int) -> None:
    schedule, counted = compiled(tmp_path, *busy(20_000, threads, seed=threads))
    assert counted["threads"] == threads
    assert counted["stores"] > 5_000
    assert counted["resizes"] > 1_000
    report = tmp_path / "report"
    alone = run(schedule)
    assert alone.returncode == 0, alone.stderr
    for _ in range(TRIES):
        done = run(schedule, "--threads", "--report", str(report))
        assert (done.returncode, done.stdout) == (0, alone.stdout), done.stderr
        told = json.loads(report.read_text())
        assert told["threads"] == threads
        assert told["waits"] > 1_000


@pytest.fixture
def logged(compile_c: Callable[..., Path], tmp_path: Path) -> Callable[[Path], list[list[int]]]:
    """What a replay by threads asks malloc for: who, the size (below 0 for a free), and how many
    threads there were."""
    logging = compile_c(LOGGING, "-shared", "-fPIC", "-fno-builtin", "-O1", name="logging.so")

    def run_logged(schedule: Path) -> list[list[int]]:
        log = tmp_path / "log"
        done = run(schedule, "--threads", LD_PRELOAD=str(logging), LOG=str(log))
        assert done.returncode == 0, done.stderr
        return [[int(word) for word in line.split()] for line in log.read_text().splitlines()]

    return run_logged


def with_threads(rows: Sequence[dict[str, int]], born: Sequence[int], freed: Sequence[int]) -> Any:
    return objects_frame(rows).with_columns(
        thread=pl.Series(born, dtype=pl.UInt32), free_thread=pl.Series(freed, dtype=pl.UInt32)
    )


def test_each_thread_makes_the_calls_that_were_recorded_of_it(
    tmp_path: Path, logged: Callable[[Path], list[list[int]]]
) -> None:
    draw = random.Random(1)
    count, threads = 5_000, 3
    births = [draw.randrange(1, 1 + threads) for _ in range(count)]
    frees = [draw.randrange(1, 1 + threads) for _ in range(count)]
    lives = [draw.choice((5, 302, 9003)) for _ in range(count)]
    rows = [
        {"birth": 10 * n, "size": FIRST_SIZE + n, "free": 10 * n + lives[n] + 1}
        for n in range(count)
    ]
    schedule, _ = compiled(tmp_path, with_threads(rows, births, frees))
    events = [(10 * n, births[n], FIRST_SIZE + n) for n in range(count)]
    events += [(10 * n + lives[n] + 1, frees[n], -FIRST_SIZE - n) for n in range(count)]
    expected: dict[int, list[int]] = defaultdict(list)
    for _, thread, size in sorted(events):
        expected[thread].append(size)
    found: dict[int, list[int]] = defaultdict(list)
    born = set()
    for who, size, _ in logged(schedule):
        found[who].append(size)
        assert size > 0 or -size in born, "freed before it was there"
        born.add(size)
    assert sorted(found.values()) == sorted(expected.values())


def test_a_thread_that_has_ended_is_gone_before_the_next_begins(
    tmp_path: Path, logged: Callable[[Path], list[list[int]]]
) -> None:
    each, threads = 20, 100
    rows = [
        {"birth": 10 * n, "size": FIRST_SIZE + n, "free": 10 * n + 5} for n in range(each * threads)
    ]
    # The first thread takes turns with the others, each of which comes once.
    by = [0 if n % 2 else 1 + n // each for n in range(each * threads)]
    schedule, counted = compiled(tmp_path, with_threads(rows, by, by))
    assert counted["threads"] == threads + 1
    calls = logged(schedule)
    assert len({who for who, _, _ in calls}) == threads + 1
    # One that has ended may not be gone for the system when the next is there, and on a busy
    # machine a few may not.
    there = [count for _, _, count in calls]
    assert statistics.median(there) <= 3
    assert max(there) <= threads // 10


def test_no_thread_runs_far_ahead(
    tmp_path: Path, logged: Callable[[Path], list[list[int]]]
) -> None:
    count = 60_000
    rows = [{"birth": 10 * n, "size": FIRST_SIZE + n, "free": 10 * n + 5} for n in range(count)]
    schedule, counted = compiled(tmp_path, with_threads(rows, [1] * count, [2] * count))
    # One object lives at a time, as recorded; slots are used again, if not at once.
    assert counted["peak_objects"] == 1
    assert counted["slots"] < 100
    live = most = 0
    for _, size, _ in logged(schedule):
        live += 1 if size > 0 else -1
        most = max(most, live)
    # Two parts of 8,192 words: each object has two, and each turn of a thread another.
    assert 1 <= most <= 2 * 8192 // 4 + 2


def test_all_threads_end_where_one_has_no_memory(tmp_path: Path) -> None:
    rows = [
        {"birth": 10, "size": 64, "free": 70},
        {"birth": 20, "size": 64, "free": 80},
        {"birth": 30, "size": 1 << 55, "free": 60},
        {"birth": 40, "size": 64},
    ]
    schedule, _ = compiled(tmp_path, with_threads(rows, [1, 2, 3, 1], [3, 1, 1, 2]))
    done = run(schedule, "--threads")
    assert done.returncode == 3, done
    assert done.stderr.startswith("tare-replay: the manager had no memory for an object of ")


def test_what_serves_one_thread_is_refused(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.tare", *busy(100, 2, seed=1))
    for name in ("immix", "marksweep(glibc)", "regions(glibc, as=reap)"):
        with pytest.raises(UsageError, match="replays the threads of a program as one"):
            replay(trace, [name], how=How(threads=True, regions="site"))


def test_the_command_replays_by_threads(
    tmp_path: Path, tare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write_trace(tmp_path / "t.tare", *busy(5_000, 3, seed=2))
    names = ("glibc", "mimalloc", "delay(glibc, size=64KiB)")
    managers = [word for name in names for word in ("-m", name)]
    done = tare("replay", "--threads", "recorded", *managers, "-n", "1", "-o", "r", "t.tare")
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [record.outcome for record in read_records(tmp_path / "r")]
    assert {outcome.status for outcome in outcomes} == {Status.OK}
    assert len({outcome.values["graph_digest"] for outcome in outcomes}) == 1
