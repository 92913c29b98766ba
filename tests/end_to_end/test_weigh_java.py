"""`tare weigh` of Java programs: whole bills."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.answers.building import build_report
from tare.records.results import load, read_records
from tare.studies.compare import weigh as time_and_memory
from tare.studykit.budget import TOTAL_SECONDS, Effort
from tare.weighing import java_bill
from tare.weighing.bill import failed
from tare.weighing.sections import java_least_heap, sections
from tests.conftest import Completed
from tests.native.runtimes.test_jvm import classes, needs_java

__all__ = ["classes"]


# ---- whole bills ----


def parts(folder: Path) -> dict[str, Any]:
    return {each.identifier: each for each in build_report(load(folder)).sections}


@needs_java
def test_a_bill(classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MiB live, with a collector and a heap of the command's own; and time for all sections,
    however busy the machine is."""
    monkeypatch.setitem(TOTAL_SECONDS, Effort.QUICK, 10_000.0)
    monkeypatch.setitem(time_and_memory._MOST_RUNS, Effort.QUICK, 3)
    command = ["java", "-XX:+UseSerialGC", "-Xmx100m", "-cp", str(classes), "Churn", "100", "8"]
    managers = ["jvm.serial", "jvm.parallel"]
    results = api.weigh(command, managers, effort=Effort.QUICK, folder=tmp_path / "r")
    assert not failed(results)
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert run["baseline"] == "jvm.serial"
    assert run["java"]["left_out"] == {"collector": ["-XX:+UseSerialGC"], "heap": ["-Xmx100m"]}
    found = parts(tmp_path / "r")
    assert set(found) == {each.IDENTIFIER for each in sections(java_bill.RUNTIME)}
    least = java_least_heap.least_bytes(read_records(tmp_path / "r"))
    assert least is not None
    assert 8 << 20 < least <= 24 << 20
    heaps = found["java-least-heap"]
    assert any("-Xmx100m is not used" in each for each in heaps.findings)
    pauses = found["java-pauses"]
    assert pauses.findings[0].startswith("It allocates 10")
    assert " MiB in a run" in pauses.findings[0]
    assert pauses.figures[0].identifier == "java-pauses"
    named = {column.title for column in pauses.tables[0].columns}
    assert {"longest pause", "share", "allocated a second"} <= named
    assert "jvm.serial" in found["java-costs"].findings[0]
    assert "in 2 minimum heaps" in found["java-costs"].findings[0]
    assert all(each.TITLE in found["java-malloc"].findings[1] for each in sections())
    assert api.write_page(results).stat().st_size < 3 << 20


@needs_java
def test_the_bill_of_what_is_no_jvm(tare: Callable[..., Completed]) -> None:
    done = tare("weigh", "--quick", "-m", "jvm.g1", "-o", "r", "--", "true")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no JVM could be observed" in " ".join(done.stderr.split())


@needs_java
def test_the_bill_of_a_program_that_fails(
    tare: Callable[..., Completed], classes: Path, tmp_path: Path
) -> None:
    done = tare(
        *("weigh", "--quick", "-m", "jvm.serial", "-o", "r", "--", "java", "-cp", classes),
        "NoSuchClass",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NoSuchClass" in done.stderr
    assert "nothing more was run" in done.stderr
