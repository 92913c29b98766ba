"""`tare weigh` of programs whose runtime serves objects itself: whole bills, really measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.answers.building import build_report
from tare.base.libraries import pl
from tare.records.results import Results, read_records
from tare.report.model import Report
from tare.studykit.budget import TOTAL_SECONDS, Effort
from tare.weighing.bill import failed
from tests.native.runtimes.runtime_programs import NODE, PYTHON, needs_node, needs_python

ALL = "cpython.malloc(glibc)"
OBJECTS = 100_000
HOLDS = f"""#!{PYTHON}
def made(count):
    return [(number, str(number)) for number in range(count)]
kept = made({OBJECTS})
print(len(kept))
"""
BYTES_OF_EACH = 48 + 48
"""The least that a pair and a text with their headers take."""

KEEPS = f"""
const kept = []
for (let number = 0; number < {OBJECTS}; number++) kept.push({{ a: number, b: [number] }})
console.log(kept.length)
"""
WORDS_OF_EACH = 10
"""Of an object with two fields, an array of one element, and the reference to it."""


def weighed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, command: Sequence[str], **asked: Any
) -> tuple[Results, Report]:
    """A quick bill that has all the time it takes, however busy the machine is."""
    monkeypatch.setitem(TOTAL_SECONDS, Effort.QUICK, 10_000.0)
    results = api.weigh(command, effort=Effort.QUICK, folder=folder, **asked)
    assert not failed(results)
    return results, build_report(results)


def mapped_by(results: Results, *names: str) -> int:
    """What files whose names begin so mapped: resident under the baseline at the peak."""
    (record,) = [
        each
        for each in read_records(results.folder)
        if (each.run.study, each.run.manager) == ("space", results.run.baseline)
    ]
    mapped = record.outcome.details["mapped"]
    return sum(each["resident"] for each in mapped if Path(each["file"]).name.startswith(names))


@needs_python
def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that `env` starts."""
    script = tmp_path / "holds.py"
    script.write_text(HOLDS)
    script.chmod(0o755)
    command = ["env", "A=1", str(script)]
    results, report = weighed(monkeypatch, tmp_path / "r", command, only=["space", "count"])
    assert report.about is not None
    hidden, shown, managers = report.about.findings
    assert hidden.startswith("CPython serves objects of up to 512 bytes by its own pymalloc, ")
    assert " objects and " in hidden
    assert "see only the rest; `tare weigh -m cpython.malloc -- …` shows all objects" in shown
    assert managers.startswith("Managers of CPython: cpython.malloc(M), ")
    assert report.about.commands[0][1] == f"tare weigh -m cpython.malloc -- env A=1 {script}"
    # What the words rest on.
    assert list(results.run.managers)[:2] == ["glibc", ALL]
    counted = results.measurements.filter(pl.col("metric") == "objects")
    objects = dict(counted.select("manager", "value").iter_rows())
    assert objects[ALL] >= objects["glibc"] + 2 * OBJECTS
    arenas = mapped_by(results, "python", "libpython")
    assert OBJECTS * BYTES_OF_EACH <= arenas <= 6 * OBJECTS * BYTES_OF_EACH


@needs_python
def test_python_that_loads_nothing_of_tare_keeps_its_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `#!` line has an option that shuts out what would show that pymalloc is off."""
    script = tmp_path / "holds.py"
    script.write_text(HOLDS.replace("\n", " -I\n", 1))
    script.chmod(0o755)
    results, report = weighed(monkeypatch, tmp_path / "r", [str(script)], only=["space"])
    assert ALL not in results.run.managers
    assert report.about is not None
    assert f"and {ALL} cannot show more: no CPython process" in report.about.findings[1]
    assert "with -I, -E or -S" in report.about.findings[1]


@needs_python
def test_python_under_what_shows_all_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "holds.py"
    script.write_text(HOLDS)
    command = [str(PYTHON), str(script)]
    asked = {"managers": ["cpython.malloc"], "only": ["space"]}
    results, report = weighed(monkeypatch, tmp_path / "r", command, **asked)
    assert results.run.baseline == ALL
    assert report.about is not None
    assert report.about.findings[0].startswith("PYTHONMALLOC=malloc is set here")
    (record,) = [each for each in read_records(results.folder) if each.run.study == "space"]
    version = Path(record.outcome.executable).name
    if version not in ("python3.11", "python3.12", "python3.13"):
        pytest.skip(f"no lines of Python of {version}")
    tables = (table for section in report.sections for table in section.tables)
    text = "\n".join(cell.text for table in tables for row in table.rows for cell in row)
    assert "made (holds.py:3)" in text or "<listcomp> (holds.py:3)" in text


@needs_node
def test_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "holds.js"
    script.write_text(KEEPS)
    command = [str(NODE), str(script)]
    results, report = weighed(monkeypatch, tmp_path / "r", command, only=["space"])
    assert report.about is not None
    heap, rest, managers = report.about.findings
    assert heap.startswith("V8 keeps the objects of JavaScript in a heap that it maps itself: ")
    assert heap.endswith(" at the peak.")
    assert "see only the rest; `tare compare -m node.v8 -m 'node.v8(semi=32MiB)' -- …`" in rest
    assert managers == "Managers of Node: node.v8(heap=SIZE, semi=SIZE)."
    (section,) = report.sections
    assert any(" maps itself: no allocator serves it." in each for each in section.findings)
    assert mapped_by(results, "node", "libnode") >= OBJECTS * WORDS_OF_EACH * 8
