"""Runs the tests: `python -m tests [--beside LOOPS] [what pytest takes]`.

A test that fails is run once more by itself, when all others have ended. One that passes then is
unsteady: it is listed last, with its first failure. Ends with pytest's exit code, 1 for a failure
of both runs or too many unsteady tests: more than two, or any beside busy loops.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MOST_AGAIN = 20
"""So many failures are no unsteadiness."""
MOST_UNSTEADY = 2
SHARED_OUT = ["--dist", "loadfile", "--no-loadscope-reorder"]
"""In the order of tests/conftest.py; else files with few tests, which are long ones, come last."""
WORKERS, WORKERS_BESIDE_LOOPS = 2, 16
"""Beside loops a worker has little of the processor, and more of them disturb each other more."""
MOST_LINES = 60
"""Of a failure: its end says why."""
BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000): pass
"""


class Failures:
    """What pytest hands to its plugins; with xdist, in the process that hands out the tests."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            kept = report.longreprtext.splitlines()[-MOST_LINES:]
            self.reasons.setdefault(report.nodeid, "\n".join(kept))


class Only:
    """Leaves one test of what is collected."""

    def __init__(self, test: str) -> None:
        self.test = test

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid == self.test]


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """They end with this process, too, however it ends."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
        for loop in running:
            loop.wait()


def passes(test: str, arguments: list[str]) -> bool:
    """In a process of its own, with no other test beside it."""
    command = [sys.executable, "-m", "tests", "--only", test, *arguments]
    return subprocess.run(command).returncode == 0


def told(title: str, reasons: dict[str, str]) -> None:
    for test, reason in reasons.items():
        print(f"\n== {title}: {test} ==\n{reason}", flush=True)


def run(arguments: list[str], loops: int) -> int:
    """The exit code."""
    failures = Failures()
    workers = WORKERS_BESIDE_LOOPS if loops else WORKERS
    with busy(loops):
        code = pytest.main(["-n", str(workers), *SHARED_OUT, *arguments], plugins=[failures])
    reasons = failures.reasons
    if code != pytest.ExitCode.TESTS_FAILED or not reasons:
        return int(code)
    if len(reasons) > MOST_AGAIN:
        print(f"\n{len(reasons)} tests failed: too many to run each once more by itself")
        return int(code)
    print(f"\n{len(reasons)} failed: each runs once more by itself", flush=True)
    unsteady = {test: why for test, why in reasons.items() if passes(test, arguments)}
    told("failed twice", {test: why for test, why in reasons.items() if test not in unsteady})
    told("unsteady, passed by itself; its first failure", unsteady)
    most = 0 if loops else MOST_UNSTEADY
    if len(unsteady) > most:
        print(f"\n{len(unsteady)} unsteady tests: at most {most} may be")
    return int(len(unsteady) < len(reasons) or len(unsteady) > most)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests", add_help=False, allow_abbrev=False)
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--only")
    mine, arguments = parser.parse_known_args()
    if mine.only is not None:
        return int(pytest.main([*arguments, "-n", "0"], plugins=[Only(mine.only)]))
    return run(arguments, mine.beside)


if __name__ == "__main__":
    sys.exit(main())
