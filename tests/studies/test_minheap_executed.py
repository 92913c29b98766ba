"""Minimum heaps of real programs under the collectors of a JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Outcome
from tare.studies.minheap.executed_report import section
from tare.studykit.least_heap.executed import _not_slow, in_heap, minheap_executed
from tests.conftest import Completed
from tests.native.runtimes.test_jvm import classes, needs_java

__all__ = ["classes"]
MIB = 1 << 20


def outcome(seconds: float) -> Outcome:
    return Outcome(Status.OK, values={"user_seconds": seconds, "system_seconds": 0.0})


def test_a_run_that_does_little_but_collect_does_not_fit() -> None:
    assert _not_slow(outcome(3.9), outcome(1.0), 4.0).status is Status.OK
    slow = _not_slow(outcome(4.1), outcome(1.0), 4.0)
    assert slow.status is Status.TIMEOUT
    assert not slow.values
    assert "4.1 times" in slow.reason
    failed = Outcome(Status.FAILED)
    assert _not_slow(failed, outcome(1.0), 4.0) is failed


def test_a_heap_joins_other_options() -> None:
    assert in_heap("jvm.g1(threads=1)", 48 * MIB) == "jvm.g1(heap=48MiB, threads=1)"


@needs_java
def test_what_lives_is_the_least_that_is_found(tmp_path: Path, classes: Path) -> None:
    """8 MiB live, in arrays of 1 KiB, beside what a JVM needs itself."""
    results = minheap_executed(
        ["java", "-cp", str(classes), "Churn", "60", "8"],
        ["jvm.serial"],
        repeats=1,
        folder=tmp_path / "r",
    )
    (record,) = read_records(results.folder)
    assert record.outcome.status is Status.OK
    values = record.outcome.values
    low, high = values["min_heap_low_bytes"], values["min_heap_high_bytes"]
    assert high - low == MIB
    assert 8 * MIB < high <= 24 * MIB
    trials = record.outcome.details["trials"]
    assert len(trials) == values["trials"]
    assert {size for size, status, _ in trials if status == "ok"} >= {high, 512 * MIB}
    assert section(results).tables
    assert not (tmp_path / "r" / "trials.jsonl").exists()


@needs_java
def test_a_program_that_fails_anyway_is_not_tried_in_other_heaps(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    done = tare("minheap", "-m", "jvm.serial", "-o", "r", "--no-page", "--", "java", "NoSuchClass")
    assert done.returncode == 1
    (record,) = read_records(tmp_path / "r")
    assert record.outcome.status is Status.FAILED
    assert "exit status 1" in record.outcome.reason


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "glibc", "--", "true"], "cannot limit"),
        (["-m", "jvm.epsilon", "--", "java", "Main"], "never collects"),
        (["-m", "jvm.g1(heap=8MiB)", "--", "java", "Main"], "leave out heap="),
        (["--step", "4KiB", "--", "java", "Main"], "1MiB"),
        (["--slow", "0.5", "--", "java", "Main"], "--slow 0.5"),
        (["--death", "unreachable", "--", "java", "Main"], "only to a recorded"),
        (["--", "java", "-Xmx8m", "Main"], "clashes"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], arguments: list[str], said: str) -> None:
    done = tare("minheap", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
