"""Go programs under Go's collector: real runs, and what they must not be taken for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.manager import resolve
from tare.memory_managers.runtimes import go
from tare.records.metrics import Status
from tests.conftest import Completed
from tests.native.runtimes.runtime_programs import (
    DIGEST_OF_SMALL,
    SMALL,
    WORKLOADS,
    build_go,
    needs_go,
    run_once,
)

CHURN = """
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// Allocates so many MiB in pieces of 1 KiB and keeps so many; then does what a word says.
func main() {
	number := func(place int) int { found, _ := strconv.Atoi(os.Args[place]); return found }
	word := ""
	if len(os.Args) > 3 {
		word = os.Args[3]
	}
	if word == "percent" {
		debug.SetGCPercent(number(4))
	}
	kept := make([][]byte, number(2)*1024)
	for i := 0; i < number(1)*1024; i++ {
		piece := make([]byte, 1024)
		piece[i%1024] = byte(i)
		kept[(i*2654435761>>7)%len(kept)] = piece
	}
	var told runtime.MemStats
	switch word {
	case "tell":
		runtime.ReadMemStats(&told)
		text := fmt.Sprint(told.NumGC, " ", told.PauseTotalNs)
		os.WriteFile(os.Args[4], []byte(text), 0o644)
	case "force":
		runtime.GC()
		runtime.ReadMemStats(&told) // waits until the line of the collection is written
	case "exit":
		fmt.Fprintln(os.Stderr, "said by the program")
		os.Exit(number(4))
	}
	fmt.Println(len(kept))
}
"""


@pytest.fixture(scope="session")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("go")
    (folder / "churn.go").write_text(CHURN)
    return build_go(folder / "churn.go", folder / "churn")


@needs_go
def test_collections_and_pauses_are_those_that_go_counts(churn: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    outcome = run_once(tmp_path, "go.gogc", churn, "100", "2", "tell", told)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    values = outcome.values
    counted, nanoseconds = map(int, told.read_text().split())
    assert counted > 5
    assert 0 <= values["collections"] - counted <= 1
    assert values["pauses"] == 2 * values["collections"]
    # Go prints two digits of each pause.
    assert values["collector_seconds"] == pytest.approx(nanoseconds / 1e9, rel=0.1, abs=1e-3)
    assert values["mutator_seconds"] == pytest.approx(
        values["wall_seconds"] - values["collector_seconds"]
    )
    assert not {"collector_cpu_seconds", "pause_cpu_seconds"} & values.keys()
    assert 1 << 20 <= values["max_used_after_bytes"] <= 100 << 20


@needs_go
def test_the_heap_grows_as_it_is_told(churn: Path, tmp_path: Path) -> None:
    def collections(manager: str) -> float:
        outcome = run_once(tmp_path, manager, churn, "100", "4")
        assert (outcome.status, outcome.reason) == (Status.OK, "")
        return outcome.values["collections"]

    rarely, often = collections("go.gogc(gogc=400)"), collections("go.gogc(gogc=30)")
    assert often > 4 * rarely > 0
    assert collections("go.off") == 0
    assert collections("go.gogc(gogc=400, limit=12MiB)") > rarely


@needs_go
def test_a_soft_limit_that_is_not_kept_does_not_count(churn: Path, tmp_path: Path) -> None:
    kept = run_once(tmp_path, "go.limit(heap=48MiB)", churn, "200", "8")
    assert (kept.status, kept.reason) == (Status.OK, "")
    assert 0 < kept.values["collections"] <= 20
    assert kept.values["heap_bytes"] <= 48 << 20
    broken = run_once(tmp_path, "go.limit(heap=12MiB)", churn, "40", "24")
    assert broken.status is Status.OUT_OF_MEMORY
    assert "over the soft limit of 12 MiB" in broken.reason
    assert not broken.values


@needs_go
@pytest.mark.parametrize(
    ("manager", "percent"), [("go.gogc(gogc=30)", 400), ("go.gogc", 30), ("go.off", 100)]
)
def test_a_program_with_settings_of_its_own_does_not_count(
    churn: Path, tmp_path: Path, manager: str, percent: int
) -> None:
    outcome = run_once(tmp_path, manager, churn, "200", "8", "percent", str(percent))
    assert outcome.status is Status.NOT_LOADED
    assert "the program" in outcome.reason


@needs_go
def test_a_collection_that_the_program_asks_for_is_its_own(churn: Path, tmp_path: Path) -> None:
    outcome = run_once(tmp_path, "go.off", churn, "20", "2", "force")
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    assert outcome.values["collections"] == 1
    assert "heap_bytes" not in outcome.values  # Go has no goal then


@needs_go
def test_memory_time_and_a_failure_are_told_apart(churn: Path, tmp_path: Path) -> None:
    failed = run_once(tmp_path, "go.gogc", churn, "20", "2", "exit", "2")
    assert failed.status is Status.FAILED
    assert failed.error_tail == "said by the program\n"
    endless = run_once(tmp_path, "go.gogc", churn, "100000000", "2", timeout=0.5)
    assert endless.status is Status.TIMEOUT
    limited = ("sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh", churn, "1500", "1400")
    full = run_once(tmp_path, "go.off", *limited)
    assert full.status is Status.OUT_OF_MEMORY, full.error_tail
    assert "out of memory" in full.reason
    assert run_once(tmp_path, "go.gogc", "true").status is Status.NOT_LOADED


@needs_go
def test_pauses_lie_within_the_run_and_in_order(churn: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "runtime"
    folder.mkdir(parents=True)
    lines = [
        'GODEBUG: unknown cpu feature "tare"',
        "gc 1 @0.010s 8%: 0.20+5.4+0.008 ms clock, 0.41+1.7/0.74/0.10+0.016 ms cpu, "
        "3->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P",
        "of the program gc 2 @0.019s 7%: 0.14+62+0.21 ms clock, 0.28+0.74/0.31/0.085+0.43 ms cpu, "
        "3->5->2 MB, 4 MB goal, 1 MB stacks, 0 MB globals, 2 P (forced)",
        "gc 5 @0.09s 7%: 0.13+",
        "gc 9 @0.100s 7%: 1+2+3 ms clock, 1+1/1/1+1 ms cpu, 4->4->1 MB, 4 MB goal, 2 P",
    ]
    (folder.parent / "stderr").write_text("\n".join(lines))
    (folder / "started").write_text(str(10**9))
    (process,) = go.read_processes(folder)
    first, second, third = process.collections
    assert [each.cause for each in process.collections] == ["goal", "forced", "goal"]
    assert (first.start_ns, first.end_ns) == (1_010_000_000, 1_015_608_000)
    assert (second.used_before, second.used_after) == (3 << 20, 2 << 20)
    assert second.pause_ns == 350_000
    assert third.number == 2
    assert process.dropped == 6
    assert process.collector_cpu_ns is None  # what Go calls cpu is the wall time of its threads
    starts = [pause.start_ns for pause in process.pauses]
    assert starts == sorted(starts)
    assert [pause.collection for pause in process.pauses] == [0, 0, 1, 1, 2, 2]


def test_what_is_no_trace_shows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    path.write_bytes(
        b"gc 1 @0.0s\ngc 1 @" + b"9" * 999 + b".0s 1%: 1+1+1 ms clock, 1+1/1/1+1 ms cpu, "
        b"1->1->1 MB, 1 MB goal, 1 P\n" + b"\xff" * 100_000 + b"\ngc " + b"9" * 9000
    )
    traced = go.read_trace(path)
    assert not traced.begun
    assert not traced.collections
    assert not go.read_trace(tmp_path / "absent").begun


@needs_go
def test_the_command_line_compares_and_names_what_cannot_serve(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    program = build_go(WORKLOADS / "records.go", tmp_path / "records")
    done = tare(
        *("compare", "-m", "go.off", "-m", "go.gogc(gogc=50)", "-n", 2, "--warmup", 0),
        *("--json", "out.json", "--", program, *SMALL),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())["measurements"]
    collections = [(r["manager"], r["value"]) for r in rows if r["metric"] == "collections"]
    assert all((value > 0) == (manager != "go.off") for manager, value in collections)
    assert {manager for manager, _ in collections} == {"go.off", "go.gogc(gogc=50)"}
    refused = tare("compare", "-m", "glibc", "--", program)
    assert refused.returncode == 3
    assert "go.gogc" in refused.stderr
    clashing = tare(*("compare", "-m", "go.off", "--", program), env={**os.environ, "GOGC": "50"})
    assert clashing.returncode == 2
    assert "unset GOGC" in clashing.stderr


@needs_go
def test_the_work_is_that_of_the_other_languages(tmp_path: Path) -> None:
    program = build_go(WORKLOADS / "records.go", tmp_path / "records")
    run_once(tmp_path, "go.gogc", program, *SMALL)
    assert (tmp_path / "output").read_text() == f"{DIGEST_OF_SMALL}\n"


@needs_go
def test_the_overhead_of_a_sweep(tare: Callable[..., Completed], tmp_path: Path) -> None:
    """Without managers, Go's own sweep is tried, whose heaps are not in bytes."""
    program = build_go(WORKLOADS / "records.go", tmp_path / "records")
    done = tare(
        *("lbo", "-n", 2, "--warmup", 0, "--json", "out.json", "--no-page"),
        *("--", program, "8", "5000", "20000"),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out.json").read_text())["summary"]
    for metric in ("lbo_wall_ratio", "lbo_cpu_ratio"):
        ratios = {row["manager"]: row["median"] for row in summary if row["metric"] == metric}
        assert set(ratios) == set(go.SWEEP)
        assert all(ratio >= 1 for ratio in ratios.values())


@needs_go
def test_the_least_soft_limit(tare: Callable[..., Completed], tmp_path: Path, churn: Path) -> None:
    """16 MiB live, in pieces of 1 KiB."""
    done = tare(
        *("minheap", "--repeats", 1, "--step", "4MiB", "--json", "out.json", "--no-page"),
        *("--", churn, "60", "16"),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())["measurements"]
    (low,) = (row["value"] for row in rows if row["metric"] == "min_heap_low_bytes")
    (high,) = (row["value"] for row in rows if row["metric"] == "min_heap_high_bytes")
    assert 0 < low < high
    assert 16 << 20 < high <= 40 << 20


@pytest.mark.parametrize(
    ("command", "manager", "said"),
    [
        ("minheap", "go.off", "never collects"),
        ("minheap", "go.gogc", "-m go.limit"),
        ("frequency", "go.gogc", "period"),
        ("proximity", "go.gogc", "when exactly"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(
    tare: Callable[..., Completed], command: str, manager: str, said: str
) -> None:
    done = tare(command, "-m", manager, "--", "true")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    "name", ["go.none", "go.off(heap=1MiB)", "go.gogc(gogc=0)", "go.limit(heap=0.1x)"]
)
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        resolve(name)
