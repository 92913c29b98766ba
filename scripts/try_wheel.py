#!/usr/bin/env python3
"""What of a wheel works where it is installed.

    scripts/try_wheel.py try NAME WHEEL RESULT     in a system; needs venv, pipx, and the network
    scripts/try_wheel.py table RESULT…             of several systems
    scripts/try_wheel.py page RESULT…              the same, as the rows of docs/systems.md

In a system, each command is one of: works, left out (Tare's exit code 3: it says what is missing),
failed. RESULT is JSON. scripts/try-wheel.sh makes the systems.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PERL = "my %h; for my $i (1..60000) { $h{$i % 5000} = 'x' x ($i % 90) } print scalar(keys %h)"
ALLOCATORS = ["-m", "glibc", "-m", "mimalloc", "-m", "jemalloc"]
TESTS = ["tests/unit", "-m", "not soak and not thorough", "-n", "2"]
NEEDED_BY_TESTS = (
    "pytest pytest-timeout pytest-xdist hypothesis jsonschema duckdb scipy pandas".split()
)
LEFT_OUT = 3
SECONDS = 1200


def main() -> int:
    match sys.argv[1:]:
        case ["try", name, wheel, result]:
            return try_here(name, Path(wheel).resolve(), Path(result))
        case ["table", *results] if results:
            return print_table([json.loads(Path(result).read_text()) for result in results])
        case ["page", *results] if results:
            return print_rows([json.loads(Path(result).read_text()) for result in results])
    print(__doc__, file=sys.stderr)
    return 2


def try_here(name: str, wheel: Path, result: Path) -> int:
    steps: list[dict[str, Any]] = []
    found: dict[str, Any] = {
        "system": name,
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "compiler": shutil.which("cc") or "none",
        "wheel": wheel.name,
        "steps": steps,
    }
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for step, command in commands(wheel, Path(folder)):
            steps.append(attempt(step, command, Path(folder)))
            print(f"{name}: {step}: {steps[-1]['state']}", file=sys.stderr, flush=True)
            result.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any(step["state"] == "failed" for step in steps) else 0


def commands(wheel: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    venv = folder / "venv"
    pip, tare = [str(venv / "bin" / "pip"), "install", "-q"], str(venv / "bin" / "tare")
    yield "python3 -m venv", [sys.executable, "-m", "venv", str(venv)]
    yield "pip install", [*pip, str(wheel)]
    yield "tare doctor", [tare, "doctor"]
    kernels = [*venv.glob("lib/python*/site-packages/tare/_native/kernels/list-tree"), Path("none")]
    kernel = [str(kernels[0]), "--scale", "0.1"]
    perl = ["perl", "-e", PERL]
    yield "tare compare", [tare, "compare", "-n", "3", *ALLOCATORS, "-o", "compare", "--", *kernel]
    yield "tare count", [tare, "count", *ALLOCATORS, "-o", "count", "--", *kernel]
    yield "tare trace", [tare, "trace", "--last-use", "-o", "t.tare", "--", *perl]
    yield "tare drag", [tare, "drag", "-o", "drag", "--", *perl]
    yield "tare space", [tare, "space", *ALLOCATORS, "-o", "space", "--", *perl]
    managers = ["-m", "glibc", "-m", "immix", "-m", "marksweep(glibc, every=256KiB)"]
    yield "tare replay", [tare, "replay", *managers, "-n", "3", "-o", "replay", "t.tare"]
    yield "tare memsys", [tare, "memsys", "-m", "glibc", "-o", "memsys", "--", *kernel]
    yield "tare weigh", [tare, "weigh", "--quick", "-o", "weigh", "--", *perl]
    yield "pipx run", ["pipx", "run", "--spec", str(wheel), "tare", "--version"]
    yield "pip install uv", [*pip, "uv"]
    uv = str(venv / "bin" / "uv")
    yield "uv tool install", [uv, "tool", "install", "--native-tls", "--force", str(wheel)]
    yield (
        "tare of uv",
        [str(folder / "bin" / "tare"), "compare", "-n", "2", *ALLOCATORS, "--", *perl],
    )
    if Path("tests").is_dir():
        yield "pip install pytest", [*pip, *NEEDED_BY_TESTS]
        yield "unit tests", [str(venv / "bin" / "python"), "-m", "pytest", "-q", *TESTS]


def attempt(step: str, command: list[str], folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "UV_TOOL_BIN_DIR": str(folder / "bin")}
    environment |= {
        "PIP_NO_COMPILE": "1",
        "UV_TOOL_DIR": str(folder / "uv"),
        "PIPX_HOME": str(folder / "pipx"),
    }
    cwd = Path.cwd() if "pytest" in command else folder
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
        code, output = done.returncode, done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        code, output = -1, str(error)
    of_tare = step.startswith("tare ")
    state = "works" if code == 0 else "left out" if of_tare and code == LEFT_OUT else "failed"
    lines = [line for line in output.splitlines() if line.strip()]
    return {
        "step": step,
        "state": state,
        "code": code,
        "seconds": round(time.monotonic() - began, 1),
        "said": lines[-1].strip() if lines else "",
        "output": "" if state == "works" and step != "tare doctor" else output[-6000:],
    }


def print_table(results: list[dict[str, Any]]) -> int:
    steps = list(dict.fromkeys(step["step"] for result in results for step in result["steps"]))
    states = [{step["step"]: step for step in result["steps"]} for result in results]
    rows = [["", *(result["system"] for result in results)]]
    for fact in ("libc", "python", "compiler"):
        rows.append([fact, *(result[fact] for result in results)])
    for name in steps:
        rows.append([name, *(state[name]["state"] if name in state else "" for state in states)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    wrong = 0
    for result in results:
        for step in result["steps"]:
            if step["state"] != "works":
                wrong += step["state"] == "failed"
                print(f"{result['system']}, {step['step']}, {step['state']}: {step['said']}")
    return 1 if wrong else 0


def print_rows(results: list[dict[str, Any]]) -> int:
    """A row for each system; a cell names what did not work, of several steps."""
    for result in results:
        states = {step["step"]: step for step in result["steps"]}
        tests = states.get("unit tests", {"said": "not tried"})["said"]
        cells = [
            f"{result['system']}, {result['libc']}, Python {result['python']}",
            _together(states, lambda name: name.startswith(("python3", "pip ", "pipx", "uv "))),
            _together(states, lambda name: name.startswith("tare ")),
            tests.partition(" in ")[0].strip("= "),
        ]
        print(f"| {' | '.join(cells)} |")
    return 0


def _together(states: dict[str, dict[str, Any]], belongs: Callable[[str], bool]) -> str:
    found = [step for name, step in states.items() if belongs(name)]
    wrong = [f"{step['step']}: {step['state']}" for step in found if step["state"] != "works"]
    return "; ".join(wrong) or ("works" if found else "not tried")


if __name__ == "__main__":
    sys.exit(main())
