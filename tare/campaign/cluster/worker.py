"""What is done on a worker: it is looked at once for each study, and then measures, one run at a
time. Runs end when the client lets go of them, goes away, or the worker is closed."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tare.base.errors import MissingError, TareError, UsageError
from tare.base.files import hash_file
from tare.base.version import __version__
from tare.campaign import canary
from tare.memory_managers import runtimes, suitable
from tare.memory_managers.manager import Manager, describe_managers, resolve
from tare.observers import conditions
from tare.observers.protocol import Observe
from tare.observers.runner import observer_cost, side_by_side
from tare.programs.program import Program, check_program, describe_program
from tare.programs.runnable import suite_programs
from tare.programs.suite import load_suite
from tare.records.machine import describe_environment, describe_machine
from tare.records.runs import Limits, Outcome, Run, now

_LOOK_UP_SECONDS = 0.5
Made = TypeVar("Made")


@dataclass(frozen=True)
class Source:
    """The programs of a study; with ``suite``, a name or a path, a worker makes them itself, if its
    file of that suite has the hash. Paths of managers are seen from ``directory``."""

    programs: tuple[Program, ...]
    directory: Path
    suite: str = ""
    suite_sha256: str = ""


class Unknown(Exception):  # noqa: N818 - it is no error, but a worker that was started again
    """This worker was not looked at for the study."""


class LetGo(Exception):  # noqa: N818
    """Nobody waits for the run any more."""


@dataclass(frozen=True)
class _Ready:
    programs: dict[str, Program]
    managers: dict[str, Manager]
    directory: Path


_ready: dict[str, _Ready] = {}
_measuring = threading.Lock()
"""One measured run at a time, whoever asks and however many threads the worker has."""


def examine(
    study: str,
    source: Source,
    managers: Mapping[str, runtimes.Setting | None],
    limits: Limits,
) -> dict[str, Any]:
    """What this worker is and what it has; what it lacks is told in ``problem``. ``managers`` are
    names, with the setting of those that are collectors of a runtime."""
    from distributed import get_worker

    _drop_variables_of_dask()
    found: dict[str, Any] = {
        "tare": __version__,
        "name": str(get_worker().name),
        "host": socket.gethostname(),
        "machine": describe_machine(),
        "environment": describe_environment(),
        "problem": "",
    }
    try:
        programs = _programs(source)
        ready = _Ready(programs, _managers(managers, source.directory), source.directory)
        suitable.check(ready.programs.values(), ready.managers.values())
        conditions.check(ready.managers.values(), limits)
        found["managers"] = describe_managers(ready.managers)
        found["programs"] = [_describe(each, ready) for each in ready.programs.values()]
        workspace = _workspace()
        found["observer_seconds"] = _alone(lambda: observer_cost(workspace))
    except TareError as error:
        found["problem"] = f"{error.message}; {error.hint}" if error.hint else error.message
    except OSError as error:
        found["problem"] = f"{error.filename or 'a file'}: {error.strerror or error}"
    else:
        _ready[study] = ready
    return found


def _drop_variables_of_dask() -> None:
    """Dask's nanny sets variables for the worker, of which one steers glibc's malloc. The programs
    would inherit them."""
    import dask.config

    for name, value in dask.config.get("distributed.nanny.pre-spawn-environ", {}).items():
        if os.environ.get(name) == str(value):
            del os.environ[name]


def _programs(source: Source) -> dict[str, Program]:
    if not source.suite:
        return {program.name: program for program in source.programs}
    path = load_suite(source.suite).path
    if hash_file(path) != source.suite_sha256:
        raise UsageError(f"its file of the suite, {path}, is different")
    told: list[str] = []
    wanted = [program.name for program in source.programs]
    made = {program.name: program for program in suite_programs(source.suite, wanted, told.append)}
    if len(made) < len(wanted):
        raise MissingError("; ".join(told))
    return made


def _managers(names: Mapping[str, runtimes.Setting | None], directory: Path) -> dict[str, Manager]:
    seen_from = directory if directory.is_dir() else Path()
    with contextlib.chdir(seen_from):
        return {name: replace(resolve(name), runtime=setting) for name, setting in names.items()}


def _describe(program: Program, ready: _Ready) -> dict[str, Any]:
    if program.directory is not None and not program.directory.is_dir():
        raise UsageError(
            f"the folder {program.directory}, where {program.name} is to run, is missing"
        )
    preloads = not all(manager.of_runtime_alone for manager in ready.managers.values())
    return describe_program(program, check_program(program, preloads))


def _workspace() -> Path:
    from distributed import get_worker

    return Path(get_worker().local_directory)


def measure(
    study: str, run: Run, observe: Observe, limits: Limits, keep_output: bool
) -> tuple[str, Outcome, bytes | None]:
    """When the run began, what it showed, and the start of its standard output if that is to be
    kept. Raises Unknown on a worker that ``examine`` has not prepared."""
    ready = _ready.get(study)
    if ready is None:
        raise Unknown
    if run.manager not in ready.managers:  # the study found it meanwhile
        ready.managers.update(_managers({run.manager: None}, ready.directory))
    program, manager = ready.programs[run.program], ready.managers[run.manager]
    workspace = _workspace()
    kept = workspace / f"stdout-{study}"
    try:
        started, outcome = _alone(
            lambda: (
                now(),
                observe(program, manager, limits, workspace, kept if keep_output else None),
            )
        )
        return started, outcome, kept.read_bytes() if kept.exists() else None
    finally:
        kept.unlink(missing_ok=True)


def visit() -> tuple[str, float, list[Outcome]]:
    """When the canary was visited, how many seconds that took, and what its runs showed."""
    workspace = _workspace()
    return _alone(lambda: canary.timed_visit(workspace))


def _alone(work: Callable[[], Made]) -> Made:
    """What ``work`` gives, while nothing else is measured on this worker. Raises LetGo, with the
    programs ended, when nobody waits for it any more."""
    unwanted = _unwanted()
    while not _measuring.acquire(timeout=_LOOK_UP_SECONDS):
        if unwanted():
            raise LetGo
    ended = threading.Event()
    made: list[Made] = []

    def do() -> None:
        try:
            made.append(work())
        finally:
            ended.set()

    def look_up() -> None:
        while not ended.wait(_LOOK_UP_SECONDS):
            if unwanted():
                raise LetGo

    try:
        side_by_side([do, look_up])
    finally:
        _measuring.release()
    return made[0]


def _unwanted() -> Callable[[], bool]:
    """Says whether the task that this thread does was cancelled, or its worker closed."""
    from distributed import get_worker
    from distributed.core import Status

    worker = get_worker()
    key = worker.get_current_task()

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        gone = worker.status in (Status.closing, Status.closed, Status.failed)
        return gone or task is None or task.state == "cancelled"

    return unwanted
