"""Python programs under CPython's collector: real runs, and what they must not be taken for."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.manager import resolve
from tare.memory_managers.runtimes import cpython
from tare.observers import tracing
from tare.observers.asked import Asked
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tests.conftest import Completed
from tests.native.runtimes.runtime_programs import (
    DIGEST_OF_SMALL,
    PYTHON,
    SMALL,
    WORKLOADS,
    needs_python,
    run_once,
)

RECORDS = str(WORKLOADS / "records.py")
CYCLES = """
import gc, sys
counts = lambda: [each["collections"] for each in gc.get_stats()]
before = counts()
for _ in range(int(sys.argv[1])):
    node = []
    node.append(node)
if len(sys.argv) > 2:
    found = [now - then for now, then in zip(counts(), before)]
    open(sys.argv[2], "w").write(" ".join(map(str, found)))
"""


@needs_python
def test_collections_are_those_that_cpython_counts(tmp_path: Path) -> None:
    told = tmp_path / "told"
    outcome = run_once(tmp_path, "cpython.gc", str(PYTHON), "-c", CYCLES, "300000", told)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    counted = list(map(int, told.read_text().split()))
    values = outcome.values
    assert 20 < sum(counted) <= values["collections"]
    if sys.version_info >= (3, 14):
        # It does not count steps that only mark. One is due for each 2,000 objects more.
        assert values["collections"] == pytest.approx(150, abs=4)
    else:
        # Some more come between the loading of the observer and the program, and one at the end.
        assert values["collections"] <= sum(counted) + 4
    assert counted[2] <= values["full_collections"] <= counted[2] + 1
    assert 0 < values["collector_seconds"] < values["wall_seconds"]
    assert values["pause_cpu_seconds"] == values["collector_cpu_seconds"] > 0
    (process,) = outcome.details["cpython"]["processes"]
    assert process["ended"]
    assert process["dropped"] == 0


@needs_python
def test_the_threshold_is_kept(tmp_path: Path) -> None:
    def collections(manager: str) -> float:
        outcome = run_once(tmp_path, manager, str(PYTHON), "-c", CYCLES, "50000")
        assert (outcome.status, outcome.reason) == (Status.OK, "")
        return outcome.values["collections"]

    assert collections("cpython.gc(threshold=1000)") == pytest.approx(50, abs=3)
    assert collections("cpython.gc(threshold=10000)") == pytest.approx(5, abs=2)
    # Since 3.14 it tells of the one at the end, too.
    assert collections("cpython.off") == (sys.version_info >= (3, 14))


@needs_python
def test_each_object_comes_from_the_allocator_that_is_named(tmp_path: Path) -> None:
    code = "kept = [[i] for i in range(50_000)]"

    def objects(manager: str) -> int:
        program, traced = Program("test", (str(PYTHON), "-c", code)), tmp_path / "t.tare"
        what = Asked(last_use=False, sites=False, pointers=False)
        outcome = tracing.run_once(
            program, resolve(manager), Limits(), wanted=tracing.Wanted(traced, what)
        )
        assert (outcome.status, outcome.reason) == (Status.OK, "")
        return int(outcome.details["trace"]["objects"])

    assert objects("cpython.malloc(jemalloc)") >= objects("jemalloc") + 100_000
    outcome = run_once(tmp_path, "cpython.malloc", "sh", "-c", f"env -u PYTHONMALLOC {PYTHON} -c 0")
    assert outcome.status is Status.NOT_LOADED
    assert "pymalloc serves process" in outcome.reason


@pytest.mark.parametrize("text", ["cpython.malloc(cpython.gc)", "cpython.malloc(size=1)"])
def test_what_is_below_must_be_an_allocator(text: str) -> None:
    with pytest.raises(UsageError):
        resolve(text)


def test_the_allocator_below_is_in_the_name() -> None:
    assert resolve("cpython.malloc").name == "cpython.malloc(glibc)"
    assert resolve("cpython.malloc( glibc(tcache=0) )").name == "cpython.malloc(glibc(tcache=0))"


@needs_python
@pytest.mark.parametrize(
    ("manager", "code", "said"),
    [
        ("cpython.off", "gc.enable()", "turned the collector"),
        ("cpython.gc", "gc.disable()", "turned the collector"),
        ("cpython.gc(threshold=5000)", "gc.set_threshold(9)", "set the threshold"),
        ("cpython.gc", "gc.callbacks.clear(); gc.collect(); gc.collect()", "were not seen"),
    ],
)
def test_a_program_with_settings_of_its_own_does_not_count(
    tmp_path: Path, manager: str, code: str, said: str
) -> None:
    outcome = run_once(tmp_path, manager, str(PYTHON), "-c", f"import gc; {code}")
    assert outcome.status is Status.NOT_LOADED
    assert said in outcome.reason


@needs_python
def test_a_fork_has_collections_of_its_own(tmp_path: Path) -> None:
    code = """
import gc, os
gc.collect()
child = os.fork()
if child == 0:
    for _ in range(5): gc.collect()
    os._exit(0)
os.waitpid(child, 0)
"""
    outcome = run_once(tmp_path, "cpython.gc", str(PYTHON), "-c", code)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    seen = outcome.details["cpython"]["processes"]
    assert sorted(each["ended"] for each in seen) == [False, True]
    (child,) = (each for each in seen if not each["ended"])
    assert child["collections"] == 5


@needs_python
def test_memory_and_a_failure_are_told_apart(tmp_path: Path) -> None:
    limited = ("sh", "-c", 'ulimit -v 400000; exec "$@"', "sh", str(PYTHON), "-c")
    full = run_once(tmp_path, "cpython.gc", *limited, "x = bytearray(1 << 30)")
    assert full.status is Status.OUT_OF_MEMORY
    assert full.reason == "MemoryError"
    failed = run_once(tmp_path, "cpython.gc", str(PYTHON), "-c", "raise SystemExit(1)")
    assert failed.status is Status.FAILED
    assert run_once(tmp_path, "cpython.gc", "true").status is Status.NOT_LOADED
    script = tmp_path / "isolated"
    script.write_text(f"#!/bin/sh\nexec {PYTHON} -I -c pass\n")
    script.chmod(0o755)
    assert run_once(tmp_path, "cpython.gc", script).status is Status.NOT_LOADED


@needs_python
def test_the_program_sees_the_search_path_and_site_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.of_the_user = 42")
    code = "import sys; print(of_the_user, [path for path in sys.path if 'tare' in path])"
    outcome = run_once(
        *(tmp_path, "cpython.gc", str(PYTHON), "-c", code), environment={"PYTHONPATH": str(own)}
    )
    assert (outcome.status, outcome.error_tail) == (Status.OK, "")
    assert (tmp_path / "output").read_text() == "42 []\n"


@needs_python
def test_the_work_is_that_of_the_other_languages(tmp_path: Path) -> None:
    run_once(tmp_path, "cpython.gc", str(PYTHON), RECORDS, *SMALL)
    assert (tmp_path / "output").read_text() == f"{DIGEST_OF_SMALL}\n"


@needs_python
def test_the_overhead_of_a_sweep(tare: Callable[..., Completed], tmp_path: Path) -> None:
    done = tare(
        *("lbo", "-n", 2, "--warmup", 0, "--json", "out.json", "--no-page"),
        *("--", str(PYTHON), RECORDS, "7", "1000", "4000"),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out.json").read_text())["summary"]
    for metric in ("lbo_wall_ratio", "lbo_cpu_ratio"):
        ratios = {row["manager"]: row["median"] for row in summary if row["metric"] == metric}
        assert set(ratios) == set(cpython.SWEEP)
        assert all(ratio >= 1 for ratio in ratios.values())


@needs_python
def test_events_are_told_apart_by_their_distance(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    """60 lists an event, so that a collection comes after some 83 of them."""
    (tmp_path / "events.py").write_text("""
import os, struct, time
record, events = struct.Struct("<6q"), []
for _ in range(2500):
    start = time.monotonic_ns()
    for _ in range(60):
        cycle = []
        cycle.append(cycle)
    events.append((1, start, time.monotonic_ns() - start, 0, 1, 1))
folder = os.environ.get("TARE_EVENTS")
if folder:
    head = 0x3154564545524154, len(events), 1, 0, 0, len(events)
    with open(f"{folder}/events-{os.getpid()}", "wb") as file:
        file.write(b"".join(record.pack(*each) for each in (head, *events)))
""")
    done = tare(
        *("proximity", "-m", "cpython.gc(threshold=5000)", "-n", 1, "--no-page"),
        *("--json", "out.json", "--", str(PYTHON), "events.py"),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    rows = json.loads((tmp_path / "out.json").read_text())["measurements"]
    values = {row["metric"]: row["value"] for row in rows}
    assert values["events"] == 1250  # the second half of them
    assert 13 <= values["pauses"] <= 18
    assert {"after_1_ratio", "after_20_ratio"} <= values.keys()


def test_rows_that_cannot_be_end_the_file(tmp_path: Path) -> None:
    row = struct.Struct("<qqqii").pack
    facts = {
        "pid": 7,
        "version": "3.11",
        "enabled": True,
        "threshold": 700,
        "collections": 3,
        "ended": True,
        "pymalloc_blocks": 0,
    }
    (tmp_path / "7.process").write_text(json.dumps(facts))
    rows = [row(100, 150, 40, 0, 3), row(200, 300, 90, 2, 1), row(500, 400, 1, 0, 0)]
    (tmp_path / "7.collections").write_bytes(b"".join(rows) + b"\0" * 100)
    (process,) = cpython.read_processes(tmp_path)
    assert [each.kind for each in process.collections] == ["young", "full"]
    assert process.collector_cpu_ns == 130
    assert process.dropped == 1
    (tmp_path / "7.process").write_text("{")
    assert not cpython.read_processes(tmp_path)


@pytest.mark.parametrize("words", [["-I", "x.py"], ["-Es", "x.py"], ["-u", "-S", "-c", "pass"]])
def test_options_under_which_nothing_can_be_seen_are_refused(words: list[str]) -> None:
    setting = resolve("cpython.off").runtime
    assert setting is not None
    with pytest.raises(UsageError, match="does not load"):
        cpython.check(setting, Program("test", ("python3.11", *words)))
    cpython.check(setting, Program("test", ("python3", "x.py", *words)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["minheap", "-m", "cpython.gc", "--", "true"], "no limit for its heap"),
        (["minheap", "-m", "cpython.off", "--", "true"], "never collects"),
        (["minheap", "--", "python3", "x.py"], "CPython has no limit"),
        (["frequency", "-m", "cpython.gc", "--", "true"], "period"),
        (["compare", "-m", "cpython.gc(heap=1MiB)", "--", "true"], "has no option 'heap'"),
        (["compare", "-m", "cpython.gc(threshold=0)", "--", "true"], "above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tare: Callable[..., Completed], arguments: list[str], said: str
) -> None:
    done = tare(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
