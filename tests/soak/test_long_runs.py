"""Long runs, behind `make soak`.

TARE_SOAK_SECONDS is the time that the layers take, all allocators together: an hour by default.
TARE_SOAK_MILLION_OBJECTS is the length of the generated heap trace: 500 by default.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

import polars as pl
import pytest

import tare
from tare.heap_traces.trace import open_trace
from tare.memory_managers.catalogue import load_recipes, object_path
from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.programs.suite import workloads_folder
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Limits, Outcome
from tests.end_to_end.test_cli import start
from tests.native.managers.delay_fuzzer import fuzz_sanitized, sanitized_fuzzer
from tests.support import SUPPORT
from tests.support.traces import regular_totals, write_regular_trace

pytestmark = pytest.mark.timeout(3600)
INTERRUPTIONS = 60


def test_interruptions_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    """The same study, interrupted again and again by different signals, ends complete."""
    arguments = ("compare", "-n", "150", "--warmup", "0", "--no-page", "--quiet", "-m", "glibc",
                 "-m", "glibc(tcache=0)", "-o", "r", "--",
                 "sh", "-c", "sleep 0.0123456")  # fmt: skip
    log = tmp_path / "r" / "runs.jsonl"
    moments = random.Random(1)
    kept = ""
    for _ in range(INTERRUPTIONS):
        process = start(*arguments, cwd=tmp_path)
        time.sleep(moments.uniform(0.1, 1.2))  # the moment of interruption is what is tested
        process.send_signal(moments.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
        process.communicate()
        deadline = time.monotonic() + 10
        while subprocess.run(["pgrep", "-f", "sleep 0.0123456"], capture_output=True).stdout:
            assert time.monotonic() < deadline, "a program outlived an interruption"
            time.sleep(0.05)
        now = log.read_text() if log.exists() else ""
        whole = now[: now.rfind("\n") + 1]
        assert whole.startswith(kept), "a finished run was lost"
        kept = whole
    process = start(*arguments, cwd=tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(records) == 450
    assert sorted(r["order"] for r in records) == list(range(1, 451))


def test_every_manager_runs_every_kernel_again_and_again(tmp_path: Path) -> None:
    programs = tare.suite_programs("kernels")
    there = tare.managers().filter(pl.col("installed"), pl.col("kind") != "classic")
    installed = there["name"].to_list()
    results = tare.compare(programs, installed, runs=3, folder=tmp_path / "r")
    bad = results.measurements.filter(results.measurements["status"] != "ok")
    assert bad.select("program", "manager", "status").unique().rows() == []


MILLIONS = 100
MOST_MEMORY_KILOBYTES = 600_000
OBJECTS = f"""
#include <stdlib.h>
int main(void) {{
  static char* live[1000];
  unsigned random = 1;
  for (long i = 0; i < {MILLIONS}000000L; ++i) {{
    random = random * 1664525u + 1013904223u;
    char** slot = &live[(random >> 8) % 1000];
    free(*slot);
    *slot = malloc(16 + (random >> 24));
    if (random >> 31) **slot = 1;
  }}
}}
"""


def test_a_hundred_million_objects_take_bounded_memory_and_space(tmp_path: Path) -> None:
    """In the tool while it records, in the conversion, and in the analysis."""
    (tmp_path / "objects.c").write_text(OBJECTS)
    subprocess.run(["cc", "-O1", "-o", "objects", "objects.c"], cwd=tmp_path, check=True)
    for words in (("trace", "--last-use", "-o", "t.tare", "--", "./objects"),
                  ("drag", "--quiet", "-o", "r", "t.tare")):  # fmt: skip
        process = start(*words, cwd=tmp_path)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0, words
        assert usage.ru_maxrss < MOST_MEMORY_KILOBYTES, words
    trace = open_trace(tmp_path / "t.tare")
    assert trace.meta["objects"] >= MILLIONS * 1_000_000
    assert trace.meta["complete"]
    size = sum(file.stat().st_size for file in (tmp_path / "t.tare").iterdir())
    assert size < 12 * trace.meta["objects"]


GENERATED_MILLIONS = int(os.environ.get("TARE_SOAK_MILLION_OBJECTS", "500"))


def test_a_generated_trace_larger_than_memory_is_analysed_in_bounded_memory(tmp_path: Path) -> None:
    """Every sum of it is known; its peak is that of a short one, for it repeats itself."""
    count = GENERATED_MILLIONS * 1_000_000
    write_regular_trace(tmp_path / "t.tare", count)
    write_regular_trace(tmp_path / "short.tare", 200_000)
    found = []
    for name in ("t", "short"):
        process = start("drag", "--quiet", "--no-page", "-o", name, f"{name}.tare", cwd=tmp_path)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        assert usage.ru_maxrss < MOST_MEMORY_KILOBYTES
        (record,) = read_records(tmp_path / name)
        found.append(record.outcome)
    whole, short = found
    totals, expected = whole.details["totals"], regular_totals(count)
    assert {name: totals[name] for name in expected} == expected
    assert whole.details["peaks"] == short.details["peaks"]
    assert whole.values["drag_ratio"] == pytest.approx(short.values["drag_ratio"], rel=0.02)
    exported = start("export", "-f", "collapsed", "--weight", "objects", "-o", "stacks", "t.tare",
                     cwd=tmp_path)  # fmt: skip
    _, status, usage = os.wait4(exported.pid, 0)
    assert status == 0
    assert usage.ru_maxrss < MOST_MEMORY_KILOBYTES
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == count


# The layers

SOAK_SECONDS = float(os.environ.get("TARE_SOAK_SECONDS", "3600"))
FORKED_SECONDS = 4
LINES = 200_000
VARIANTS = {
    "delay": (
        "size=64KiB",
        "size=1B",
        "size=1MiB, scope=global",
        "size=64KiB, order=lifo, buffer=40KiB, realloc=pass",
        "size=16KiB, poison=yes",
        "size=1GiB",
    ),
    "marksweep": (
        "free=quarantine",
        "free=honour, every=1MiB",
        "free=quarantine, every=256KiB, markers=2",
        "free=ignore, every=4MiB",
    ),
}
INNERS = [
    recipe.name
    for recipe in load_recipes().values()
    if recipe.kind in ("malloc", "system")
    and (recipe.kind == "system" or object_path(recipe) is not None)
]
FUZZ_SECONDS = SOAK_SECONDS / 20  # for each sanitizer
NOT_TRIED = {
    ("hoard", "forks"): "bare hoard hangs now and then in a child of a process with threads",
}
SHARE_SECONDS = (SOAK_SECONDS - 2 * FUZZ_SECONDS) / (len(VARIANTS) * len(INNERS))


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Program]]:
    """Programs that print the same in each run, and fail when an object has lost its contents."""
    folder = tmp_path_factory.mktemp("soak")
    programs = SUPPORT / "programs"
    words = random.Random(1)
    (folder / "lines").write_text(
        "".join(f"{words.getrandbits(40):x} {'x' * words.randrange(30)}\n" for _ in range(LINES))
    )
    subprocess.run(
        [sys.executable, workloads_folder() / "c" / "make_source.py", folder / "large.c", "60"],
        check=True,
    )
    subprocess.run(
        ["cc", "-O1", "-pthread", "-o", folder / "forks", programs / "forks.c"], check=True
    )
    servers = str(workloads_folder() / "servers")
    yield [
        Program("gcc", ("gcc", "-O2", "-fno-ident", "-S", "-o", "-", str(folder / "large.c"))),
        Program(
            "sort",
            ("sort", "--parallel=4", "-S", "6M", "-T", str(folder), str(folder / "lines")),
            environment={"LC_ALL": "C"},
        ),
        Program("forks", (str(folder / "forks"), str(FORKED_SECONDS))),
        Program(
            "redis",
            ("python3", "-B", str(programs / "redis_load.py"), "1", "3000"),
            environment={"PYTHONPATH": servers},
            scratch=True,
        ),
    ]
    shutil.rmtree(folder)


def run_under(program: Program, manager: str, folder: Path) -> Outcome:
    return run_once(program, resolve(manager), Limits(), folder)


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("layer", VARIANTS)
def test_real_programs_for_a_long_time(
    layer: str, inner: str, workload: list[Program], tmp_path: Path
) -> None:
    """No crash, no lost object, and the same output; each program by itself under the bare
    allocator first."""
    outputs = {}
    for program in workload:
        if (inner, program.name) in NOT_TRIED:
            print(f"left out: {program.name}, {NOT_TRIED[inner, program.name]}")
            continue
        bare = run_under(program, inner, tmp_path)
        assert bare.status is Status.OK, (program.name, inner, bare.reason, bare.error_tail)
        outputs[program.name] = bare.output_sha256
    runs = collections = 0
    deadline = time.monotonic() + SHARE_SECONDS
    for variant in cycle(VARIANTS[layer]):
        for program in workload:
            if program.name not in outputs:
                continue
            manager = f"{layer}({inner}, {variant})"
            outcome = run_under(program, manager, tmp_path)
            what = f"{program.name} under {manager}"
            assert outcome.status is Status.OK, (what, outcome.reason, outcome.error_tail)
            assert outcome.output_sha256 == outputs[program.name], what
            runs += 1
            collections += int(outcome.values["collections"])
        if time.monotonic() > deadline:
            break
    assert runs
    assert collections
    print(f"{layer}({inner}): {runs} runs, {collections} collections")


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_random_calls_for_a_long_time(tmp_path: Path, sanitizer: str) -> None:
    fuzzer = sanitized_fuzzer(tmp_path, sanitizer)
    deadline = time.monotonic() + FUZZ_SECONDS
    for seed in count(1):
        fuzz_sanitized(fuzzer, seed, operations=3000)
        if time.monotonic() > deadline:
            print(f"{sanitizer}: {seed} seeds")
            return
