#!/usr/bin/env python3
"""Which commands work in which system, each by running it there.

    scripts/try_wheel.py try NAME WHEEL RESULT     in a system; needs venv, pipx, and the network
    scripts/try_wheel.py here NAME RESULT          by the Tare that is here, built from source
    scripts/try_wheel.py musl RESULT               the same of programs that are linked with musl
    scripts/try_wheel.py table RESULT…             of several systems
    scripts/try_wheel.py page RESULT…              the same, kept in docs/systems.json, and as the
                                                   table of docs/systems.md

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PERL = "my %h; for my $i (1..60000) { $h{$i % 5000} = 'x' x ($i % 90) } print scalar(keys %h)"
WITH_PERL = ["perl", "-e", PERL]
ALLOCATORS = ["-m", "glibc", "-m", "mimalloc", "-m", "jemalloc"]
TESTS = ["tests/unit", "-m", "not soak and not thorough", "-n", "2"]
TESTS_WHERE_SLOW = [f"tests/unit/{part}" for part in ("programs", "observers", "memory_managers")]
NEEDED_BY_TESTS = (
    "pytest pytest-timeout pytest-xdist hypothesis jsonschema duckdb scipy pandas".split()
)
OF_MUSL = ["-m", "own", "-m", "mimalloc", "-m", "jemalloc"]
CHURN = """
#include <stdlib.h>
int main(void) {
  for (int i = 0; i < 200000; ++i) { char* volatile p = malloc(16 + i % 90); *p = 1; free(p); }
  return 0;
}
"""
KEEP = """
#include <stdlib.h>
int main(void) {
  static char* kept[5000];
  for (int i = 0; i < 60000; ++i) {
    free(kept[i % 5000]);
    *(kept[i % 5000] = malloc(16 + i % 90)) = 1;
  }
  return 0;
}
"""
PAGE, KEPT = Path("docs/systems.md"), Path("docs/systems.json")
FACTS = ("system", "machine", "day", "libc", "python", "wheel")
HELPERS = (
    "python3 -m venv",
    "uv pip install",
    "pip install uv",
    "tare of uv",
    "pip install pytest",
    "unit tests in part",
)
MARKS = {"works": "✓", "left out": "left out", "failed": "fails", "": "–"}
LEFT_OUT = 3
SECONDS = 1200


def main() -> int:
    match sys.argv[1:]:
        case ["try", name, wheel, result]:
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                steps = of_wheel(Path(wheel).resolve(), Path(folder))
                return attempts(name, Path(wheel).name, steps, Path(folder), Path(result))
        case ["here", name, result]:
            with tempfile.TemporaryDirectory() as folder:
                return attempts(name, "", of_this(), Path(folder), Path(result))
        case ["musl", result]:
            with tempfile.TemporaryDirectory() as folder:
                steps = of_musl(Path(folder))
                return attempts("programs of musl", "", steps, Path(folder), Path(result))
        case ["table", *results] if results:
            return print_table([json.loads(Path(result).read_text()) for result in results])
        case ["page", *results] if results:
            return write_page([json.loads(Path(result).read_text()) for result in results])
    print(__doc__, file=sys.stderr)
    return 2


Steps = Iterator[tuple[str, list[str]]]


def attempts(name: str, wheel: str, commands: Steps, folder: Path, result: Path) -> int:
    """Run each of ``commands`` in ``folder``, and write what comes of it to ``result``."""
    steps: list[dict[str, Any]] = []
    found: dict[str, Any] = {
        "system": name,
        "machine": platform.machine(),
        "day": time.strftime("%Y-%m-%d"),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "compiler": shutil.which("cc") or "none",
        "wheel": wheel,
        "steps": steps,
    }
    for step, command in commands:
        steps.append(attempt(step, command, folder))
        print(f"{name}: {step}: {steps[-1]['state']}", file=sys.stderr, flush=True)
        result.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any(step["state"] == "failed" for step in steps) else 0


def of_wheel(wheel: Path, folder: Path) -> Steps:
    venv = folder / "venv"
    python, tare = str(venv / "bin" / "python"), str(venv / "bin" / "tare")
    pip = [str(venv / "bin" / "pip"), "install", "-q"]
    of_venv, short, tests = [sys.executable, "-m", "venv"], [], TESTS
    uv = shutil.which("uv")  # of another processor: this one is emulated, and slow
    if uv:
        pip = [uv, "pip", "install", "-q", "--native-tls", "--python", python]
        # V8 draws the figures of a page, in minutes.
        of_venv, short, tests = [*of_venv, "--without-pip"], ["--no-page"], TESTS_WHERE_SLOW
    yield "python3 -m venv", [*of_venv, str(venv)]
    yield "uv pip install" if uv else "pip install", [*pip, str(wheel)]
    yield "tare doctor", [tare, "doctor"]
    for step, command in of_commands(tare, ALLOCATORS, kernel_of(venv), WITH_PERL):
        yield step, command if step == "tare trace" else [*command[:2], *short, *command[2:]]
    if not uv:
        yield "pipx run", ["pipx", "run", "--spec", str(wheel), "tare", "--version"]
        yield "pip install uv", [*pip, "uv"]
    of_uv = [uv or str(venv / "bin" / "uv"), "tool", "install", "--native-tls", "--force"]
    yield "uv tool install", [*of_uv, str(wheel)]
    of_tool = [str(folder / "bin" / "tare"), "compare", *short, "-n", "2"]
    yield "tare of uv", [*of_tool, *ALLOCATORS, "--", *WITH_PERL]
    if Path("tests").is_dir():
        yield "pip install pytest", [*pip, *NEEDED_BY_TESTS]
        yield f"unit tests{' in part' if uv else ''}", [python, "-m", "pytest", "-q", *tests]


def of_commands(tare: str, allocators: list[str], kernel: list[str], other: list[str]) -> Steps:
    """The commands that measure a program: ``kernel``, or ``other``, whose objects live long."""
    first = allocators[:2]
    yield "tare compare", [tare, "compare", "-n", "3", *allocators, "-o", "compare", "--", *kernel]
    yield "tare count", [tare, "count", *allocators, "-o", "count", "--", *kernel]
    yield "tare trace", [tare, "trace", *first, "-o", "t.tare", "--", *other]
    yield "tare drag", [tare, "drag", *first, "-o", "drag", "--", *other]
    yield "tare space", [tare, "space", *allocators, "-o", "space", "--", *other]
    yield "tare delay", [tare, "delay", *first, "-o", "delay", "--", *kernel]
    managers = ["-m", "glibc", "-m", "mimalloc", "-m", "marksweep(glibc, every=256KiB)"]
    yield "tare replay", [tare, "replay", *managers, "-n", "3", "-o", "replay", "t.tare"]
    plans = ["-m", "immix", "-m", "semispace"]
    yield "tare replay -m immix", [tare, "replay", *plans, "-n", "3", "-o", "collect", "t.tare"]
    yield "tare minheap", [tare, "minheap", "-m", "glibc", "-m", "immix", "-o", "least", "t.tare"]
    yield "tare lbo", [tare, "lbo", *plans, "-m", "glibc", "-n", "3", "-o", "lbo", "t.tare"]
    swept = ["-m", "marksweep(glibc, every=64KiB)"]
    threads = [str(Path(kernel[0]).with_name("thread-churn")), *kernel[1:]]
    if allocators is ALLOCATORS:
        yield (
            "tare compare -m marksweep(glibc)",
            [tare, "compare", "-n", "1", "--timeout", "300", *swept, "-o", "sweep", "--", *threads],
        )
    yield "tare memsys", [tare, "memsys", *first, "-o", "memsys", "--", *kernel]
    yield "tare weigh", [tare, "weigh", "--quick", "-o", "weigh", "--", *other]


def kernel_of(venv: Path) -> list[str]:
    """The kernel list-tree of the Tare that is installed in ``venv``, as a command."""
    found = [*venv.glob("lib/python*/site-packages/tare/_native/kernels/list-tree"), Path("none")]
    return [str(found[0]), "--scale", "0.1"]


def of_this() -> Steps:
    tare = Path(sys.executable).with_name("tare")
    yield "tare doctor", [str(tare), "doctor"]
    yield from of_commands(str(tare), ALLOCATORS, kernel_of(tare.parent.parent), WITH_PERL)


def of_musl(folder: Path) -> Steps:
    """Programs that are linked with musl, which musl-gcc makes here."""
    programs = {"churn": CHURN, "keep": KEEP}
    for name, source in programs.items():
        (folder / f"{name}.c").write_text(source)
        yield f"musl-gcc {name}.c", ["musl-gcc", "-O1", "-g", "-o", name, f"{name}.c"]
    tare = str(Path(sys.executable).with_name("tare"))
    kernel, other = ([str(folder / name)] for name in programs)
    yield from of_commands(tare, OF_MUSL, kernel, other)


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


def write_page(results: list[dict[str, Any]]) -> int:
    """Keeps ``results`` in docs/systems.json in place of older ones of the same systems, and renews
    the table."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else []
    new = {result["system"] for result in results}
    kept = [each for each in kept if each["system"] not in new] + [_kept(each) for each in results]
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    before, _, rest = PAGE.read_text().partition("\n|")
    behind = rest[rest.index("\n\n") :]
    PAGE.write_text(before + "\n" + "\n".join(rows(kept)) + behind)
    return 0


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    """Without what was printed, but the last line where something did not work."""
    steps = [
        {
            "step": step["step"],
            "state": step["state"],
            "said": step["said"]
            if step["state"] != "works" or step["step"].startswith("unit tests")
            else "",
        }
        for step in result["steps"]
    ]
    return {**{name: result[name] for name in FACTS}, "steps": steps}


def rows(kept: list[dict[str, Any]]) -> list[str]:
    """The table of docs/systems.md: a row for each system, the wheel first, emulated ones after the
    others, and a column for all steps that went alike."""
    kept = sorted(kept, key=lambda result: (not result["wheel"], " under " in result["system"]))
    states = [{step["step"]: step for step in result["steps"]} for result in kept]
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(step["step"] for result in kept for step in result["steps"]):
        if name not in HELPERS and not name.startswith("musl-gcc"):
            cells = tuple(
                _cell(name, state.get(name) or state.get(f"{name} in part")) for state in states
            )
            alike.setdefault(cells, []).append(name.removeprefix("tare "))
    heads = [
        f"{result['system']}{', the wheel' if result['wheel'] else ''}, "
        f"{result['libc']}, Python {result['python']}"
        for result in kept
    ]
    columns = [["", *heads]] + [[", ".join(names), *cells] for cells, names in alike.items()]
    head, *rest = zip(*columns, strict=True)
    return ["|" + "|".join(line) + "|" for line in (head, ["---"] * len(head), *rest)]


def _cell(name: str, step: dict[str, Any] | None) -> str:
    if step is None:
        return MARKS[""]
    if name == "unit tests" and step["said"]:
        part = str(step["step"]).removeprefix(name)
        return str(step["said"]).partition(" in ")[0].strip("= ") + part
    return MARKS[step["state"]]


if __name__ == "__main__":
    sys.exit(main())
