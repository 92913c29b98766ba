"""Minimum heaps of collectors for heap traces, with known answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tare.base.errors import InterruptedStudy, UsageError
from tare.base.native import native_file
from tare.heap_traces.schedule import How, compile_trace
from tare.heap_traces.trace import open_trace
from tare.memory_managers.manager import Manager
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Limits, Outcome
from tare.studies.minheap.question import minheap
from tare.studies.minheap.replayed_report import published_heaps, published_ratios
from tare.studykit import replayer
from tare.studykit.least_heap.replayed import PARTS, TRIALS_FILE, default_managers
from tare.studykit.least_heap.search import PAGE, kept_trials
from tests.native.replay.test_mmtk import tangled, write_trace
from tests.support.processes import processes_with
from tests.support.traces import many_objects, objects_frame

MIB = 1 << 20


def known(folder: Path, count: int = 20_000, size: int = 56) -> Path:
    """A trace of ``count`` objects that all live at the end, and as many that die at once."""
    rows: list[dict[str, int]] = []
    for number in range(1, count + 1):
        rows.append({"birth": 10 * number, "size": size})
        rows.append({"birth": 10 * number + 5, "size": size, "free": 10 * number + 6})
    return write_trace(folder, objects_frame(rows))


def test_copying_needs_two_heaps(tmp_path: Path) -> None:
    results = minheap(
        known(tmp_path / "t.tare"), ["semispace", "glibc"], repeats=2, folder=tmp_path / "out"
    )
    records = {r.run.manager: r.outcome for r in read_records(results.folder)}
    assert {outcome.status for outcome in records.values()} == {Status.OK}
    cells = 20_000 * (56 + 8)
    values = records["semispace"].values
    assert values["min_heap_low_bytes"] < 2 * cells * 1.03
    assert values["min_heap_high_bytes"] > 2 * cells * 0.97
    step = results.document["request"]["step"]
    assert 0 < values["min_heap_high_bytes"] - values["min_heap_low_bytes"] <= step
    assert values["trials"] >= 4
    # Half of the heap is kept free.
    assert values["copy_reserve_bytes"] == pytest.approx(
        values["peak_reserved_bytes"] / 2, rel=0.05
    )
    glibc = records["glibc"].values
    assert (
        glibc["min_heap_low_bytes"] == glibc["min_heap_high_bytes"] == glibc["peak_reserved_bytes"]
    )
    assert results.document["oracles"] == {"free": 20_001 * 56}


def test_marksweep_over_malloc_is_weighed_by_its_pages(tmp_path: Path) -> None:
    periods = {"32KiB": 32 << 10, "1MiB": MIB}
    names = {period: f"marksweep(glibc, every={period})" for period in periods}
    results = minheap(known(tmp_path / "t.tare"), list(names.values()), folder=tmp_path / "out")
    records = {r.run.manager: r.outcome for r in read_records(results.folder)}
    for period, every in periods.items():
        outcome = records[names[period]]
        assert outcome.status is Status.OK
        heap = outcome.values["min_heap_high_bytes"]
        assert heap == outcome.values["peak_active_bytes"]
        assert outcome.values["trials"] == 1
        # Half of what is born lives; the other half of it is garbage from the last collection on.
        born = 2 * 20_000 * 56
        last = born // every * every
        most = max(last / 2 + every / 2, born / 2 + (born - last) / 2)
        # glibc has 64 bytes for 56.
        assert heap == pytest.approx(most * 64 / 56, rel=0.02, abs=2 * PAGE), period


def test_an_interrupted_search_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, out = known(tmp_path / "t.tare", count=2_000), tmp_path / "out"
    real, made = replayer.run_once, 0

    def interrupted(
        program: Program, manager: Manager, limits: Limits, workspace: Path, keep: Path | None
    ) -> Outcome:
        nonlocal made
        made += 1
        if made == 4:
            raise KeyboardInterrupt
        return real(program, manager, limits, workspace, keep)

    monkeypatch.setattr(replayer, "run_once", interrupted)
    with pytest.raises(InterruptedStudy):
        minheap(trace, ["semispace"], repeats=1, folder=out)
    kept = kept_trials(out / TRIALS_FILE, "semispace")
    assert kept
    results = minheap(trace, ["semispace"], repeats=1, folder=out)
    (record,) = (r for r in read_records(out) if r.run.manager == "semispace")
    sizes = [size for size, _, _ in record.outcome.details["trials"]]
    assert sizes[: len(kept)] == [trial.heap_bytes for trial in kept]
    assert record.outcome.values["trials"] == len(sizes)
    assert results.run.study == "minheap"
    assert not (out / TRIALS_FILE).exists()


def test_an_interrupt_ends_all_trials_side_by_side(tmp_path: Path) -> None:
    """SIGTERM during two trials at once: no replayer is left, and what was tried is kept."""
    trace = write_trace(tmp_path / "t.tare", many_objects(100_000))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tare", "minheap", "-m", "semispace", "--step", "4KiB"]
    search = subprocess.Popen(
        [*command, "--repeats", "9", "-o", str(out), str(trace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while len(kept_trials(out / TRIALS_FILE, "semispace")) < 3 and search.poll() is None:
        time.sleep(0.05)  # waiting for another process, as long as that runs
    search.terminate()
    _, errors = search.communicate()
    assert search.returncode == 130, errors
    assert b"Traceback" not in errors
    assert processes_with(str(out / ".work" / replayer.SCHEDULE_FILE)) == []
    assert len(kept_trials(out / TRIALS_FILE, "semispace")) >= 3


def test_the_defaults_can_all_be_had() -> None:
    resolved, baseline = replayer.managers_of(default_managers())
    assert baseline == "glibc"
    assert {"immix", "mimalloc", "marksweep(mimalloc, every=64KiB)"} <= set(resolved)


def test_the_command_shows_intervals_and_limits(tmp_path: Path, tare: Any) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(3_000, seed=11))
    done = tare(
        *("minheap", "-m", "immix", "-m", "markcompact", "--step", "64KiB", "--repeats", "1"),
        *("-o", str(tmp_path / "out"), "--json", str(tmp_path / "r.json"), str(trace)),
    )
    assert done.returncode == 0, done.stderr
    assert "no manager: the program's" in done.stdout
    assert "published" in done.stdout.lower()
    rows = json.loads((tmp_path / "r.json").read_text())["measurements"]
    found = {(row["manager"], row["metric"]): row["value"] for row in rows}
    for manager in ("immix", "markcompact"):
        low, high = (found[manager, f"min_heap_{end}_bytes"] for end in ("low", "high"))
        assert 0 <= low < high <= low + (64 << 10)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Minimum heaps" in page
    assert "replayed" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-m", "immix(heap=1MiB)"], "leave out heap="),
        (["--step", "1KiB"], "a page"),
        (["--repeats", "0"], "at least 1"),
        (["-m", "nothing"], "no manager"),
        (["--death", "last-use"], "--last-use"),
    ],
)
def test_wrong_usage(options: list[str], words: str, tmp_path: Path, tare: Any) -> None:
    trace = write_trace(tmp_path / "t.tare", objects_frame([{"birth": 10, "size": 8}]))
    done = tare("minheap", *options, "-o", str(tmp_path / "out"), str(trace))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_heap_that_is_sought_cannot_be_given(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.tare", objects_frame([{"birth": 10, "size": 8}]))
    with pytest.raises(UsageError):
        minheap(trace, ["semispace(heap=4MiB)"], folder=tmp_path / "out")


def test_published_ratios_are_those_of_the_table() -> None:
    found = published_ratios()
    assert list(found) == [
        "marksweep(mimalloc, every=128KiB)",
        "semispace",
        "gencopy",
        "immix",
    ]
    # Five of twelve need no more; xalan the most.
    assert found["marksweep(mimalloc, every=128KiB)"][1:] == pytest.approx((1.0, 13 / 11))
    # batik: 487/280; xalan: 18/11; fop: 41/21 is the largest.
    assert found["semispace"][2] == pytest.approx(53 / 27)
    assert found["immix"][1] == pytest.approx(24 / 25)
    assert all(least <= mean <= most for mean, least, most in found.values())
    assert len(published_heaps()) == 14


# ---- what a minimum heap goes to ----


def parts_of(outcome: Outcome) -> dict[str, float]:
    return {part: outcome.values[part] for part in PARTS if part in outcome.values}


def test_the_parts_of_a_least_heap_are_its_size(tmp_path: Path) -> None:
    """All 20,000 objects of 56 bytes live at the end, and cells are 64 bytes."""
    names = ["semispace", "gencopy", "immix", "markcompact", "freelist-marksweep"]
    results = minheap(known(tmp_path / "t.tare"), names, repeats=1, folder=tmp_path / "out")
    found = {r.run.manager: r.outcome for r in read_records(results.folder)}
    cells = 20_000 * (56 + 8)
    for name in names:
        values, parts = found[name].values, parts_of(found[name])
        assert sum(parts.values()) == values["min_heap_high_bytes"], name
        # The last collection is a little before the end.
        assert 0.9 * cells < parts["heap_live_bytes"] <= cells + 64, name
        copies = name in ("semispace", "gencopy")
        reserved = parts["heap_copy_reserve_bytes"]
        assert (reserved > 0.9 * cells) == copies, name
    assert found["semispace"].values["heap_fragmentation_bytes"] < 0.02 * cells
    # Its objects lie side by side as well, each with a word more.
    holes = found["markcompact"].values["heap_fragmentation_bytes"]
    assert holes == pytest.approx(20_000 * 8, rel=0.1)
    # Two bits for each word of the heap.
    assert found["markcompact"].values["heap_metadata_bytes"] > cells / 32


def test_holes_between_objects_are_fragmentation(tmp_path: Path) -> None:
    """Of objects of 112 bytes the first 15 of each 16 die before the next ones are born: what lives
    is scattered, and neither a free list of another size nor blocks can use the room between."""
    rows: list[dict[str, int]] = []
    for number in range(1, 30_001):
        last = {} if number % 16 == 0 else {"free": 10 * 30_001}
        rows.append({"birth": 10 * number, "size": 112} | last)
    for number in range(30_002, 32_000):
        rows.append({"birth": 10 * number, "size": 1000})
    trace = write_trace(tmp_path / "t.tare", objects_frame(rows))
    names = ["freelist-marksweep", "semispace"]
    results = minheap(trace, names, repeats=1, folder=tmp_path / "out")
    found = {r.run.manager: parts_of(r.outcome) for r in read_records(results.folder)}
    scattered = 30_000 * (112 + 8) * 15 / 16
    assert found["freelist-marksweep"]["heap_fragmentation_bytes"] > 0.5 * scattered
    assert found["semispace"]["heap_fragmentation_bytes"] < 0.05 * scattered


def test_the_peak_under_marksweep_is_live_objects_garbage_and_holes(tmp_path: Path) -> None:
    every = 256 << 10
    name = f"marksweep(glibc, every={every // 1024}KiB)"
    results = minheap(known(tmp_path / "t.tare"), [name], folder=tmp_path / "out")
    (outcome,) = (r.outcome for r in read_records(results.folder) if r.run.manager == name)
    parts = parts_of(outcome)
    assert sum(parts.values()) == outcome.values["peak_active_bytes"]
    # Half of what was born since the last collection is dead; all else lives.
    since = 2 * 20_000 * 56 % every
    assert parts["heap_live_bytes"] + parts["heap_garbage_bytes"] == pytest.approx(
        20_000 * 56 + max(since, every) / 2, rel=0.12
    )
    assert 0 < parts["heap_garbage_bytes"] <= every / 2 + 56
    # 64 bytes for 56, and what a page has no room for.
    assert parts["heap_fragmentation_bytes"] == pytest.approx(20_000 * 8, rel=0.35)


@pytest.mark.parametrize("reclaim", ["1", "3", "0"])
def test_what_is_known_to_be_dead_need_not_be_marked(reclaim: str, tmp_path: Path) -> None:
    objects, _ = tangled(20_000, seed=5)
    schedule = tmp_path / "schedule"
    compile_trace(open_trace(write_trace(tmp_path / "t.tare", objects)), How(), schedule)
    reports = []
    for more in ([], ["--untimed"]):
        report = tmp_path / "report.json"
        words = [str(native_file("bin/tare-replay")), "run", "--heap", "marksweep"]
        words += ["--every", "32768", "--reclaim", reclaim, *more, "--report", str(report)]
        subprocess.run([*words, str(schedule)], check=True, capture_output=True)
        found = json.loads(report.read_text())
        assert found["collections"] > 100
        times = ("seconds", "reserved_bytes")
        reports.append({name: found[name] for name in found if not name.endswith(times)})
    assert reports[0] == reports[1]
