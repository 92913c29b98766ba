"""Replays under MMTk's collectors: what lives stays whole, and what is dead goes."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.base.errors import UsageError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import TABLES, arrow_schema, open_trace
from tare.memory_managers import mmtk
from tare.memory_managers.manager import Manager, resolve
from tare.memory_managers.mmtk import PLANS
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Limits
from tare.studies.replay.question import replay
from tare.studykit.replayer import program_of, run_once
from tests.support.traces import many_objects, objects_frame, put_table, write_trace_folder

MIB = 1 << 20
OUT_OF_MEMORY, CRASHED = 3, 5
MOVING = [name for name in PLANS if name not in ("immix-nonmoving", "freelist-marksweep")]
Report = dict[str, Any]
POINTERS = {
    "process": pl.UInt32,
    "instructions": pl.UInt64,
    "source": pl.UInt64,
    "offset": pl.UInt64,
    "target": pl.UInt64,
}
Store = tuple[int, int, int, int | None]
"""When, from which object, at which offset, to which object."""


def write_trace(folder: Path, objects: pl.DataFrame, stores: Sequence[Store] = ()) -> Path:
    observed = ("free", "pointers") if stores else ("free",)
    made = write_trace_folder(folder, objects, observed=observed, end_instructions=1 << 40)
    rows = [(0, *store) for store in stores]
    frame = pl.DataFrame(rows, schema=POINTERS, orient="row")
    table = frame.to_arrow().cast(arrow_schema(TABLES["pointers"]))
    put_table(made, "pointers", table)
    return made


def compiled(folder: Path, objects: pl.DataFrame, stores: Sequence[Store] = ()) -> Path:
    schedule = folder / "schedule"
    compile_trace(open_trace(write_trace(folder / "t.tare", objects, stores)), How(), schedule)
    return schedule


def run(
    name: str, schedule: Path, **options: str
) -> tuple[subprocess.CompletedProcess[str], Report]:
    """A replay under the collector ``name``, and its report; empty where it left none."""
    report = schedule.parent / "report.json"
    report.unlink(missing_ok=True)
    command = [*mmtk.command(name, options), "--report", str(report), str(schedule)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done, json.loads(report.read_text()) if report.exists() else {}


def malloc_says(schedule: Path) -> str:
    command = [str(native_file("bin/tare-replay")), "run", str(schedule)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def tangled(count: int, seed: int) -> tuple[pl.DataFrame, list[Store]]:
    """Objects that point at each other at random, some of them large, some resized by chance of
    their sizes; all stores between objects that live."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    stores: list[Store] = []
    living: list[int] = []
    time = 0
    for number in range(1, count + 1):
        time += 10
        size = draw.choice((0, 1, 7, 8, 12, 16, 24, 48, 100, 256, 1000))
        if draw.random() < 0.002:
            size = draw.choice((20_000, 70_000, 300_000))
        rows.append({"birth": time, "size": size})
        living.append(number)
        for _ in range(draw.randrange(3)):
            source, target = draw.choice(living), draw.choice([None, *living[-50:]])
            words = rows[source - 1]["size"] // 8
            if words:
                time += 1
                stores.append((time, source, 8 * draw.randrange(words), target))
        while len(living) > 2000 or (living and draw.random() < 0.3):
            time += 1
            dead = living.pop(draw.randrange(len(living)))
            rows[dead - 1]["free"] = time
    return objects_frame(rows), stores


@pytest.fixture(scope="module")
def tangle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("tangle"), *tangled(30_000, seed=7))


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_keeps_the_graph_that_malloc_keeps(name: str, tangle: Path) -> None:
    done, report = run(name, tangle, period="256KiB")
    assert done.returncode == 0, done.stderr
    assert done.stdout == malloc_says(tangle)
    assert report["collector"] == PLANS[name].proof
    # The trace asks for several MiB.
    assert report["collections"] >= report["allocated_bytes"] // (256 << 10) - 1 > 10
    assert 0 < report["collector_seconds"] < report["seconds"]
    assert report["pauses"] >= report["collections"]


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_collects_when_its_heap_is_full(name: str, tangle: Path) -> None:
    done, report = run(name, tangle, heap="6MiB", threads="2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == malloc_says(tangle)
    assert report["collections"] > 0
    assert report["reserved_bytes"] <= 6 * MIB + 4096 * 64


@pytest.mark.parametrize("name", [name for name, plan in PLANS.items() if plan.has_nursery])
def test_a_nursery_is_collected_alone(name: str, tangle: Path) -> None:
    done, report = run(name, tangle, heap="32MiB", nursery="1MiB")
    assert done.stdout == malloc_says(tangle), done.stderr
    assert 0 < report["nursery_collections"] <= report["collections"]


def chain(length: int, size: int) -> tuple[pl.DataFrame, list[Store]]:
    """A list of which the program keeps the head alone: each element points to the one before and
    loses its own root as soon as it is pointed to."""
    rows: list[dict[str, int]] = []
    stores: list[Store] = []
    for number in range(1, length + 1):
        birth = number * 100
        last = number == length
        rows.append({"birth": birth, "size": size} | ({} if last else {"free": birth + 150}))
        if number > 1:
            stores.append((birth + 1, number, 8, number - 1))
    return objects_frame(rows), stores


LENGTH, ELEMENT = 20_000, 248


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Schedules of the chain, and of the same objects without the pointers."""
    objects, stores = chain(LENGTH, ELEMENT)
    return (
        compiled(tmp_path_factory.mktemp("listed"), objects, stores),
        compiled(tmp_path_factory.mktemp("loose"), objects),
    )


@pytest.mark.parametrize("name", PLANS)
def test_pointers_keep_objects_alive_and_frees_alone_do_not_kill(
    name: str, chains: tuple[Path, Path]
) -> None:
    listed, loose = chains
    whole = LENGTH * (ELEMENT + 8)
    small, _ = run(name, listed, heap=str(whole // 2))
    assert len(small.stderr.splitlines()) == 1
    if name == "stickyimmix" and small.returncode == CRASHED:
        # MMTk 0.33 runs beyond a list of free chunks when survivors find no room.
        assert "the collector crashed" in small.stderr
    else:
        assert small.returncode == OUT_OF_MEMORY, small.stderr
        assert small.stderr == "tare-replay-mmtk: the heap is too small\n"
    large, _ = run(name, listed, heap=str(whole * 3))
    assert large.returncode == 0, large.stderr
    # Without the pointers nearly nothing lives, and the small heap is large.
    alone, report = run(name, loose, heap=str(whole // 2))
    assert alone.returncode == 0, alone.stderr
    assert report["collections"] > 0


@pytest.mark.parametrize("name", ["semispace", "markcompact"])
def test_the_least_heap_has_a_known_answer(name: str, tmp_path: Path) -> None:
    """Small objects that all live: one copy of them in a heap that is compacted, two in one that
    is copied."""
    count, size = 20_000, 56
    rows = [{"birth": 10 * number, "size": size} for number in range(1, count + 1)]
    # As many again that die at once, so that there is something to collect.
    rows += [
        {"birth": 10 * number + 5, "size": size, "free": 10 * number + 6} for number in range(count)
    ]
    schedule = compiled(tmp_path, objects_frame(rows))
    cells = count * (size + 8)
    # MarkCompact keeps a word before each object for the place that it is to have, and two bits
    # for each word elsewhere.
    needed = {"semispace": 2 * cells, "markcompact": count * (size + 16) * 33 / 32}[name]
    fits, _ = run(name, schedule, heap=str(round(needed * 1.03)))
    assert fits.returncode == 0, fits.stderr
    not_fits, _ = run(name, schedule, heap=str(round(needed * 0.97)))
    assert not_fits.returncode == OUT_OF_MEMORY


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("many"), many_objects(30_000))


@pytest.mark.parametrize("name", MOVING)
def test_reclaiming_seldom_needs_more_heap(name: str, many: Path) -> None:
    always, first = run(name, many, period="64KiB", heap="64MiB")
    seldom, second = run(name, many, period="64KiB", heap="64MiB", reclaim="8")
    assert always.stdout == seldom.stdout == malloc_says(many), seldom.stderr
    assert abs(first["collections"] - second["collections"]) <= 1
    assert second["reserved_bytes"] > first["reserved_bytes"]


def test_an_object_that_grows_keeps_what_it_holds(tmp_path: Path) -> None:
    rows = objects_frame(
        [
            {"birth": 10, "size": 16},
            {"birth": 20, "size": 16, "free": 40},
            {"birth": 40, "size": 100_000, "free": 60},
            {"birth": 60, "size": 24},
        ]
    ).with_columns(
        pl.Series("resized_from", [None, None, 2, 3], pl.UInt64),
        pl.Series("operation", ["malloc", "malloc", "realloc", "realloc"]),
    )
    schedule = compiled(tmp_path, rows, [(21, 2, 8, 1)])
    shown = subprocess.run(
        [native_file("bin/tare-replay"), "show", schedule], capture_output=True, text=True
    ).stdout
    assert shown.count("Resize") == 2
    for name in PLANS:
        done, _ = run(name, schedule, period="1KiB")
        assert done.stdout == malloc_says(schedule), (name, done.stderr)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["schedule"], "no plan given"),
        (["--plan", "Immix"], "no schedule given"),
        (["--plan", "Imix", "schedule"], "--plan cannot be Imix"),
        (["--plan", "Immix", "--heap", "0", "schedule"], "--heap wants a whole number above 0"),
        (["--plan", "Immix", "--heap"], "--heap wants a value"),
        (["--plan", "Immix", "--speed", "1", "schedule"], "there is no option --speed"),
        (["--plan", "Immix", "one", "two"], "more than one schedule"),
    ],
)
def test_wrong_usage_of_the_program(words: Sequence[str], problem: str) -> None:
    command = [str(native_file("bin/tare-replay-mmtk")), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "usage:" in done.stderr


def test_a_schedule_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "schedule").write_bytes(b"TARESCHD" + bytes(200))
    done, report = run("immix", tmp_path / "schedule")
    assert done.returncode == 1
    assert not report
    assert done.stderr.startswith("tare-replay-mmtk: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_collector_serves_no_program(tare: Any) -> None:
    done = tare("compare", "-n", "1", "-m", "immix", "--", "true")
    assert done.returncode == 2
    assert "tare replay" in done.stderr
    assert "Traceback" not in done.stderr


# ---- through tare replay ----


def test_the_command_replays_under_collectors(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(5_000, seed=3))
    names = ["glibc", "immix(heap=16MiB)", "semispace(period=64KiB)", "immix(heap=64KiB)"]
    results = replay(trace, names, runs=1, warmup=0, folder=tmp_path / "out")
    status: Mapping[str, set[Status]] = {
        name: {r.outcome.status for r in read_records(results.folder) if r.run.manager == name}
        for name in names
    }
    assert [status[name] for name in names] == [{Status.OK}] * 3 + [{Status.OUT_OF_MEMORY}]
    rows = results.measurements.filter(pl.col("value").is_not_null())
    of_semispace = rows.filter(pl.col("manager") == names[2])
    values = dict(zip(of_semispace["metric"], of_semispace["value"], strict=True))
    assert values["collections"] > 1
    assert values["collector_seconds"] > 0
    digests = rows.filter(pl.col("metric") == "graph_digest")["value"].unique()
    assert len(digests) == 1


def test_a_heap_that_is_a_multiple_of_the_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, size, of = 20_000, 56, 8
    rows = [
        {"birth": 10 * n, "size": size} | ({} if n % of == 0 else {"free": 10 * n + 5})
        for n in range(1, of * count + 1)
    ]
    trace = write_trace(tmp_path / "t.tare", objects_frame(rows))
    names = ["glibc", "semispace(heap=2x)", "semispace(heap=3x, threads=1)"]
    results = replay(trace, names, runs=1, warmup=0, folder=tmp_path / "out")
    assert {r.outcome.status for r in read_records(results.folder)} == {Status.OK}
    heaps = results.document["heaps"]
    assert set(heaps) == set(names[1:])
    for multiple, name in zip((2, 3), names[1:], strict=True):
        # One object in eight stays, and a semispace needs room for them twice.
        assert heaps[name]["least_bytes"] == pytest.approx(2 * count * (size + 8), rel=0.08)
        assert 0 <= heaps[name]["heap_bytes"] - multiple * heaps[name]["least_bytes"] < 4096
    rows_of = results.measurements.filter(pl.col("value").is_not_null())
    counted = rows_of.filter(pl.col("metric") == "collections")
    collections = [counted.filter(pl.col("manager") == name)["value"][0] for name in names[1:]]
    assert collections[0] > collections[1] > 0
    asked: list[str] = []
    monkeypatch.setattr(
        "tare.studykit.least_heap.multiples._least", lambda *_: asked.append("again")
    )
    again = replay(trace, names, runs=1, warmup=0, folder=tmp_path / "out")
    assert again.document["heaps"] == heaps
    assert not asked


def test_a_trace_that_fits_into_no_heap_has_no_multiple_of_the_least(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.tare", objects_frame([{"birth": 1, "size": 1 << 50}]))
    with pytest.raises(UsageError, match="has no minimum heap for this trace"):
        replay(trace, ["immix(heap=2x)"], runs=1, warmup=0, folder=tmp_path / "out")


def test_another_collector_than_was_asked_for_does_not_count(tmp_path: Path) -> None:
    trace = open_trace(write_trace(tmp_path / "t.tare", *tangled(500, seed=5)))
    schedule = tmp_path / "schedule"
    compile_trace(trace, How(), schedule)
    honest = resolve("immix", replays=True)
    swapped: Manager = replace(honest, replayer=resolve("semispace", replays=True).replayer)
    program = program_of(trace, How(), schedule)
    for manager, expected in ((honest, Status.OK), (swapped, Status.NOT_LOADED)):
        outcome = run_once(program, manager, Limits(), tmp_path)
        assert outcome.status is expected, outcome
