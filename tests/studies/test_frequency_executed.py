"""Young and full periods of a JVM's collections, measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tare
from tare.studies.frequency.executed_report import CONTRASTS, NEVER, Setting, section
from tests.conftest import Completed
from tests.native.runtimes.test_jvm import classes, like_mmtk, needs_java

__all__ = ["classes", "like_mmtk"]
MIB = 1 << 20


def test_a_setting_is_held_against_what_differs_in_one_thing() -> None:
    settings = [
        Setting(f"{period}/{full}", "jvm.serial", period, full)
        for period in (4, 8)
        for full in (NEVER, 64)
    ]
    period, full = CONTRASTS
    found = {each.manager: period.reference(each, settings) for each in settings}
    assert {name: ref and ref.manager for name, ref in found.items()} == {
        "4/0": None,
        "4/64": None,
        "8/0": "4/0",
        "8/64": "4/64",
    }
    found = {each.manager: full.reference(each, settings) for each in settings}
    assert {name: ref and ref.manager for name, ref in found.items()} == {
        "4/0": None,
        "4/64": "4/0",
        "8/0": None,
        "8/64": "8/0",
    }


@needs_java
def test_collections_come_at_their_periods(tmp_path: Path, classes: Path) -> None:
    results = tare.frequency(
        ["java", "-cp", str(classes), "Churn", "1000", "1"],
        ["jvm.serial"],
        periods=[4 * MIB, 16 * MIB],
        full=[32 * MIB],
        runs=1,
        warmup=0,
        folder=tmp_path / "r",
    )
    rows = results.measurements.select("manager", "metric", "value").rows()
    values = {(manager, metric): value for manager, metric, value in rows}
    settings = {
        (each["period"], each["full"]): each["manager"] for each in results.document["settings"]
    }
    assert set(settings) == {(p * MIB, f * MIB) for p in (4, 16) for f in (0, 32)}
    for (period, full), manager in settings.items():
        allocated = values[manager, "heap_allocated_bytes"]
        fulls = values[manager, "full_collections"]
        if full == NEVER:
            assert fulls == 0
            # The last period was not over when the program ended.
            count = values[manager, "collections"]
            assert (allocated - period) * 0.98 <= count * period <= allocated * 1.02
        else:
            # Each begins late by what is allocated until a thread wakes.
            assert 1 <= fulls <= allocated / full
    report = section(results)
    assert [table.identifier for table in report.tables] == [
        "table-frequency-executed",
        "table-frequency-executed-collections",
    ]
    assert all(len(table.rows) == len(settings) for table in report.tables)


@needs_java
def test_mmtk_has_one_period(tmp_path: Path, like_mmtk: tuple[str, ...]) -> None:
    results = tare.frequency(
        like_mmtk,
        ["jvm.mmtk(plan=Immix)"],
        periods=[4 * MIB, 16 * MIB],
        runs=1,
        warmup=0,
        folder=tmp_path / "r",
    )
    settings = [(each["period"], each["full"]) for each in results.document["settings"]]
    assert settings == [(4 * MIB, NEVER), (16 * MIB, NEVER)]
    _, collections = section(results).tables
    often, seldom = (float(row[4].key or 0) for row in collections.rows)
    assert often > 2 * seldom > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "jvm.serial(period=4MiB)", "--", "java", "Main"], "leave them out"),
        (["-m", "jvm.g1", "--", "java", "Main"], "no option 'period'"),
        (["-m", "jvm.serial", "-m", "glibc", "--", "java", "Main"], "measure these separately"),
        (["-m", "jvm.serial", "--full", "6MiB", "--", "java", "Main"], "multiple of period"),
        (["-m", "jvm.serial", "--reclaim", "4", "--", "java", "Main"], "mark-sweep"),
        (["-m", "jvm.mmtk", "--full", "64MiB", "--", "java", "Main"], "no option 'full-period'"),
        (["--full", "64MiB", "--", "true"], "java command"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], arguments: list[str], said: str) -> None:
    done = tare("frequency", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


@needs_java
def test_the_command_line(tare: Callable[..., Completed], classes: Path, tmp_path: Path) -> None:
    done = tare(
        *("frequency", "-m", "jvm.parallel", "--every", "8MiB", "--full", "32MiB", "-n", 1),
        *("--warmup", 0, "--json", "out.json", "-o", "r"),
        *("--", "java", "-cp", classes, "Churn", 100, 1),
    )
    assert done.returncode == 0, done.stderr
    assert "relative to no full collections" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["study"] == "frequency-executed"
    assert "<svg" in (tmp_path / "r" / "report.html").read_text()
