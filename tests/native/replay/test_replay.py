"""Replays against traces with known answers, and against the real programs."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tare as api
from tare.base.errors import UsageError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import TABLES, Trace, arrow_schema, open_trace
from tare.memory_managers.manager import resolve
from tare.observers.asked import Asked
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.studies.replay.question import replay
from tests.native.replay.schedules import ALLOCATORS, Compiled, replayer, shown
from tests.support.traces import Row, many_objects, objects_frame, put_table, write_trace_folder
from tests.unit.studies.test_replay import LIVES

MANAGERS = (*ALLOCATORS, "delay(glibc, size=64KiB)", "marksweep(mimalloc, every=64KiB)")
NEVER = (1 << 64) - 1


@pytest.mark.parametrize(
    ("how", "events"),
    [
        (
            How("free"),
            "A 0 100, A 1 8, F 1, A 1 7, A 2 0, F 0, F 2",
        ),
        (
            How("unreachable"),
            "A 0 100, A 1 8, F 1, A 1 7, A 2 0, F 1, F 0, F 2",
        ),
        (
            How("last-use"),
            "A 0 100, A 1 8, F 1, F 0, A 0 7, F 0, A 0 0, F 0",
        ),
        (
            How("free", "uses"),
            "A 0 100, W 0 100, A 1 8, F 1, R 0 100, A 1 7, W 1 7, R 1 7, A 2 0, W 2 0, F 0, "
            "R 2 0, F 2",
        ),
    ],
)
def test_the_three_deaths_and_the_uses(compiled: Compiled, how: How, events: str) -> None:
    schedule, counted = compiled(
        LIVES, how, observed=("first_use", "last_use", "unreachable", "free")
    )
    words = {"A": "Allocate", "F": "Free", "W": "Write", "R": "Read"}
    expected = []
    for event in events.split(", "):
        kind, *numbers = event.split()
        expected.append(" ".join([words[kind], *numbers, *(["0"] if kind == "A" else [])]))
    assert shown(schedule) == expected
    assert counted["objects"] == 4
    assert counted["allocated_bytes"] == 115


def test_a_realloc_keeps_its_slot_and_its_object(compiled: Compiled) -> None:
    rows = objects_frame(
        [
            {"birth": 10, "size": 16, "free": 30},
            {"birth": 20, "size": 8, "free": 30},
            {"birth": 31, "size": 1 << 33, "free": 40},
        ]
    ).with_columns(resized_from=pl.Series([None, None, 1], dtype=pl.UInt64))
    schedule, counted = compiled(rows)
    assert shown(schedule) == [
        "Allocate 0 16 0",
        "Allocate 1 8 0",
        "Free 1",
        f"Resize 0 {1 << 33}",
        "Free 0",
    ]
    assert (counted["objects"], counted["resizes"]) == (2, 1)
    assert counted["allocated_bytes"] == 24 + (1 << 33) - 16
    assert counted["peak_bytes"] == 1 << 33


def test_alignment_and_zeroes_are_kept(compiled: Compiled) -> None:
    rows = objects_frame([{"birth": n, "size": 10} for n in (1, 2, 3)]).with_columns(
        operation=pl.Series(["calloc", "aligned", "new"]),
        alignment=pl.Series([None, 4096, None], dtype=pl.UInt64),
    )
    schedule, _ = compiled(rows)
    assert shown(schedule) == ["Allocate 0 10 0 true", "Allocate 1 10 4096", "Allocate 2 10 0"]
    assert replayer("run", schedule).returncode == 0


def naive_peak(births: Any, ends: Any, sizes: Any) -> int:
    """The most bytes alive at one moment; what ends at a birth is gone by then."""
    times = np.concatenate([ends, births])
    change = np.concatenate([-sizes.astype(np.int64), sizes.astype(np.int64)])
    order = np.argsort(times, kind="stable")  # ends first
    kept = order[times[order] != NEVER]
    return int(np.cumsum(change[kept]).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("death", ["free", "last-use"])
def test_counts_are_those_of_a_naive_sweep(compiled: Compiled, death: str, seed: int) -> None:
    objects = many_objects(30_000, seed)
    _, counted = compiled(objects, How(death), observed=("free", "last_use"))
    births, sizes = objects["birth_instructions"].to_numpy(), objects["size"].to_numpy()
    ends = objects["free_instructions"].fill_null(NEVER).to_numpy()
    if death == "last-use":
        # What is never used is given and taken back at once: it counts at its birth.
        ends = objects["last_use_instructions"].fill_null(objects["birth_instructions"]).to_numpy()
        ends = np.where(ends == births, births + np.uint64(1), ends)
    assert counted["peak_bytes"] == naive_peak(births, ends, sizes)
    assert counted["objects"] == len(births)
    assert counted["allocated_bytes"] == int(sizes.sum())
    assert counted["frees"] == int(np.sum(ends != NEVER))
    assert counted["slots"] == counted["peak_objects"]


@pytest.mark.parametrize("touch", ["birth", "uses", "first-line"])
def test_every_allocator_ends_with_the_same_digest(
    compiled: Compiled, touch: str, tmp_path: Path
) -> None:
    schedule, counted = compiled(
        many_objects(20_000), How(touch=touch), observed=("free", "first_use", "last_use")
    )
    found = set()
    for name in ALLOCATORS:
        manager = resolve(name)
        report = tmp_path / "report.json"
        done = subprocess.run(
            [native_file("bin/tare-replay"), "run", "--report", report, schedule],
            env={"LD_PRELOAD": " ".join(map(str, manager.preload))},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
        measured = json.loads(report.read_text())
        assert measured["objects"] == counted["objects"] == 20_000
        assert measured["peak_bytes"] == counted["peak_bytes"]
        assert f"graph {measured['graph_digest']:012x}: " in done.stdout
    assert len(found) == 1


FORGETFUL = """
#include <stddef.h>
#include <string.h>
static _Alignas(16) char one[32], heap[1 << 20], *next = heap;
void *malloc(size_t n) { return n == 32 ? one : (next += (n + 31) & ~15ul) - ((n + 31) & ~15ul); }
void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }
void *realloc(void *p, size_t n) { return p ? memcpy(malloc(n), p, n) : malloc(n); }
void free(void *p) {}
"""
"""A malloc that gives the same 32 bytes to everybody who asks for 32."""


def test_a_manager_that_loses_what_was_written_is_found_out(
    compiled: Compiled, compile_c: Callable[..., Path]
) -> None:
    schedule, _ = compiled([{"birth": n, "size": 32} for n in range(1, 101)])
    forgetful = compile_c(FORGETFUL, "-shared", "-fPIC", "-fno-builtin", name="forgetful.so")
    command = [str(native_file("bin/tare-replay")), "run", str(schedule)]
    told = [
        subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        for env in ({}, {"LD_PRELOAD": str(forgetful)})
    ]
    assert told[0] != told[1]


def test_pointers_are_stored_and_proved(tmp_path: Path) -> None:
    objects = objects_frame(
        [
            {"birth": 10, "size": 32},
            {"birth": 20, "size": 16},
            {"birth": 30, "size": 16, "free": 60},
            {"birth": 40, "size": 256},
        ]
    )
    folder = write_trace_folder(
        tmp_path / "p.tare", objects, observed=("free", "pointers"), end_instructions=100
    )
    # (when, source, offset, target): kept; overwritten; a target that dies; outside; an extended
    # field; of static memory; into a dead object.
    stores = [
        (21, 1, 8, 2),
        (31, 1, 16, 3),
        (32, 1, 0, 2),
        (33, 1, 0, None),
        (34, 2, 12, 1),
        (41, 4, 200, 1),
        (42, None, 64, 1),
        (70, 3, 0, 1),
    ]
    kinds = {
        "process": pl.UInt32,
        "instructions": pl.UInt64,
        "source": pl.UInt64,
        "offset": pl.UInt64,
        "target": pl.UInt64,
    }
    frame = pl.DataFrame([(0, *store) for store in stores], schema=kinds, orient="row")
    table = frame.to_arrow().cast(arrow_schema(TABLES["pointers"]))
    put_table(folder, "pointers", table)
    schedule = tmp_path / "p.schedule"
    counted = compile_trace(open_trace(folder), How(), schedule)
    assert counted["stores"] == 5
    events = [event for event in shown(schedule) if event.startswith("Store")]
    assert events == [
        "Store 0 8 Some(1)",
        "Store 0 16 Some(2)",
        "Store 0 0 Some(1)",
        "Store 0 0 None",
        "Store 3 200 Some(0)",
    ]
    done = replayer("run", schedule)
    # Two pointers lead to what lives at the end: that of the first object, and the far one.
    assert done.stdout.endswith(": 3 objects, 2 pointers\n")
    without = compile_trace(open_trace(folder), How(pointers=False), schedule)
    assert without["stores"] == 0


def test_threads_are_kept_in_order(tmp_path: Path, compiled: Compiled) -> None:
    objects = objects_frame([{"birth": 10 * n, "size": n, "free": 100 + n} for n in range(1, 5)])
    objects = objects.with_columns(
        thread=pl.Series([7, 9, 9, 7], dtype=pl.UInt32),
        free_thread=pl.Series([9, 9, None, 7], dtype=pl.UInt32),
    )
    schedule, counted = compiled(objects, How(threads=True))
    assert counted["threads"] == 2
    assert shown(schedule) == [
        "Thread 0 1",
        "Allocate 0 1 0",
        "Thread 1 2",
        "Allocate 8 2 0",
        "Allocate 9 3 0",
        "Thread 0 1",
        "Allocate 1 4 0",
        "Thread 1 3",
        "Free 0",
        "Free 8",
        "Free 9",
        "Thread 0 1",
        "Free 1",
    ]
    assert replayer("run", schedule).returncode == 0


def test_regions_are_numbered_anew_once_they_are_empty(compiled: Compiled) -> None:
    rows = [
        {"birth": 10, "size": 8, "site": 3, "free": 40},
        {"birth": 20, "size": 8, "site": 1, "free": 35},
        {"birth": 30, "size": 8, "free": 90},
        {"birth": 50, "size": 8, "site": 2},
        {"birth": 60, "size": 8, "site": 3},
        {"birth": 70, "size": 8, "site": 1},
    ]
    schedule, counted = compiled(rows, How(regions="site"))
    assert counted["regions"] == 3
    births = [event for event in shown(schedule) if event.startswith("Allocate")]
    assert [event.partition("Some")[2] for event in births] == [
        "(0)",
        "(1)",
        "",
        "(0)",
        "(1)",
        "(2)",
    ]


def test_what_goes_with_its_region(compiled: Compiled) -> None:
    rows = objects_frame([{"birth": n, "size": 8, "free": 100 + n} for n in (1, 2, 3)])
    rows = rows.with_columns(
        region=pl.Series([1, 1, None], dtype=pl.UInt32),
        free_operation=pl.Series(["region", "free", "free"]),
    )
    schedule, counted = compiled(rows, How(regions="trace"))
    assert counted["regions"] == 1
    frees = [event for event in shown(schedule) if event.startswith("Free")]
    assert frees == ["Free 0 true", "Free 1", "Free 2"]


def test_regions_hold_what_is_dead_and_reaps_do_not(compiled: Compiled, tmp_path: Path) -> None:
    size, count = 16 << 10, 1000
    rows: list[Row] = [{"birth": 1, "size": 64, "site": 1}]
    rows += [
        {"birth": 10 * n, "size": size, "site": 1, "free": 10 * n + 5} for n in range(1, count)
    ]
    schedule, _ = compiled(rows, How(regions="site"))
    told, reserved = set(), {}
    for heap in ("malloc", "emulation", "region", "reap"):
        report = tmp_path / heap
        done = replayer("run", "--heap", heap, "--report", report, schedule)
        told.add(done.stdout)
        reserved[heap] = json.loads(report.read_text())["reserved_bytes"]
    assert len(told) == 1
    assert min(reserved["emulation"], reserved["region"]) > 0.95 * count * size
    assert max(reserved["malloc"], reserved["reap"]) < 0.1 * count * size


READY = """
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static char *next;
__attribute__((constructor)) void *malloc(size_t bytes) {
  if (next == NULL) {
    next = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(next, 1, 8 << 20);
  }
  char *object = next;
  next += (bytes + 15) & ~(size_t)15;
  return object;
}
void free(void *object) { (void)object; }
void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
void *realloc(void *object, size_t size) {
  return object == NULL ? malloc(size) : memmove(malloc(size), object, size);
}
"""


def test_resident_memory_is_never_below_what_lives(
    compiled: Compiled, tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    """Whatever the manager had before the first object, such as a huge page or its whole arena."""
    ready = compile_c(READY, "-shared", "-fPIC", "-fno-builtin", name="ready.so")
    installed = api.managers().filter(pl.col("installed"))["name"]
    managers = [resolve(name) for name in (*installed, str(ready))]
    for count, size in ((100, 1_000), (1_000, 2_000)):
        rows: list[Row] = [
            {"birth": n, "size": size, "free": 10 * count + n} for n in range(1, count + 1)
        ]
        schedule, _ = compiled(rows, How())
        report = tmp_path / "report"
        for manager in managers:
            environment = {**manager.environment, "LD_PRELOAD": " ".join(map(str, manager.preload))}
            command: list[str | Path] = [
                native_file("bin/tare-replay"),
                "run",
                "--report",
                report,
                schedule,
            ]
            subprocess.run(command, env=environment, capture_output=True, check=True)
            reserved = json.loads(report.read_text())["reserved_bytes"]
            assert reserved >= count * size, manager.name
            if manager.name == str(ready):
                assert reserved >= 8 << 20


def test_memory_beside_that_of_libraries_is_still_the_manager_s(
    compiled: Compiled, tmp_path: Path
) -> None:
    """mallocng maps page by page, and some of 20 replays have them beside the thread's own."""
    manager = resolve("mallocng")
    rows: list[Row] = [{"birth": n, "size": 1_000, "free": 1_000 + n} for n in range(1, 101)]
    schedule, _ = compiled(rows, How())
    environment = {**manager.environment, "LD_PRELOAD": " ".join(map(str, manager.preload))}
    command: list[str | Path] = [native_file("bin/tare-replay"), "run"]
    command += ["--report", tmp_path / "report", schedule]
    for _ in range(20):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / "report").read_text())["reserved_bytes"] >= 100_000


def test_the_process_with_most_objects_is_replayed(compiled: Compiled) -> None:
    rows = [{"birth": 1, "size": 5, "process": 0}] + [
        {"birth": n, "size": 3, "process": 1} for n in (1, 2)
    ]
    _, counted = compiled(rows)
    assert counted["allocated_bytes"] == 6
    _, counted = compiled(rows, How(process=0))
    assert counted["allocated_bytes"] == 5


def test_a_trace_that_cannot_be_is_refused(compiled: Compiled) -> None:
    backwards = objects_frame([{"birth": 10, "size": 1}, {"birth": 20, "size": 1}]).reverse()
    with pytest.raises(UsageError, match="object 2 of the trace: its birth is before"):
        compiled(backwards)
    with pytest.raises(UsageError, match="larger than any memory"):
        compiled([{"birth": 10, "size": 1 << 60}])


def test_a_trace_that_cannot_be_compiled_leaves_no_folder(
    tmp_path: Path, tare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write_trace_folder(tmp_path / "bad.tare", objects_frame([{"birth": 10, "size": 1 << 60}]))
    done = tare("replay", "-o", "results", "bad.tare")
    assert done.returncode == 2
    assert "object 1 of the trace: larger than any memory" in done.stderr
    assert not (tmp_path / "results").exists()
    assert tare("replay", "none.tare").returncode == 2
    (tmp_path / "file").touch()
    done = tare("replay", "-o", "file", "bad.tare")
    assert done.returncode == 4
    assert "cannot write to" in done.stderr


def test_a_damaged_schedule_is_refused_with_a_message(compiled: Compiled, tmp_path: Path) -> None:
    schedule, _ = compiled(many_objects(300), How(touch="uses"), observed=("last_use", "free"))
    whole = schedule.read_bytes()
    damaged = tmp_path / "damaged"
    chance = random.Random(1)
    refused = 0
    for number in range(250):
        content = bytearray(whole)
        if number % 5 == 0:
            del content[chance.randrange(len(content)) :]
        else:
            for _ in range(1 + number % 3):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        damaged.write_bytes(content)
        done = replayer("run", "--heap", "null", damaged)
        assert done.returncode in (0, 1), (number, done)
        if done.returncode == 1:
            refused += 1
            assert done.stderr.startswith(f"tare-replay: {damaged} ")
    assert refused > 200  # what is not refused has other sizes of uses, say, and is as sound
    assert "cannot be read: No such file" in replayer("run", tmp_path / "none").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("run",),
        ("walk", "x"),
        ("run", "--heap", "huge", "x"),
        ("run", "--threads", "--heap", "null", "x"),
        ("run", "--every", "4096", "x"),
        ("run", "--heap", "marksweep", "--every", "64KiB", "x"),
        ("run", "a", "b"),
        ("compile", "--stores", "0", "x"),
        ("show", "--report"),
    ],
)
def test_wrong_usage_of_the_replayer(arguments: Sequence[str]) -> None:
    done = replayer(*arguments)
    assert done.returncode == 2
    assert "usage: tare-replay" in done.stderr


def test_no_memory_is_told_apart_from_a_failure(tmp_path: Path) -> None:
    trace = write_trace_folder(
        tmp_path / "huge.tare",
        objects_frame([{"birth": 1, "size": 64}, {"birth": 2, "size": 1 << 55}]),
    )
    results = replay(trace, ["glibc"], runs=1, warmup=0, folder=tmp_path / "results")
    records = read_records(results.folder)
    assert {record.outcome.status for record in records} == {Status.OUT_OF_MEMORY}


def test_the_command_replays_under_allocators_and_layers(
    tmp_path: Path, tare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write_trace_folder(tmp_path / "made.tare", many_objects(20_000))
    managers = [word for name in MANAGERS for word in ("-m", name)]
    done = tare("replay", *managers, "-n", "2", "-o", "r", "--json", "r.json", "made.tare")
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads((tmp_path / "r.json").read_text())
    rows = said["measurements"]
    by_metric: dict[str, dict[str, set[float]]] = {}
    for row in rows:
        assert row["status"] == "ok"
        by_metric.setdefault(row["metric"], {}).setdefault(row["manager"], set()).add(row["value"])
    assert set(by_metric["mutator_seconds"]) == set(MANAGERS)
    assert len(set.union(*by_metric["graph_digest"].values())) == 1
    assert set.union(*by_metric["objects"].values()) == {20_000}
    live = set.union(*by_metric["max_live_bytes"].values())
    assert len(live) == 1
    for manager, reserved in by_metric["peak_reserved_bytes"].items():
        assert max(reserved) > 0.8 * max(live), manager
    assert min(by_metric["collections"]["marksweep(mimalloc, every=64KiB)"]) > 10
    assert by_metric["collector_seconds"]["glibc"] == {0}
    assert "replayed" in done.stdout
    written = pl.read_parquet(tmp_path / "r" / "measurements.parquet")
    assert set(written["obtained"]) == {"replayed"}
    assert (tmp_path / "r" / "report.html").exists()
    assert not (tmp_path / "r" / ".work").exists()


def active_pages(trace: Trace) -> int:
    """The most pages that hold a byte of an object at one moment."""
    columns = ("birth_nanoseconds", "free_nanoseconds", "address", "size")
    events: list[tuple[int, int, int, int]] = []
    for birth, free, address, size in trace.objects().select(columns).collect().iter_rows():
        pages = address >> 12, max(address + size - 1, address) >> 12
        events.append((birth, 1, *pages))
        if free is not None:
            events.append((free, -1, *pages))
    events.sort()
    held: dict[int, int] = {}
    most = 0
    for _, change, first, last in events:
        for page in range(first, last + 1):
            held[page] = held.get(page, 0) + change
            if not held[page]:
                del held[page]
        most = max(most, len(held))
    return most


PERL = """
my %h; open F, $ARGV[0]; while (<F>) { chomp; push @{$h{lc substr($_, 0, 3)}}, [$_, length];
delete $h{lc substr($_, 0, 3)} if length > 9 } my $n = 0;
for my $k (sort keys %h) { $n += @{$h{$k}}; delete $h{$k} if $n % 3 == 0 } print "$n\n";
"""
GAWK = '{ words[NR] = $0 "-" length($0) } END { for (n in words) if (n % 2) delete words[n] }'
PROGRAMS = {"gawk": ["gawk", GAWK], "perl": ["perl", "-e", PERL]}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replay_is_like_the_real_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("PERL_HASH_SEED", "0")
    words = tmp_path / "words"
    words.write_text("".join(f"{'bcdfg'[n % 5]}{n * 7919 % 10007}word\n" for n in range(4000)))
    what = Asked(sites=False)
    for manager in ALLOCATORS:
        real = api.trace(
            [*PROGRAMS[name], str(words)], manager, what=what, folder=tmp_path / f"{manager}.tare"
        )
        schedule = tmp_path / f"{manager}.schedule"
        counted = compile_trace(real, How(), schedule)
        assert counted["objects"] + counted["resizes"] == real.meta["objects"]
        assert counted["peak_bytes"] == real.meta["max_live_bytes"]
        replayed = api.trace(
            [str(native_file("bin/tare-replay")), "run", str(schedule)],
            manager,
            what=what,
            folder=tmp_path / f"{manager}-replayed.tare",
        )
        # The C library asks for a few objects of its own before main.
        assert 0 <= replayed.meta["objects"] - real.meta["objects"] <= 20
        assert replayed.meta["max_live_bytes"] - real.meta["max_live_bytes"] in range(4096)
        assert active_pages(replayed) == pytest.approx(active_pages(real), rel=0.05)
