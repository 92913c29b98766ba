"""The programs of tests/native/CMakeLists.txt. As a command, all of them are built at once."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from tests.support import ROOT

COMPILERS = {"cc": "c++", "clang": "clang++"}


def built(name: str, compiler: str = "cc") -> Path:
    """The program of that name, built if need be: by one test at a time."""
    folder = ROOT / "build" / "native" / compiler
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "build.ninja").exists():
            _run("cmake", "-G", "Ninja", "-S", ROOT / "tests" / "native", "-B", folder,
                 f"-DCMAKE_C_COMPILER={compiler}",
                 f"-DCMAKE_CXX_COMPILER={COMPILERS[compiler]}")  # fmt: skip
        _run("cmake", "--build", folder, "--target", name)
    return folder / name


def _run(*command: str | Path) -> None:
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


if __name__ == "__main__":
    built("native-tests")
