"""Lower-bound overhead: whole studies."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.records.results import load
from tare.studies.lbo.question import lbo, lbo_replayed
from tare.studies.lbo.report import section
from tests.conftest import Completed
from tests.end_to_end.test_cli import start, wait_until
from tests.native.runtimes.test_jvm import classes, needs_java
from tests.studies.test_minheap import known

__all__ = ["classes"]


def summary_of(path: Path) -> dict[tuple[str, str], Any]:
    rows = json.loads(path.read_text())["summary"]
    return {(row["manager"], row["metric"]): row for row in rows}


@needs_java
def test_collectors_of_a_jvm(tare: Callable[..., Completed], classes: Path, tmp_path: Path) -> None:
    """12 MiB live: one heap is too small, which is an answer and no failure."""
    done = tare(
        *("lbo", "-m", "jvm.serial", "-m", "jvm.parallel", "--least-heap", "8MiB"),
        *("--heaps", "1,8", "-n", 2, "--warmup", 0, "--json", "out.json", "-o", "r"),
        *("--", "java", "-cp", classes, "Churn", 60, 12),
    )
    assert done.returncode == 0, done.stderr
    assert "out of memory" in done.stdout
    rows = summary_of(tmp_path / "out.json")
    ratios = {
        name: row["median"] for (name, metric), row in rows.items() if metric.startswith("lbo")
    }
    assert set(ratios) == {"jvm.serial(heap=64MiB)", "jvm.parallel(heap=64MiB)"}
    assert all(ratio >= 1 for ratio in ratios.values())
    assert (tmp_path / "r" / "report.html").stat().st_size > 1000
    again = tare(
        *("lbo", "-m", "jvm.serial", "-m", "jvm.parallel", "--least-heap", "8MiB"),
        *("--heaps", "1,8", "-n", 2, "--warmup", 0, "-o", "r", "--no-page"),
        *("--", "java", "-cp", classes, "Churn", 60, 12),
    )
    assert again.returncode == 0
    assert len((tmp_path / "r" / "runs.jsonl").read_text().splitlines()) == len(
        {line["order"] for line in map(json.loads, (tmp_path / "r" / "runs.jsonl").open())}
    )


@needs_java
def test_the_unit_of_heaps_is_sought(tmp_path: Path, classes: Path) -> None:
    command = ["java", "-cp", str(classes), "Churn", "60", "8"]
    results = lbo(command, heaps=(3.0,), runs=1, warmup=0, folder=tmp_path / "r")
    least = results.document["least_heap_bytes"]
    assert 8 << 20 < least <= 24 << 20
    managers = [point["manager"] for point in results.document["points"]]
    assert f"jvm.serial(heap={3 * least >> 20}MiB)" in managers
    assert any(manager.startswith("jvm.epsilon(heap=") for manager in managers)
    assert (tmp_path / "r-least-heap" / "runs.jsonl").exists()
    assert section(results).tables


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@needs_java
def test_an_interrupted_study_goes_on_without_loss(classes: Path, tmp_path: Path) -> None:
    """Interrupted in the search for the unit of heaps, and among the runs: what was done is kept,
    in its order, and nothing is done again."""
    command = ["lbo", "-m", "jvm.serial", "-m", "jvm.parallel", "--heaps", "2,4", "-n", "2"]
    command += ["--warmup", "1", "--seed", "7", "--no-page", "-o", "r"]
    command += ["--", "java", "-cp", str(classes), "Churn", "60", "8"]
    trials = tmp_path / "r-least-heap" / "trials.jsonl"
    runs = tmp_path / "r" / "runs.jsonl"
    kept = []
    for log in (trials, runs):
        study = start(*command, cwd=tmp_path)
        wait_until(lambda log=log: len(lines_of(log)) >= 3, log.name)  # type: ignore[misc]
        study.send_signal(signal.SIGINT)
        said = study.communicate()[1]
        assert study.returncode == 130, said
        kept.append(lines_of(log))
    done = start(*command, cwd=tmp_path)
    said = done.communicate()[1]
    assert done.returncode == 0, said
    tried = [(t["details"]["trial"]["heap_bytes"], t["status"]) for t in map(json.loads, kept[0])]
    (search,) = map(json.loads, lines_of(tmp_path / "r-least-heap" / "runs.jsonl"))
    assert [(size, status) for size, status, _ in search["details"]["trials"]][
        : len(tried)
    ] == tried
    final = lines_of(runs)
    assert final[: len(kept[1])] == kept[1]
    rounds = [json.loads(line) for line in final]
    assert sorted(each["order"] for each in rounds) == list(range(1, len(rounds) + 1))
    managers = {each["manager"] for each in rounds}
    baseline = load(tmp_path / "r").run.baseline
    counts = Counter((each["manager"], each["warmup"]) for each in rounds)
    assert counts == {
        (manager, warmup): 1 if warmup else 4 if manager == baseline else 2
        for manager in managers
        for warmup in (True, False)
    }
    assert len(managers) == 4


def test_a_native_program_under_marksweep(tare: Callable[..., Completed], tmp_path: Path) -> None:
    done = tare(
        *("lbo", "-m", "glibc", "-m", "marksweep(glibc, every=256KiB)", "-n", 2, "--warmup", 0),
        *("--json", "out.json", "--", "gawk"),
        "BEGIN { for (i = 0; i < 60000; ++i) a[i % 1000] = a[i % 1000] i; print length(a[1]) }",
    )
    assert done.returncode == 0, done.stderr
    rows = summary_of(tmp_path / "out.json")
    assert rows["glibc", "lbo_wall_ratio"]["median"] >= 1
    assert rows["marksweep(glibc, every=256KiB)", "stopped_wall_seconds"]["median"] > 0
    assert rows["marksweep(glibc, every=256KiB)", "stopped_cpu_seconds"]["median"] > 0
    assert rows["marksweep(glibc, every=256KiB)", "lbo_cpu_ratio"]["median"] >= 1


def test_a_trace(tmp_path: Path) -> None:
    results = lbo_replayed(
        known(tmp_path / "t.tare"),
        ["semispace", "glibc"],
        heaps=(1.2, 4.0),
        runs=2,
        warmup=0,
        folder=tmp_path / "r",
    )
    statuses = dict(results.measurements.select("manager", "status").unique().rows())
    small, large = (
        point["manager"]
        for point in results.document["points"]
        if point["collector"] == "semispace"
    )
    assert statuses[small] == "out-of-memory"
    assert statuses[large] == statuses["glibc"] == "ok"
    (table, *_) = [
        table for table in section(results).tables if table.identifier == "table-lbo-wall"
    ]
    assert "out of memory" in [cell.text for line in table.rows for cell in line]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--heaps", "0.5", "--", "java", "Main"], "heaps"),
        (["--heaps", "x", "--", "java", "Main"], "list of numbers"),
        (["-m", "jvm.g1(heap=8MiB)", "--", "java", "Main"], "leave out heap="),
        (["--death", "unreachable", "--", "java", "Main"], "only to a recorded"),
        (["--", "java", "-Xmx8m", "Main"], "clashes"),
        (["nothing.tare"], "does not exist"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], arguments: list[str], said: str) -> None:
    done = tare("lbo", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
