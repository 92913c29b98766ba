"""Call sites of Python programs name their functions and lines."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.heap_traces.trace import Trace
from tare.records.metrics import Status
from tests.native.recorder.recorder_programs import record

FOLDER = Path(__file__).parent
BYTES_HEADER = 33
"""What an object of Python's type bytes has beside its bytes."""
FREE_LISTS = 100 * 72
"""Lists that CPython keeps for other lines, the bytes of a hundred: it keeps fewer."""

PythonFrame = tuple[str, str, int]
"""Function, file, line."""


def interpreter(version: str) -> str:
    """The program itself: what has its name may be a script that chooses one."""
    folders = Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin")
    for found in (shutil.which(f"python{version}"), *(folder / "python3" for folder in folders)):
        if found and Path(found).read_bytes()[:4] == b"\x7fELF":
            return str(found)
    pytest.skip(f"there is no Python {version}")


class Stacks:
    """The Python frames of a trace's objects, the innermost first."""

    def __init__(self, trace: Trace) -> None:
        self._objects = trace.objects().select("process", "size", "site", "free_bytes").collect()
        self._sites = {
            (row["process"], row["site"]): row for row in trace.sites().collect().to_dicts()
        }

    def of_size(self, size: int) -> list[list[PythonFrame]]:
        rows = self._objects.filter(pl.col("size") == size).to_dicts()
        return [self.python(row["process"], row["site"]) for row in rows]

    def python(self, process: int, site: int | None) -> list[PythonFrame]:
        return [
            (row["function"], Path(row["file"]).name, row["line"])
            for row in self._all(process, site)
            if row["file"] and not row["object"]
        ]

    def live_by_line(self, file: str) -> dict[int, tuple[int, int]]:
        """Bytes and objects that were never freed."""
        found: dict[int, tuple[int, int]] = {}
        for row in self._objects.filter(pl.col("free_bytes").is_null()).to_dicts():
            frames = self.python(row["process"], row["site"])
            if frames and frames[0][1] == file:
                size, count = found.get(frames[0][2], (0, 0))
                found[frames[0][2]] = (size + row["size"], count + 1)
        return found

    def _all(self, process: int, site: int | None) -> Iterator[dict[str, Any]]:
        while site:
            row = self._sites[process, site]
            yield row
            site = row["caller"]


@dataclass(frozen=True)
class Recorded:
    stacks: Stacks
    file: str
    lines: dict[str, int]

    def frame(self, function: str, mark: str) -> PythonFrame:
        return (function, self.file, self.lines[mark])

    def stack(self, size: int) -> list[PythonFrame]:
        """Of the one object of bytes of that size."""
        (found,) = self.stacks.of_size(size + BYTES_HEADER)
        return found

    def from_main(self, mark: str) -> list[PythonFrame]:
        return [self.frame("main", mark), self.frame("<module>", "start")]


@pytest.fixture(scope="module", params=["3.11", "3.12", "3.13", "3.14"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("python")
    program = folder / "größe.py"
    text = (FOLDER / "recorder_python.py").read_text()
    program.write_text(text)
    outcome, trace = record(folder, interpreter(request.param), program, manager="cpython.malloc")
    assert outcome.status is Status.OK
    assert trace.meta["complete"] is True
    lines = {
        line.partition("# ")[2]: number
        for number, line in enumerate(text.splitlines(), 1)
        if "# " in line
    }
    return Recorded(Stacks(trace), program.name, lines)


def test_functions_and_lines_are_named(recorded: Recorded) -> None:
    assert recorded.stack(10_000) == [
        recorded.frame("take", "take"),
        recorded.frame("Größe.nehmen", "method"),
        *recorded.from_main("direct"),
    ]


def test_each_call_of_a_recursion_is_there(recorded: Recorded) -> None:
    assert recorded.stack(11_000) == [
        recorded.frame("take", "take"),
        recorded.frame("down", "deepest"),
        *[recorded.frame("down", "deeper")] * 30,
        *recorded.from_main("recursion"),
    ]


def test_a_generator_is_called_by_who_runs_it(recorded: Recorded) -> None:
    for size, mark in ((12_000, "first"), (12_100, "second")):
        assert recorded.stack(size) == [
            recorded.frame("take", "take"),
            recorded.frame("generated", mark),
            *recorded.from_main("generator"),
        ]


def test_python_code_that_c_calls_has_its_caller(recorded: Recorded) -> None:
    called = [recorded.frame("take", "take"), recorded.frame("key", "key")]
    expected = [*called, *recorded.from_main("sort")]
    assert recorded.stacks.of_size(13_000 + BYTES_HEADER) == [expected] * 2
    for size, function, mark, caller in (
        (15_000, "handle", "handler", "raised"),
        (16_000, "Last.__del__", "finalizer", "deleted"),
    ):
        called = [recorded.frame("take", "take"), recorded.frame(function, mark)]
        assert recorded.stack(size) == [*called, *recorded.from_main(caller)]


def test_a_thread_has_a_stack_of_its_own(recorded: Recorded) -> None:
    stack = recorded.stack(14_000)
    assert stack[:2] == [recorded.frame("take", "take"), recorded.frame("work", "thread")]
    assert [function for function, _, _ in stack[2:]] == [
        "Thread.run",
        "Thread._bootstrap_inner",
        "Thread._bootstrap",
    ]


def test_code_in_the_place_of_other_code_has_its_own_name_and_line(recorded: Recorded) -> None:
    for kind in range(50):
        stacks = recorded.stacks.of_size(20_000 + kind + BYTES_HEADER)
        assert len(stacks) == 3000 / 50
        assert {stack[0] for stack in stacks} == {(f"made{kind:02}", f"<file {kind:02}>", kind + 1)}
        stacks = recorded.stacks.of_size(21_000 + kind + BYTES_HEADER)
        assert len(stacks) == 3000 / 50
        assert {stack[0] for stack in stacks} == {("made", "<string>", kind + 2)}


def test_without_the_lock_only_the_main_thread_tells(recorded: Recorded) -> None:
    called = [recorded.frame("without_lock", "without"), *recorded.from_main("main without")]
    assert recorded.stacks.of_size(17_000) == [called] * 100
    assert recorded.stacks.of_size(17_100) == [[]] * 100


def test_a_forked_child_goes_on_with_its_stack(recorded: Recorded) -> None:
    for size, mark in ((18_000, "child"), (19_000, "parent")):
        assert recorded.stack(size) == [
            recorded.frame("take", "take"),
            *recorded.from_main(mark),
        ]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_bytes_of_lines_are_those_of_tracemalloc(tmp_path: Path, version: str) -> None:
    python, program = interpreter(version), FOLDER / "recorder_python_lines.py"
    told = subprocess.run(
        [python, program, "tracemalloc"],
        env={**os.environ, "PYTHONMALLOC": "malloc"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = {
        line: (size, count)
        for line, size, count in (map(int, row.split()) for row in told.splitlines())
    }
    _, trace = record(tmp_path, python, program, manager="cpython.malloc")
    found = Stacks(trace).live_by_line(program.name)
    large = {line for line, (size, _) in expected.items() if size > FREE_LISTS}
    assert len(large) >= 9
    for line in large:
        assert abs(found[line][0] - expected[line][0]) <= FREE_LISTS
    total = sum(size for size, _ in expected.values())
    assert abs(sum(size for size, _ in found.values()) - total) < total / 100
