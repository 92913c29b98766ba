"""The programs of tests/native/CMakeLists.txt. As a command, all of them are built at once."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

COMPILERS = {"cc": "c++", "clang": "clang++"}


def built(name: str, compiler: str = "cc", *, shown: bool = False) -> Path:
    """The program of that name, built if need be: by one test at a time. ``shown``: what the build
    prints is printed at once, else when it fails."""
    folder = ROOT / "build" / "native" / compiler
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "build.ninja").exists():
            _run("cmake", "-G", "Ninja", "-S", ROOT / "tests" / "native", "-B", folder,
                 f"-DCMAKE_C_COMPILER={compiler}",
                 f"-DCMAKE_CXX_COMPILER={COMPILERS[compiler]}", "-DTARE_TESTS_DEBUG=-g1",
                 shown=shown)  # fmt: skip
        _run("cmake", "--build", folder, "--target", name, shown=shown)
    return folder / name


def _run(*command: str | Path, shown: bool) -> None:
    ran = subprocess.run(command, capture_output=not shown, text=True)
    assert ran.returncode == 0, f"{ran.stdout or ''}{ran.stderr or ''}"


if __name__ == "__main__":
    try:
        built("native-tests", shown=True)
    except AssertionError:
        sys.exit(1)
