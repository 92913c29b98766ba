"""Long runs, behind `make soak`."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import tare
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
