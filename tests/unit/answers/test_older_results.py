"""Results and traces that an older Tare wrote open, and say the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.answers.building import build_report
from tare.heap_traces.trace import violations
from tests.conftest import Completed
from tests.support import SUPPORT

OLDER = SUPPORT / "results-0.1"
FOLDERS = sorted(path.parent.name for path in OLDER.glob("*/run.json"))
Row = dict[str, Any]


def test_there_are_folders_of_many_studies() -> None:
    assert len(FOLDERS) >= 13


@pytest.mark.parametrize("folder", FOLDERS)
def test_results_say_the_same(folder: str) -> None:
    results = api.load(OLDER / folder)
    expected = json.loads((OLDER / folder / "expected.json").read_text(encoding="utf-8"))
    exported = json.loads(api.export_text(results, "json"))
    assert len(exported["measurements"]) == expected["measurements"] > 0
    assert [key(row) for row in exported["summary"]] == [key(row) for row in expected["summary"]]
    for now, then in zip(exported["summary"], expected["summary"], strict=True):
        assert now.keys() == then.keys()
        for name, value in then.items():
            same = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert now[name] == same, key(then)


def key(row: Row) -> tuple[str, str, str]:
    return row["program"], row["manager"], row["metric"]


@pytest.mark.parametrize("name", FOLDERS)
def test_results_are_shown(name: str) -> None:
    report = build_report(api.load(OLDER / name))
    assert report.sections
    assert any(section.tables for section in report.sections)


@pytest.mark.parametrize("name", ["t.tare", "u.tare"])
def test_traces_are_read(tare: Callable[..., Completed], tmp_path: Path, name: str) -> None:
    trace = tmp_path / name
    shutil.copytree(OLDER / name, trace)
    assert not any(violations(api.open_trace(trace)))
    exported = tare("export", "-f", "collapsed", "--weight", "bytes", trace)
    assert exported.returncode == 0, exported.stderr
    assert "main" in exported.stdout or "sort+" in exported.stdout
    replayed = tare("replay", "-n", "1", "--warmup", "0", "-m", "glibc", "-o", "r", trace)
    assert replayed.returncode == 0, replayed.stderr
    if name == "u.tare":
        dragged = tare("drag", "-o", "d", trace)
        assert dragged.returncode == 0, dragged.stderr
