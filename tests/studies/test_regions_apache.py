"""Section 7.5 of Berger (2002): a calculator in Apache, with its numbers in the request's pool."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

CALCULATOR = ROOT / "workloads" / "regions" / "calculator"
MIB = 1 << 20

DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include "calculator.h"
static void *take(void *live, size_t bytes) { ++*(long *)live; return malloc(bytes); }
static void give(void *live, void *object) { --*(long *)live; free(object); }
int main(void) {
  static char program[1 << 20];
  program[fread(program, 1, sizeof program - 1, stdin)] = '\\0';
  long live = 0;
  char *answer = calculate((struct calculator_memory){take, give, &live}, program);
  printf("%ld\\n%s", live, answer);
  free(answer);
  return 0;
}
"""


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calculator as a program, with sanitizers: prints what is left, then the answer."""
    folder = tmp_path_factory.mktemp("calculator")
    (folder / "driver.c").write_text(DRIVER)
    program = folder / "driver"
    subprocess.run(
        ["cc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", f"-I{CALCULATOR}", folder / "driver.c",
         CALCULATOR / "calculator.c", "-o", program],
        check=True,
    )  # fmt: skip
    return program


def calculated(calculator: Path, program: str) -> tuple[int, list[str]]:
    """How many objects were left besides, and the lines of the answer."""
    ran = subprocess.run(
        [calculator],
        input=program,
        capture_output=True,
        text=True,
        check=True,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
    )
    left, *lines = ran.stdout.splitlines()
    return int(left) - 1, lines


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0, 1),
        (999_999_999, 1_000_000_000),
        (10**40 + 7, 10**9),
        (3**200, 7**91),
        (10**100, 10**50 - 1),
        (12345678901234567890123456789, 98765432109876543210),
        (2**521 - 1, 2**89 - 1),
    ],
)
def test_the_calculator_against_python(calculator: Path, a: int, b: int) -> None:
    program = (
        f"a = {a}; b = {b}; print a + b; print a * b; print a / b; print a % b; print b % a + 0;"
        if a
        else f"a = {a}; b = {b}; print a + b; print a * b; print a / b; print a % b; print a;"
    )
    wanted = [a + b, a * b, a // b, a % b, b % a if a else a]
    assert calculated(calculator, program) == (0, [str(number) for number in wanted])


def test_the_language(calculator: Path) -> None:
    program = """
    n = 30; product = 1;
    while (n > 0) {
      if (n % 2 == 0) { while (0) { print 1; } product = product * n; }
      if (n < 3) { if (n == 2) { print n; } }
      n = n - 1;
    }
    print product; print (1 + 2) * (3 + 4); print missing;
    """
    product = 1
    for even in range(2, 31, 2):
        product *= even
    assert calculated(calculator, program) == (0, ["2", str(product), "21", "0"])


@pytest.mark.parametrize(
    "program",
    ["print 1 - 2;", "print 1 / 0;", "print 1", "while (1) {", "x = ;", "}", "(" * 500,
     "print " + "(" * 200 + "1;", "x" * 100 + " = 1;", "if (0) { x = 1;", "print 1 % 0;",
     "".join(f"v{n} = 1; " for n in range(100)), "1 = 2;", "print \x01;"],
)  # fmt: skip
def test_a_wrong_program_gets_a_message(calculator: Path, program: str) -> None:
    _, lines = calculated(calculator, program)
    assert lines[0].startswith("error: ")


def test_single_frees_in_a_request_of_apache() -> None:
    if not Path("/usr/sbin/apache2").exists() or shutil.which("apxs2") is None:
        pytest.skip("apache2 or its headers are not installed (apache2-bin, apache2-dev)")
    ran = subprocess.run(
        [sys.executable, CALCULATOR / "measure.py", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    own, region, reap_kept, reap, emulation = json.loads(ran.stdout)
    for answer in (own, region, reap_kept, reap, emulation):
        assert answer["text"] == "7919\n"
        assert answer["allocated_bytes"] == own["allocated_bytes"] > 5 * MIB
    for answer in (own, region, reap_kept):
        assert answer["held_bytes"] > 0.9 * answer["allocated_bytes"]
    for answer in (reap, emulation):
        assert answer["frees"]
        assert answer["held_bytes"] < MIB
    assert not own["frees"]
