"""kits/pytest-tare, as users run it: pytest in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT

KIT = ROOT / "kits" / "pytest-tare"
NATIVE = """
import itertools, os, subprocess, sys, unittest
import pytest

class Made:
    __slots__ = ("field",)

def make(count):
    return [Made() for _ in itertools.repeat(None, count)]

@pytest.mark.tare(objects=100, bytes="1MiB", peak="1KiB")
def test_thousand():
    make(1000)

@pytest.mark.tare(objects=1e6)
class TestMany:
    @pytest.mark.tare(bytes=1e6)
    def test_two_thousand(self):
        make(2000)

    def test_nothing(self):
        pass

    def test_child(self):
        subprocess.run([sys.executable, "-S", "-c", "[object() for _ in [None] * 50_000]"])

    def test_alone(self):
        assert "TARE_RECORDER_FOLDER" not in os.environ

    def test_skipped(self):
        pytest.skip("as any test may")

class TestOfUnittest(unittest.TestCase):
    @pytest.mark.tare(objects=1e6)
    def test_method(self):
        make(1000)

@pytest.mark.tare(drag="30%")
def test_held():
    held = bytearray(1_000_000)
    for part in range(100):
        if part < 50:
            held[part] = 1
        bytes(10_000)
"""
PLAIN = """
import os, sys, tracemalloc
import pytest

@pytest.mark.tare(peak="1MiB")
def test_small():
    bytearray(int(os.environ.get("SIZE", 100_000)))

def test_other():
    bytearray(3 << 20)

@pytest.mark.tare(peak="1MiB")
def test_that_stops_it():
    tracemalloc.stop()

@pytest.mark.tare(peak=0)
def test_failing():
    assert not [b"x" * 1000]
"""


def run(folder: Path, text: str, *options: str, **variables: str) -> tuple[int, str]:
    """pytest's exit code and output, of a file with this text."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    # With CI pytest repeats each message in its summary.
    without = ("PYTHONDONTWRITEBYTECODE", "CI")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment |= {
        "PYTHONPATH": str(KIT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **variables,
    }
    words = [sys.executable, "-m", "pytest", "-p", "pytest_tare", *options]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def figures(path: Path) -> dict[tuple[str, str], float]:
    rows = json.loads(path.read_text())["tests"]
    return {(row["test"].rpartition("::")[2], row["metric"]): row["figure"] for row in rows}


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path]:
    folder = tmp_path_factory.mktemp("native")
    options = ("-p", "xdist", "-n", "2", "--tare-json", "figures.json")
    return *run(folder, NATIVE, *options), folder / "figures.json"


def test_objects_are_those_of_the_tests_call(native: tuple[int, str, Path]) -> None:
    found = figures(native[2])
    assert 0 <= found["test_nothing", "objects"] < 40
    assert 1000 <= found["test_thousand", "objects"] < 1060
    assert 2000 <= found["test_two_thousand", "objects"] < 2100
    assert 1000 <= found["test_method", "objects"] < 1300
    assert 40_000 <= found["test_thousand", "bytes"] < 60_000
    assert 80_000 <= found["test_two_thousand", "bytes"] < 120_000


def test_child_processes_count(native: tuple[int, str, Path]) -> None:
    assert 50_000 < figures(native[2])["test_child", "objects"] < 100_000


def test_drag_is_what_is_held_after_its_last_use(native: tuple[int, str, Path]) -> None:
    assert 0.4 < figures(native[2])["test_held", "drag"] < 0.6
    assert "tare: drag" in native[1]


def test_a_broken_limit_fails_with_figure_limit_and_lines(native: tuple[int, str, Path]) -> None:
    code, output, _ = native
    assert code == 1
    assert "2 failed, 5 passed, 1 skipped" in output
    assert "tare: objects 1,0" in output
    assert ", over the limit of 100\n" in output
    assert "tare: peak 4" in output
    # From Python 3.12 on a comprehension has no frame of its own.
    inner = "make.<locals>.<listcomp> (test_it.py:9) ← make"
    place = inner if sys.version_info < (3, 12) else "make (test_it.py:9)"
    assert output.count(f"{place} ← test_thousand") == 2


def test_what_tare_cannot_measure_is_told_and_fails_no_test(
    native: tuple[int, str, Path],
) -> None:
    assert "not measured: test_it.py::TestMany::test_alone: recorder: when it ran al" in native[1]
    (note,) = json.loads(native[2].read_text())["not_measured"]
    assert note.endswith("it ended with exit status 1")


def test_peaks_are_compared_with_the_last_run(tmp_path: Path) -> None:
    assert run(tmp_path, PLAIN, "--deselect", "test_it.py::test_failing")[0] == 0
    code, output = run(tmp_path, PLAIN, "--tare", "--tare-json", "found.json", SIZE="200000")
    assert code == 1
    assert "assert not [b" in output, "its own failure, not that of its limit"
    lines = {line.split()[0]: line.split()[1:] for line in output.splitlines() if "peak  " in line}
    assert lines["test_it.py::test_small"][-3:-1] == ["1.00", "MiB"]
    assert 90 < float(lines["test_it.py::test_small"][-1].strip("+%")) < 110
    assert lines["test_it.py::test_other"][-2:] == ["-", "new"]
    assert 3 << 20 <= figures(tmp_path / "found.json")["test_other", "peak"] < 3.1 * (1 << 20)
    assert "not measured: test_it.py::test_that_stops_it: tracemalloc: it was sto" in output


def test_strict_fails_what_is_not_measured(tmp_path: Path) -> None:
    code, output = run(tmp_path, PLAIN, "--tare-strict", "-k", "stops_it")
    assert code == 1
    assert "1 failed" in output


def test_without_the_recorder_tests_still_pass(tmp_path: Path) -> None:
    """Under a pytest whose second run cannot start."""
    text = "import sys, pytest\nsys.executable = '/nowhere/python'\n" + (
        "@pytest.mark.tare(objects=1)\ndef test_it(): pass\n"
    )
    code, output = run(tmp_path, text)
    assert code == 0
    assert "not measured: test_it.py::test_it: recorder: " in output


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        ("sys.modules['tare'] = None", "No module named 'tare"),
        ("sys.modules['tare.base.units'] = sys", "module 'sys' has no attribute 'format_bytes'"),
        (
            "sys.modules['tare.base.units'] = type('', (), {'__getattr__': lambda *_: 1 / 0})()",
            "division by zero",
        ),
    ],
)
def test_where_tare_cannot_be_loaded_tests_still_pass(
    tmp_path: Path, instead: str, why: str
) -> None:
    (tmp_path / "hiding.py").write_text(f"import sys\n{instead}\n")
    text = "import pytest\n@pytest.mark.tare(peak='1KiB')\ndef test_it(): bytearray(2000)\n"
    code, output = run(tmp_path, text, "-p", "hiding", "--rootdir=.")
    assert code == 0, output
    assert f"not measured: test_it.py::test_it: tare: {why}" in output


def test_without_marks_nothing_of_tare_is_loaded(tmp_path: Path) -> None:
    text = "import sys\ndef test_it(): assert not {'tare', 'tracemalloc'} & sys.modules.keys()\n"
    code, output = run(tmp_path, text)
    assert code == 0, output
    assert "tare" not in output.partition("collected")[2]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("pork=1", "'pork' is no limit: there are peak, objects, bytes, drag"),
        ("peak='much'", "peak: 'much' is not a size: write it like 64KiB, 2MiB or 1GiB"),
        ("objects='many'", "objects: 'many' is not a number from 0 on"),
        ("drag=-1", "drag: -1 is not a number from 0 on"),
        ("20", "give limits by name"),
    ],
)
def test_a_limit_that_cannot_be_read_is_a_usage_error(
    tmp_path: Path, limits: str, told: str
) -> None:
    text = f"import pytest\n@pytest.mark.tare({limits})\ndef test_it(): pass\n"
    code, output = run(tmp_path, text)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: test_it.py::test_it: mark tare: {told}" in output


def test_a_worker_fails_the_test_whose_limit_cannot_be_read(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.tare(pork=1)\ndef test_it(): pass\n"
    code, output = run(tmp_path, text, "-p", "xdist", "-n", "1")
    assert code == 1
    assert "\ntest_it.py::test_it: mark tare: 'pork' is no limit" in output


def test_the_kit_is_a_package_of_its_own() -> None:
    kit, whole = (tomllib.loads((folder / "pyproject.toml").read_text()) for folder in (KIT, ROOT))
    assert kit["project"]["entry-points"]["pytest11"] == {"pytest_tare": "pytest_tare"}
    assert whole["tool"]["scikit-build"]["wheel"]["packages"] == ["tare"]
