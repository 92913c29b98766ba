"""Suites: files that list programs, with how their inputs are made and what they need.

A suite file is read and checked here, and nothing else: who runs the programs is not this module's
business. ``ProgramTable`` and docs/suites.md describe the format.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from tare.base.documents import DocumentError, PlainText, Sha256, Text, read_toml
from tare.base.errors import TareError, UsageError
from tare.base.native import CHECKOUT, NATIVE, native_roots
from tare.base.process_groups import run_in_group
from tare.programs.program import PORT, Program, Service

DEFAULT_TIMEOUT_SECONDS = 60.0
MAX_TIMEOUT_SECONDS = 24 * 3600.0
PREPARE_TIMEOUT_SECONDS = 15 * 60.0

# Doubled braces give a literal {word}; all other braces stand for themselves, as in awk programs.
_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")
# Only a command has a run of its own, and so a scratch folder.
_PREPARE_PLACEHOLDERS = frozenset({"workloads", "kernels", "suite", "inputs"})
_COMMAND_PLACEHOLDERS = _PREPARE_PLACEHOLDERS | {"scratch"}
_SERVICE_PLACEHOLDERS = frozenset({"workloads", "suite", "inputs", "port"})
# What the run sets for its own purposes: a program that changes it would not be measured.
_RESERVED_VARIABLES = frozenset({"LD_PRELOAD", "LD_AUDIT"})


Name = Annotated[str, Meta(pattern=r"\A[a-z0-9-]{1,64}\Z", description="1 to 64 of a-z, 0-9 and -")]
Package = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9+.-]+(\|[a-z0-9][a-z0-9+.-]+)*\Z")]
"""A Debian package, or several of which one is enough; the first is the one to install."""
Variable = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z")]
Located = Annotated[
    str,
    Meta(
        pattern=r"\A[/{][^\0]*\Z",
        description="a string, an absolute path or one that begins with a placeholder",
    ),
]
Command = Annotated[
    tuple[PlainText, ...],
    Meta(
        min_length=1,
        description="a list of strings that hold no null character; it must begin with a program",
    ),
]

Limit = Annotated[str | int | float, Meta(description="a number, or one with its unit")]


class ServiceTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[program.service]``: the program is a server, for ``tare serve``."""

    load: Command
    """The command that puts it under load, or a URL and options of Tare's own load."""
    ready: Text = f"tcp:{PORT}"
    """How to tell that it is ready, as for ``--ready``."""
    stop: tuple[PlainText, ...] = ()
    """The command that ends it, by default a signal."""


class ProgramTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[program]]``."""

    name: Name
    """Once in the file."""
    description: Text
    """What it does, for lists."""
    command: Command
    """The program and its arguments. There is no shell."""
    paper: Text = ""
    """The program of a paper that it descends from."""
    packages: Annotated[
        tuple[Package, ...], Meta(description="a list of strings, names of packages")
    ] = ()
    """Debian packages that it needs. Of ``a|b`` one is enough."""
    input: Located | None = None
    """The file for standard input, by default an empty one."""
    directory: Located | None = None
    """Where it runs, by default in a fresh, empty folder."""
    prepare: Annotated[
        tuple[Command, ...], Meta(description="a list of commands, each a list of strings")
    ] = ()
    """Commands that make the input, in a new folder of inputs."""
    environment: Annotated[
        dict[Variable, PlainText], Meta(description="a table of variables and strings")
    ] = {}
    """Added variables, except ``LD_PRELOAD`` and ``LD_AUDIT``."""
    output_sha256: Sha256 | None = None
    """SHA-256 of the standard output. Without it outputs are compared across managers only."""
    ignore_output: bool = False
    """For a program that prints times or addresses."""
    timeout_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=MAX_TIMEOUT_SECONDS,
            description=f"a number, more than 0 and at most {MAX_TIMEOUT_SECONDS:.0f}",
        ),
    ] = DEFAULT_TIMEOUT_SECONDS
    """How long a run may take. Under ``--study`` it may take 100 times as long."""
    manager: Text = ""
    """The manager that limits are for, by default glibc."""
    limits: dict[str, Limit] = {}
    """The most that metrics may be, for ``tare check``."""
    service: ServiceTable | None = None
    """How it is put under load. Its command can have ``{port}``."""

    def __post_init__(self) -> None:
        if self.ignore_output and self.output_sha256 is not None:
            raise ValueError("output_sha256: cannot be used with ignore_output")
        for name in sorted(_RESERVED_VARIABLES & set(self.environment)):
            raise ValueError(f"environment: {name} is set by Tare")
        made = frozenset() if self.prepare else frozenset({"inputs"})
        for command in self.prepare:
            _check_command("prepare", command, _PREPARE_PLACEHOLDERS)
        others = _PREPARE_PLACEHOLDERS - made
        alone = frozenset() if self.directory is None else frozenset({"scratch"})
        ports = frozenset({"port"} if self.service is not None else ())
        _check_command("command", self.command, (_COMMAND_PLACEHOLDERS | ports) - made - alone)
        if self.service is not None:
            _check_placeholders("load", self.service.load, _SERVICE_PLACEHOLDERS - made)
            _check_placeholders("stop", self.service.stop, _SERVICE_PLACEHOLDERS - made)
        _check_placeholders("directory", filter(None, (self.directory,)), others)
        _check_placeholders("input", () if self.input is None else (self.input,), others)
        _check_placeholders("environment", self.environment.values(), others)


class SuiteProgram(ProgramTable, frozen=True, kw_only=True):
    folder: Path


class SuiteTable(Struct, forbid_unknown_fields=True):
    """The file."""

    schema: Literal[1]
    """The version of this form."""
    name: Name
    """Shown in reports."""
    description: Text
    """What its programs have in common."""
    program: Annotated[
        tuple[ProgramTable, ...],
        Meta(min_length=1, description="a list of at least one [[program]] table"),
    ]
    """Its programs, in this order."""

    def __post_init__(self) -> None:
        names: set[str] = set()
        for program in self.program:
            if program.name in names:
                raise ValueError(f"program {program.name!r}: name: is used twice")
            names.add(program.name)


@dataclass(frozen=True)
class Suite:
    name: str
    description: str
    path: Path
    programs: tuple[SuiteProgram, ...]


@dataclass(frozen=True)
class Missing:
    """What a program needs and this machine does not have; false when there is nothing."""

    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.packages or self.files)

    @property
    def command(self) -> str:
        """The command that installs the packages; empty when no package is missing."""
        if not self.packages:
            return ""
        return "apt-get install --no-install-recommends " + " ".join(self.packages)

    def __str__(self) -> str:
        parts = []
        if self.packages:
            parts.append("packages not installed: " + ", ".join(self.packages))
        if self.files:
            parts.append("not found: " + ", ".join(self.files))
        return "; ".join(parts)


def _shipped(kind: str) -> Path:
    """The folder of the shipped suites or workloads, in a checkout or in the installed package."""
    if (CHECKOUT / "suites" / "quick.toml").is_file():
        return CHECKOUT / kind
    return _native_folder(kind)


def _native_folder(kind: str) -> Path:
    folders = [root / kind for root in native_roots()]
    return next((folder for folder in folders if folder.is_dir()), NATIVE / kind)


def suites_folder() -> Path:
    return _shipped("suites")


def workloads_folder() -> Path:
    return _shipped("workloads")


def kernels_folder() -> Path:
    """The folder of the built kernels; TARE_KERNELS points to another build of them."""
    elsewhere = os.environ.get("TARE_KERNELS")
    return Path(elsewhere).absolute() if elsewhere else _native_folder("kernels")


def cache_folder() -> Path:
    """The folder for what can be made again: TARE_CACHE, or `tare` in the user's cache folder."""
    own = os.environ.get("TARE_CACHE")
    if own:
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(shared):
        return Path(shared) / "tare"
    try:
        return Path.home() / ".cache" / "tare"
    except RuntimeError as error:
        raise TareError(
            "there is no home folder to keep made inputs in",
            "set TARE_CACHE to a folder that can be written to",
        ) from error


def shipped_suites() -> tuple[str, ...]:
    """The names of the suites that come with Tare."""
    return tuple(sorted(path.stem for path in suites_folder().glob("*.toml")))


def load_suite(name_or_path: str | os.PathLike[str]) -> Suite:
    """Reads a suite, given by the name of a shipped one or by the path of a file.

    Raises UsageError, with file, program and key, when the file is not a correct suite.
    """
    text = os.fspath(name_or_path)
    if os.sep in text or text.endswith(".toml"):
        path = Path(text).absolute()
    elif text in shipped_suites():
        path = suites_folder() / f"{text}.toml"
    else:
        raise UsageError(
            f"there is no suite named {text!r}",
            f"shipped suites: {', '.join(shipped_suites())}; "
            "a suite of your own is given by its path",
        )
    try:
        table = read_toml(path, SuiteTable)
    except DocumentError as error:
        raise UsageError(f"{path}: {error}") from None
    programs = [
        SuiteProgram(**structs.asdict(program), folder=path.parent) for program in table.program
    ]
    return Suite(table.name, table.description, path, tuple(programs))


def as_program(program: SuiteProgram) -> Program:
    """The program as the runner takes it; {scratch} in the command is left for the runner."""
    folders = {
        **_folders(program),
        "inputs": inputs_folder(program),
        "scratch": Path("{scratch}"),
        "port": Path(PORT),
    }
    service = program.service
    return Program(
        name=program.name,
        argv=tuple(_expand(argument, folders) for argument in program.command),
        stdin=None if program.input is None else Path(_expand(program.input, folders)),
        environment={name: _expand(value, folders) for name, value in program.environment.items()},
        directory=None if program.directory is None else Path(_expand(program.directory, folders)),
        scratch=program.directory is None,
        ignore_output=program.ignore_output,
        output_sha256=program.output_sha256 or "",
        timeout_seconds=program.timeout_seconds,
        service=None
        if service is None
        else Service(
            tuple(_expand(word, folders) for word in service.load),
            service.ready,
            tuple(_expand(word, folders) for word in service.stop),
        ),
    )


def missing(program: SuiteProgram) -> Missing:
    """What this machine lacks to run a program (and to make its inputs, when not yet made)."""
    prepared = not program.prepare or inputs_folder(program).is_dir()
    commands = [program.command] if prepared else [*program.prepare, program.command]
    folders: dict[str, Path] = _folders(program)
    files: list[str] = []
    for command in commands:
        for position, argument in enumerate(command):
            lacking = _lacking(argument, folders, executable=position == 0)
            if lacking is not None and lacking not in files:
                files.append(lacking)
    if program.input is not None:
        lacking = _lacking(program.input, folders, executable=False)
        if lacking is not None and lacking not in files:
            files.append(lacking)
    return Missing(_packages_not_installed(program.packages), tuple(files))


def inputs_folder(program: SuiteProgram) -> Path:
    """The folder of a program's made inputs, named by what they are made of.

    The name changes when the commands that make them change, or the files those commands name: the
    shipped ones by content, those of the system by size and time of change.
    """
    digest = hashlib.sha256()
    folders = _folders(program)

    def add(text: str) -> None:
        digest.update(f"{len(text)}:{text}".encode())

    for command in program.prepare:
        add("command")
        for argument in command:
            add(argument)
            for path in _files_behind(argument, folders):
                if path.is_relative_to(folders["workloads"]) or path.is_relative_to(program.folder):
                    add(hashlib.sha256(path.read_bytes()).hexdigest())
                else:
                    status = path.stat()
                    add(f"{status.st_size} {status.st_mtime_ns}")
    return cache_folder() / "inputs" / f"{program.name}-{digest.hexdigest()[:16]}"


def prepare(program: SuiteProgram, report: Callable[[str], None]) -> None:
    """Makes the inputs of a program, once; `report` is told when there is something to do.

    Safe when two do it at once: each works in a folder of its own, and the first to finish wins.
    """
    if not program.prepare:
        return
    target = inputs_folder(program)
    if target.is_dir():
        return
    report(f"{program.name}: making the input")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise TareError(
            f"{program.name}: no folder for the input can be made: {error}",
            "set TARE_CACHE to a folder that can be written to",
        ) from error
    try:
        folders = {**_folders(program), "inputs": work}
        for command in program.prepare:
            _run_prepare(program, [_expand(argument, folders) for argument in command], work)
        if not any(work.iterdir()):
            raise TareError(f"{program.name}: the commands of 'prepare' wrote no file")
        _publish(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _publish(work: Path, target: Path) -> None:
    # mkdtemp's folder is private; a finished one may be shared like any other cache.
    work.chmod(0o755)
    try:
        work.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise TareError(f"the input cannot be kept in {target}: {error}") from error


def _run_prepare(program: SuiteProgram, command: Sequence[str], work: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in _RESERVED_VARIABLES
    }
    environment |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}
    try:
        ended = run_in_group(
            command,
            PREPARE_TIMEOUT_SECONDS,
            cwd=work,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except subprocess.TimeoutExpired as error:
        raise TareError(
            f"{program.name}: {command[0]} did not make the input "
            f"in {PREPARE_TIMEOUT_SECONDS:.0f} s"
        ) from error
    except OSError as error:
        raise TareError(f"{program.name}: {command[0]} cannot be started: {error}") from error
    if ended.returncode != 0:
        last = ended.stderr.decode(errors="replace").strip()[-500:]
        raise TareError(
            f"{program.name}: making the input failed (status {ended.returncode}): "
            f"{' '.join(command)}\n{last}".rstrip()
        )


def _folders(program: SuiteProgram) -> dict[str, Path]:
    return {
        "workloads": workloads_folder(),
        "kernels": kernels_folder(),
        "suite": program.folder,
    }


def _expand(text: str, folders: Mapping[str, Path]) -> str:
    def replace(match: re.Match[str]) -> str:
        literal, name = match.groups()
        return f"{{{literal}}}" if literal is not None else str(folders[name])

    return _PLACEHOLDER.sub(replace, text)


def _placeholders(text: str) -> Iterator[str]:
    for match in _PLACEHOLDER.finditer(text):
        if match[2] is not None:
            yield match[2]


def _check_command(key: str, command: Sequence[str], allowed: frozenset[str]) -> None:
    if not command[0]:
        raise ValueError(f"{key}: must begin with the name of a program")
    _check_placeholders(key, command, allowed)


def _check_placeholders(key: str, texts: Iterable[str], allowed: frozenset[str]) -> None:
    for name in (name for text in texts for name in _placeholders(text)):
        if name == "inputs" and name not in allowed:
            raise ValueError(f"{key}: uses {{inputs}}, but there is no 'prepare' to make them")
        if name not in allowed:
            known = ", ".join(f"{{{placeholder}}}" for placeholder in sorted(allowed))
            raise ValueError(
                f"{key}: unknown placeholder {{{name}}}; known here: {known}; "
                f"a literal {{{name}}} is written {{{{{name}}}}}"
            )


def _files_behind(argument: str, folders: Mapping[str, Path]) -> list[Path]:
    """The existing files that an argument of a `prepare` command names."""
    if not argument.startswith("/") and not set(_placeholders(argument)) & {"workloads", "suite"}:
        return []
    if "inputs" in _placeholders(argument):
        return []
    path = Path(_expand(argument, folders))
    if path.is_dir():
        return sorted(inner for inner in path.rglob("*") if inner.is_file())
    return [path] if path.is_file() else []


def _lacking(argument: str, folders: Mapping[str, Path], *, executable: bool) -> str | None:
    """The file or program an argument names, when it cannot be found."""
    names = set(_placeholders(argument))
    if names & {"inputs", "scratch", "port"}:
        return None
    path = _expand(argument, folders)
    if executable:
        return None if shutil.which(path) else path
    # Other arguments that begin with a slash can be anything, such as a pattern for awk.
    names_file = path.startswith("/usr/") or (names and argument.startswith("{"))
    return path if names_file and not os.path.exists(path) else None


def package_to_install(alternatives: str) -> str:
    """Of the names of a suite's package, as ``SuiteProgram.packages`` has them."""
    return alternatives.partition("|")[0]


def _packages_not_installed(packages: Sequence[str]) -> tuple[str, ...]:
    query = shutil.which("dpkg-query")
    # On a system that is not Debian's the programs and files found or not found have to do.
    if not packages or query is None:
        return ()
    names = [name for package in packages for name in package.split("|")]
    answer = subprocess.run(
        [query, "--show", "--showformat=${Package} ${db:Status-Status}\n", *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    installed = {
        name
        for name, _, state in (
            line.partition(" ") for line in answer.stdout.decode(errors="replace").splitlines()
        )
        if state == "installed"
    }
    missing = [package for package in packages if installed.isdisjoint(package.split("|"))]
    return tuple(map(package_to_install, missing))
