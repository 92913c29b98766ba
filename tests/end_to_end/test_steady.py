"""What `python -m tests` makes of tests that fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PASSES_AGAIN = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({tests}))
def test_unsteady(number):
    seen = pathlib.Path(__file__).with_name(f"seen{{number}}")
    if not seen.exists():
        seen.touch()
        raise OSError(f"first run of {{number}}")
"""
FAILS = "def test_fails(): assert 6 * 7 == 41, 'twice'\n"
PASSES = "def test_passes(): pass\n"
ONE = ["-n", "1"]
"""Worker, in place of as many as usual: each takes a second to start."""


@pytest.mark.parametrize(
    ("files", "options", "code", "words"),
    [
        ([PASSES], [], 0, []),
        ([PASSES, PASSES_AGAIN.format(tests=2)], ONE, 0, ["unsteady", "first run of 0"]),
        ([PASSES_AGAIN.format(tests=3)], ONE, 1, ["3 unsteady tests: at most 2"]),
        (
            *([PASSES_AGAIN.format(tests=1)], ["--beside", "1", *ONE], 1),
            ["1 unsteady tests: at most 0"],
        ),
        ([PASSES_AGAIN.format(tests=21)], ONE, 1, ["too many"]),
        (
            *([FAILS, PASSES_AGAIN.format(tests=1)], ONE, 1),
            ["failed twice", "twice", "first run of 0"],
        ),
        (["import nothing_like_it"], ONE, 1, ["ERROR", "1 error"]),
    ],
    ids=["passes", "unsteady", "three", "beside", "many", "fails", "broken"],
)
def test_failures_run_once_more_by_themselves(
    tmp_path: Path, files: list[str], options: list[str], code: int, words: list[str]
) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "tests", *options, "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == code, ran.stdout + ran.stderr
    end = ran.stdout[ran.stdout.rfind("short test summary info") :]
    assert all(word in end for word in words), ran.stdout
