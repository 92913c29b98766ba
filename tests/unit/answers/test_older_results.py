"""Results that an older Tare wrote open, and say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tare as api
from tare.answers.building import build_report
from tests.support import SUPPORT

OLDER = SUPPORT / "results-0.1"
FOLDERS = sorted(path.parent.name for path in OLDER.glob("*/run.json"))
Row = dict[str, Any]


def test_there_are_folders_of_many_studies() -> None:
    assert len(FOLDERS) >= 13


CAUTIOUS = {"too few runs", "no difference seen"}
"""What a verdict may have become: the figures are the same, and fewer differences are claimed."""
JUDGED = {"verdict", "ratio_low", "ratio_high"}
SINCE = "processor_seconds"
"""Made of the two metrics that older folders have."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_results_say_the_same(folder: str) -> None:
    results = api.load(OLDER / folder)
    expected = json.loads((OLDER / folder / "expected.json").read_text(encoding="utf-8"))
    exported = json.loads(api.export_text(results, "json"))
    measurements = [row for row in exported["measurements"] if row["metric"] != SINCE]
    summary = [row for row in exported["summary"] if row["metric"] != SINCE]
    assert len(measurements) == expected["measurements"] > 0
    assert [key(row) for row in summary] == [key(row) for row in expected["summary"]]
    for now, then in zip(summary, expected["summary"], strict=True):
        assert now.keys() == then.keys()
        assert now["verdict"] in CAUTIOUS | {then["verdict"]}, key(then)
        for name, value in then.items():
            same = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert now[name] == same or name in JUDGED, key(then)


def key(row: Row) -> tuple[str, str, str]:
    return row["program"], row["manager"], row["metric"]


@pytest.mark.parametrize("name", FOLDERS)
def test_results_are_shown(name: str) -> None:
    report = build_report(api.load(OLDER / name))
    assert report.sections
    assert any(section.tables for section in report.sections)
