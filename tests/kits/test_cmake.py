"""kits/cmake, as a project uses it: CMake and CTest in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.native import kits_folder

Tested = Callable[..., tuple[int, str]]
MODULE = kits_folder() / "cmake" / "TareChecks.cmake"
PROJECT = f"""
cmake_minimum_required(VERSION 3.15)
project(checked C)
enable_testing()
include({MODULE})
add_executable(fill fill.c)
"""
FILL = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void* volatile kept;
int main(int count, char** words) {
  if (access("CTestTestfile.cmake", F_OK)) return 8;
  if (count > 2 && strcmp(words[2], "a;b{suite} \"q\\")) return 7;
  for (int i = 0; i < atoi(words[1]); ++i) kept = malloc(16);
}
"""
KEPT = (
    r"""tare_add_check(kept TARGET fill COMMAND 100 "a;b{suite} \"q\\" LIMITS peak=1GiB RUNS 2)"""
)


@pytest.fixture
def tested(tmp_path: Path) -> Tested:
    """Builds a project with these checks and runs its tests: CTest's exit code and output."""
    if shutil.which("cmake") is None:
        pytest.skip("needs CMake: apt-get install cmake")

    def run(checks: str, executable: str = "") -> tuple[int, str]:
        (tmp_path / "CMakeLists.txt").write_text(PROJECT + checks)
        (tmp_path / "fill.c").write_text(FILL)
        build = tmp_path / "build"
        tare = executable or str(Path(sys.executable).with_name("tare"))
        made = _done(["cmake", "-S", tmp_path, "-B", build, f"-DTARE_EXECUTABLE={tare}"])
        if made[0] != 0:
            return made
        assert _done(["cmake", "--build", build])[0] == 0
        return _done(["ctest", "--test-dir", build, "--output-on-failure"])

    return run


def _done(words: list[str | Path]) -> tuple[int, str]:
    environment = {name: text for name, text in os.environ.items() if name != "CTEST_OUTPUT"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_limits_that_are_kept_pass_and_others_fail(tested: Tested) -> None:
    code, output = tested(
        KEPT + "\ntare_add_check(over COMMAND fill 100 LIMITS peak=1KiB RUNS 2)\n"
        "tare_add_check(failing TARGET fill COMMAND 1 other LIMITS peak=1GiB RUNS 2)\n"
        "tare_add_check(elsewhere TARGET fill COMMAND 1 LIMITS peak=1GiB RUNS 2\n"
        "               WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})\n"
    )
    assert code == 8
    assert "kept .............................   Passed" in output
    assert "over .............................***Failed" in output
    assert "1.00 KiB" in output
    assert "failing ..........................***Failed" in output
    assert "exit status 7" in output
    assert "elsewhere ........................***Failed" in output
    assert "exit status 8" in output


def test_objects_are_counted(tested: Tested) -> None:
    code, output = tested(
        "tare_add_check(kept COMMAND fill 50 LIMITS objects=50 MANAGER glibc REQUIRED)\n"
        "tare_add_check(over COMMAND fill 51 LIMITS objects=50 bytes=1MiB)\n"
    )
    if "instrument" in output and "not built" in output:
        pytest.skip("needs Tare's instrument: apt-get install valgrind, and build again")
    assert code == 8, output
    assert "50% tests passed, 1 tests failed out of 2" in output
    assert "objects" in output


def test_without_tare_a_check_is_skipped_unless_required(tested: Tested) -> None:
    nowhere = "/nowhere/tare"
    code, output = tested(KEPT, nowhere)
    assert code == 0
    assert "kept .............................***Skipped" in output
    code, output = tested(KEPT.replace(")", " REQUIRED)"), nowhere)
    assert code == 8
    assert f"{nowhere} is not installed" in output


@pytest.mark.parametrize("content", ["#!/nowhere/python", "#!/bin/sh\nexit 1"])
def test_a_tare_that_does_not_start_breaks_no_check(
    tested: Tested, tmp_path: Path, content: str
) -> None:
    broken = tmp_path / "broken"
    broken.write_text(content + "\n")
    broken.chmod(0o755)
    code, output = tested(KEPT, str(broken))
    assert code == 0
    assert "***Skipped" in output


@pytest.mark.parametrize(
    ("end", "skipped"), [("exit 3", True), ("exit 4", True), ("exit 2", False), ("exit 1", False)]
)
def test_what_tare_cannot_measure_here_is_skipped(
    tested: Tested, tmp_path: Path, end: str, skipped: bool
) -> None:
    other = tmp_path / "other"
    other.write_text(f'#!/bin/sh\n[ "$2" = --help ] || {end}\n')
    other.chmod(0o755)
    code, output = tested(KEPT, str(other))
    assert ("***Skipped" in output, code == 0) == (skipped, skipped)


@pytest.mark.parametrize(
    ("check", "told"),
    [
        ("tare_add_check(x TARGET fill)", "give LIMITS, and TARGET or COMMAND"),
        ("tare_add_check(x LIMITS peak=1)", "give LIMITS, and TARGET or COMMAND"),
        ("tare_add_check(x TARGET fill LIMITS peak)", "'peak' is not metric=most"),
        ("tare_add_check(x fill LIMITS peak=1)", "what is fill?"),
    ],
)
def test_a_call_that_cannot_be_read_is_told(tested: Tested, check: str, told: str) -> None:
    code, output = tested(check)
    assert code == 1
    assert told in " ".join(output.split())


def test_a_limit_of_no_metric_fails(tested: Tested) -> None:
    code, output = tested("tare_add_check(x TARGET fill LIMITS objcts=1)")
    assert code == 8
    assert "did you mean objects?" in output
