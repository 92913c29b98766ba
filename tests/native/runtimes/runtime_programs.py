"""Programs of other runtimes for tests, and what runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tare.memory_managers.manager import resolve
from tare.observers import runner
from tare.programs.program import Program
from tare.records.runs import Limits, Outcome
from tests.support import ROOT

WORKLOADS = ROOT / "workloads" / "runtimes"
GO, NODE, OCAML = shutil.which("go"), shutil.which("node"), shutil.which("ocamlopt")
PYTHON = shutil.which("python3", path="/usr/bin:/bin")
"""Not a script in front of it, which would be other processes."""
needs_go = pytest.mark.skipif(GO is None, reason="no Go (package golang-go)")
needs_node = pytest.mark.skipif(NODE is None, reason="no Node (package nodejs)")
needs_ocaml = pytest.mark.skipif(OCAML is None, reason="no OCaml (package ocaml-nox)")
needs_python = pytest.mark.skipif(PYTHON is None, reason="no Python in /usr/bin (package python3)")
SMALL = ("3", "2000", "20000")
"""Iterations, slots and records of the program `records` of each language."""
DIGEST_OF_SMALL = "3cce5d3d"


def build_go(source: Path, target: Path) -> Path:
    assert GO is not None
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    subprocess.run([GO, "build", "-p", "2", "-o", target, source], check=True, env=environment)
    return target


def run_once(
    folder: Path, manager: str, *argv: str | Path, timeout: float | None = None, **more: Any
) -> Outcome:
    """One run of a command under a manager, with its output kept in ``folder``."""
    program = Program("test", tuple(map(str, argv)), **more)
    output = folder / "output"
    output.unlink(missing_ok=True)
    return runner.run_once(program, resolve(manager), Limits(timeout), folder, output)
