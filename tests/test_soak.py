"""Long runs, behind `make soak`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import tare
from tare.trace import open_trace
from tests.test_cli import start

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
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
        process.communicate(timeout=60)
        deadline = time.monotonic() + 10
        while subprocess.run(["pgrep", "-f", "sleep 0.0123456"], capture_output=True).stdout:
            assert time.monotonic() < deadline, "a program outlived an interruption"
            time.sleep(0.05)
        now = log.read_text() if log.exists() else ""
        whole = now[: now.rfind("\n") + 1]
        assert whole.startswith(kept), "a finished run was lost"
        kept = whole
    process = start(*arguments, cwd=tmp_path)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(records) == 450
    assert sorted(r["order"] for r in records) == list(range(1, 451))


def test_every_manager_runs_every_kernel_again_and_again(tmp_path: Path) -> None:
    programs = tare.suite_programs("kernels")
    installed = tare.managers().filter("installed")["name"].to_list()
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
