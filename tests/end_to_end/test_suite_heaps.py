"""A suite under heaps that are multiples of each program's own minimum heap."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Completed
from tests.native.runtimes.test_jvm import CHURN

SUITE = """
schema = 1
name = "churns"
description = "the same program with little and with more in its heap"
[[program]]
name = "little"
description = "x"
command = ["java", "-cp", "{suite}", "Churn", "40", "4"]
[[program]]
name = "more"
description = "x"
command = ["java", "-cp", "{suite}", "Churn", "40", "24"]
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="no javac (package openjdk-17-jdk)")
def test_each_program_has_a_multiple_of_its_own_least_heap(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    (tmp_path / "Churn.java").write_text(CHURN)
    subprocess.run(["javac", "Churn.java"], cwd=tmp_path, check=True)
    (tmp_path / "churns.toml").write_text(SUITE)
    manager = "jvm.serial(heap=2x)"
    arguments = ("suite", "run", "churns.toml", "-m", manager, "-n", 1, "--warmup", 0,
                 "-o", "r", "--no-page", "--quiet")  # fmt: skip
    done = tare(*arguments)
    assert done.returncode == 0, done.stderr
    heaps = json.loads((tmp_path / "r" / "run.json").read_text())["heaps"][manager]
    assert heaps["little"]["least_bytes"] < heaps["more"]["least_bytes"]
    lines = (tmp_path / "r" / "runs.jsonl").read_text().splitlines()
    for record in map(json.loads, lines):
        heap = heaps[record["program"]]
        assert heap["heap_bytes"] == 2 * heap["least_bytes"]
        assert record["values"]["heap_bytes"] == heap["heap_bytes"]
    searches = list((tmp_path / "r-least-heaps").iterdir())
    assert len(searches) == 2
    before = [(search / "runs.jsonl").read_text() for search in searches]
    # Again: the searches and the study are done, and nothing is run.
    assert tare(*arguments).returncode == 0
    assert [(search / "runs.jsonl").read_text() for search in searches] == before
    assert (tmp_path / "r" / "runs.jsonl").read_text().splitlines() == lines
