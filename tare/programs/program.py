"""A program: a command with its input and environment."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.base.files import hash_file
from tare.base.text import writable
from tare.programs.elf import is_of_musl, refuse_immune

NAME_LIMIT = 200
_SHELL_SYNTAX = frozenset(" |&;<>()$`*?\t\n")


PORT = "{port}"
"""In the commands of a service: a port that nothing listens on, another for each start."""


@dataclass(frozen=True)
class Service:
    """How a server is put under load. ``load`` and ``stop`` are the words of commands; a load that
    begins with a URL is Tare's own, with its options behind it; no ``stop`` is a signal. ``ready``
    says how to tell that it can begin."""

    load: tuple[str, ...]
    ready: str = f"tcp:{PORT}"
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """``argv[0]`` is looked up as a shell would. ``directory`` None is the current one;
    ``scratch`` gives every run a fresh empty directory instead. ``output_sha256`` is the expected
    hash of standard output; empty leaves the baseline to set it. Times are seconds."""

    name: str
    argv: tuple[str, ...]
    stdin: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    scratch: bool = False
    ignore_output: bool = False
    output_sha256: str = ""
    timeout_seconds: float | None = None
    service: Service | None = None


def program_from_command(
    argv: Sequence[str],
    *,
    name: str = "",
    stdin: Path | None = None,
    ignore_output: bool = False,
    timeout_seconds: float | None = None,
) -> Program:
    """The program that a command line names."""
    if not argv or not argv[0]:
        raise UsageError("no program given", "put it after --, as in: tare weigh -- gawk -f x.awk")
    if any("\0" in argument for argument in argv):
        raise UsageError("a program's arguments cannot hold a NUL character")
    return Program(
        name=name or display_name(argv),
        argv=tuple(argv),
        stdin=stdin,
        ignore_output=ignore_output,
        timeout_seconds=timeout_seconds,
    )


def display_name(argv: Sequence[str]) -> str:
    """The command as it could be typed, cut where it grows long."""
    text = writable(shlex.join([Path(argv[0]).name or argv[0], *argv[1:]]))
    return text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + "…"


def find_executable(program: Program) -> Path:
    """The file that would run. Raises UsageError where a shell would say "not found"."""
    first = program.argv[0]
    if "/" in first:
        path = (program.directory or Path.cwd()) / first
        if path.is_dir():
            raise UsageError(f"{first} is a folder, not a program")
        if not path.exists():
            raise UsageError(f"{first} does not exist")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{first} is not executable", f"chmod +x {shlex.quote(first)}")
        return path
    search = program.environment.get("PATH", os.environ.get("PATH", os.defpath))
    found = shutil.which(first, path=search)
    if found is None:
        raise UsageError(
            f"the program '{first}' was not found on PATH",
            f"to run a line of the shell: sh -c {shlex.quote(first)}"
            if _SHELL_SYNTAX.intersection(first)
            else "give its path, or install the package that holds it",
        )
    return Path(found)


def check_program(program: Program, preloads: bool = True, narrow: bool = False) -> Path:
    """The executable, after every check that can be made without running it. With ``preloads``
    a manager is to be put under it; with ``narrow`` it may be a 32-bit program."""
    executable = find_executable(program)
    if program.stdin is not None:
        if not program.stdin.exists():
            raise UsageError(f"the input file {program.stdin} does not exist")
        if program.stdin.is_dir() or not os.access(program.stdin, os.R_OK):
            raise UsageError(f"the input file {program.stdin} cannot be read")
    if preloads:
        refuse_immune(executable, narrow)
    return executable


def describe_program(program: Program, executable: Path) -> dict[str, Any]:
    """What ``run.json`` records of a program, hashes of its file and its input included."""
    return {
        "name": program.name,
        "argv": list(program.argv),
        "executable": str(executable.resolve()),
        "executable_sha256": hash_file(executable),
        "stdin": str(program.stdin) if program.stdin else None,
        "stdin_sha256": hash_file(program.stdin) if program.stdin else None,
        "environment": dict(program.environment),
        "directory": str(program.directory or Path.cwd()),
        "scratch": program.scratch,
        "ignore_output": program.ignore_output,
        "output_sha256": program.output_sha256,
        "timeout_seconds": program.timeout_seconds,
        "with_musl": is_of_musl(executable),
        **({"service": asdict(program.service)} if program.service else {}),
    }
