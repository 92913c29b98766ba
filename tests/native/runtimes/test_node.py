"""Node programs under V8's collector: real runs, and what they must not be taken for."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.memory_managers.runtimes import node
from tare.records.metrics import Status
from tests.conftest import Completed
from tests.native.runtimes.runtime_programs import (
    DIGEST_OF_SMALL,
    SMALL,
    WORKLOADS,
    needs_node,
    run_once,
)

RECORDS = str(WORKLOADS / "records.js")
HOLDS = """
const kept = new Map();
for (let i = 0; i < Number(process.argv[2]) * 1000; ++i) {
  kept.set(i % (Number(process.argv[3]) * 1000), { key: i, words: [i, i + 1], text: `w${i}` });
}
console.log(kept.size);
if (process.argv[4]) process.exit(Number(process.argv[4]));
"""


@pytest.fixture
def holds(tmp_path: Path) -> Path:
    """Makes so many thousand records, and keeps so many thousand."""
    path = tmp_path / "holds.js"
    path.write_text(HOLDS)
    return path


@needs_node
def test_collections_are_those_that_v8_tells(tmp_path: Path) -> None:
    """Its own trace goes to standard output, which is why it is not used."""
    outcome = run_once(
        tmp_path,
        "node.v8(heap=64MiB)",
        *("node", "--trace-gc", RECORDS, "4", "5000", "120000"),
    )
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    values = outcome.values
    told = (tmp_path / "output").read_text()
    young, full = len(re.findall(r" ms: Scavenge", told)), len(re.findall(r" ms: Mark-", told))
    assert young > 3
    assert values["collections"] == young + full
    assert values["full_collections"] == full
    milliseconds = [float(each) for each in re.findall(r" MB, ([\d.]+) / [\d.]+ ms", told)]
    assert len(milliseconds) == young + full
    # V8's figure leaves out what its embedder does around a collection.
    assert values["collector_seconds"] >= 0.9 * sum(milliseconds) / 1e3
    assert 64 << 20 <= values["heap_bytes"] <= (64 + 3 * 64) << 20
    assert 0 < values["pause_cpu_seconds"] <= values["collector_seconds"] * 1.1
    (process,) = outcome.details["node"]["processes"]
    assert process["ended"]
    assert process["version"].count(".") == 2


@needs_node
def test_smaller_semi_spaces_are_more_collections(tmp_path: Path) -> None:
    command = ("node", RECORDS, "2", "5000", "60000")
    small = run_once(tmp_path, "node.v8(heap=64MiB, semi=1MiB)", *command)
    if "not allowed in NODE_OPTIONS" in small.reason:
        pytest.skip(f"this Node is too old: {small.reason}")
    assert (small.status, small.reason) == (Status.OK, "")
    assert small.values["heap_bytes"] == 67 << 20
    large = run_once(tmp_path, "node.v8(heap=64MiB, semi=16MiB)", *command)
    assert large.values["heap_bytes"] == (64 + 3 * 16) << 20
    assert small.values["collections"] > large.values["collections"] > 0


@needs_node
def test_a_process_that_exits_at_once_keeps_its_collections(holds: Path, tmp_path: Path) -> None:
    outcome = run_once(tmp_path, "node.v8", "node", holds, "200", "2", "0")
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    assert outcome.values["collections"] > 0


@needs_node
def test_all_processes_below_a_script_are_seen(holds: Path, tmp_path: Path) -> None:
    script = tmp_path / "a script"
    script.write_text(f'#!/bin/sh\nnode "{holds}" 100 2\nnode "{holds}" 100 2\n')
    script.chmod(0o755)
    outcome = run_once(
        tmp_path, "node.v8", script, environment={node.VARIABLE: "--stack-trace-limit=5"}
    )
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    assert len(outcome.details["node"]["processes"]) == 2


@needs_node
def test_memory_time_and_a_failure_are_told_apart(holds: Path, tmp_path: Path) -> None:
    full = run_once(tmp_path, "node.v8(heap=16MiB)", "node", holds, "400", "300")
    assert full.status is Status.OUT_OF_MEMORY
    assert "out of memory" in full.reason
    tiny = run_once(tmp_path, "node.v8(heap=1MiB)", "node", holds, "1", "1")
    assert tiny.status is Status.OUT_OF_MEMORY
    failed = run_once(tmp_path, "node.v8", "node", holds, "1", "1", "7")
    assert (failed.status, failed.exit_code) == (Status.FAILED, 7)
    aborted = run_once(tmp_path, "node.v8", "node", "--eval", "process.abort()")
    assert aborted.status is Status.FAILED
    said = "console.error('JavaScript heap out of memory'); process.exit(1)"
    assert run_once(tmp_path, "node.v8", "node", "--eval", said).status is Status.FAILED
    endless = run_once(tmp_path, "node.v8", "node", "--eval", "for (;;);", timeout=1)
    assert endless.status is Status.TIMEOUT
    assert run_once(tmp_path, "node.v8", "true").status is Status.NOT_LOADED


@needs_node
def test_another_heap_than_asked_for_does_not_count(holds: Path, tmp_path: Path) -> None:
    """Options that Tare cannot see before: a script adds them."""
    script = tmp_path / "larger"
    script.write_text(f'#!/bin/sh\nexec node "$@" "{holds}" 1 1\n')
    script.chmod(0o755)
    larger = run_once(tmp_path, "node.v8(heap=64MiB)", script, "--max-old-space-size=512")
    assert larger.status is Status.NOT_LOADED
    assert "--max-old-space-size=512" in larger.reason
    setter = "require('v8').setFlagsFromString('--max-heap-size=900')"
    outcome = run_once(tmp_path, "node.v8(heap=64MiB)", "node", "--eval", setter)
    assert outcome.status in (Status.NOT_LOADED, Status.OK)
    if outcome.status is Status.OK:  # V8 does not change the heap of a process that runs
        assert outcome.values["heap_bytes"] <= (64 + 3 * 64) << 20
    refused = run_once(tmp_path, "node.v8", "node", "--no-such-option", holds)
    assert refused.status is Status.NOT_LOADED
    assert "no-such-option" in refused.reason


@needs_node
def test_the_work_is_that_of_the_other_languages(tmp_path: Path) -> None:
    run_once(tmp_path, "node.v8", "node", RECORDS, *SMALL)
    assert (tmp_path / "output").read_text() == f"{DIGEST_OF_SMALL}\n"


@needs_node
def test_least_heap_and_overhead(tare: Callable[..., Completed], tmp_path: Path) -> None:
    """Some 16 MiB live; without managers, those of Node are tried, in multiples of that."""
    done = tare(
        *("lbo", "-m", "node.v8", "--heaps", "4", "-n", 2, "--warmup", 0, "-o", "r"),
        *("--json", "out.json", "--", "node", RECORDS, "7", "5000", "30000"),
    )
    assert done.returncode == 0, done.stderr
    assert "the minimum heap of node.v8" in done.stdout
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert 3 << 20 <= run["least_heap_bytes"] <= 64 << 20
    summary = json.loads((tmp_path / "out.json").read_text())["summary"]
    ratios = [row["median"] for row in summary if row["metric"].startswith("lbo_")]
    assert len(ratios) == 2
    assert all(ratio >= 1 for ratio in ratios)


def test_a_period_in_bytes_is_refused(tare: Callable[..., Completed]) -> None:
    done = tare("frequency", "-m", "node.v8", "--", "true")
    assert done.returncode == 2, done.stderr
    assert "period" in done.stderr


def test_the_environment_may_not_clash_either(tare: Callable[..., Completed]) -> None:
    environment = {**os.environ, node.VARIABLE: "--max-old-space-size=9"}
    done = tare("compare", "-m", "node.v8(heap=64MiB)", "--", "true", env=environment)
    assert done.returncode == 2
    assert "--max-old-space-size=9" in done.stderr
