"""Runtimes with a collector of their own: managers `jvm.g1`, `jvm.serial(heap=64MiB)` and the like.

A module of this package is a runtime; nothing else needs to know of it. Such a manager is not
preloaded: the runtime is told by options of its own which collector to use and how much heap. That
it did is shown by what the running process itself leaves in a folder of the run.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from tare.errors import UsageError

if TYPE_CHECKING:
    from tare.manager import Manager
    from tare.program import Program
    from tare.recipes import Recipe
    from tare.runner import Outcome

FOLDER = "runtime"
"""In the folder of a run: what the runtime's processes leave."""


@dataclass(frozen=True)
class Pause:
    """The program was stopped. Times are nanoseconds of CLOCK_MONOTONIC, from the wish to stop to
    the going on. ``operation`` is the runtime's word for what it did. ``collection`` is the number
    of the collection that this was for, -1 for none. ``cpu_ns`` is the process's time inside, less
    that of its compiler; None where it was not seen."""

    start_ns: int
    end_ns: int
    operation: str
    collection: int = -1
    cpu_ns: int | None = None


@dataclass(frozen=True)
class Collection:
    """``kind`` is young, mixed, full or concurrent; a concurrent one lasts from its first phase to
    its last. ``pause_ns`` is the sum of its ``pauses``, which may be none. ``used_before`` and
    ``used_after`` are bytes of the heap."""

    number: int
    kind: str
    cause: str
    start_ns: int
    end_ns: int
    pause_ns: int
    pauses: int
    cpu_ns: int | None = None
    used_before: int | None = None
    used_after: int | None = None


@dataclass(frozen=True)
class Process:
    """What one process of the runtime showed. ``ended`` says that it ended in an orderly way.
    ``allocated_bytes`` is None where the runtime does not tell."""

    pid: int
    version: str
    collector: str
    heap_bytes: int | None
    ended: bool
    collections: tuple[Collection, ...]
    pauses: tuple[Pause, ...]
    collector_cpu_ns: int
    observer_cpu_ns: int
    allocated_bytes: int | None = None
    stall_ns: int = 0
    """How long threads waited for memory while a collector beside them sought it, summed."""
    dropped: int = 0
    """Stops whose processor time found no room."""


@dataclass(frozen=True)
class Setting:
    """A collector of a runtime and the options it was given."""

    runtime: str
    collector: str
    options: Mapping[str, str] = field(default_factory=dict)


class Runtime(Protocol):
    """The module of a runtime."""

    TITLE: str
    PACKAGE: str
    """The Debian package that holds the runtime."""
    TRIAL: tuple[str, ...]
    """A command that starts the runtime and ends at once."""

    def recipes(self) -> dict[str, Recipe]:
        """Its collectors as entries of the catalogue, by the names of managers."""

    def installed(self) -> Path | None:
        """The runtime's program, as a shell would find it."""

    def check_setting(self, setting: Setting) -> None:
        """Raises UsageError for an option or a value that the collector cannot have."""

    def check(self, setting: Setting, program: Program) -> None:
        """Raises UsageError where the program's own options clash with the setting, MissingError
        where the runtime is not installed."""

    def under(self, setting: Setting, program: Program, folder: Path) -> Program:
        """The program under that collector; its processes leave what they show in ``folder``."""

    def read_processes(self, folder: Path) -> list[Process]:
        """What the processes of a run left in ``folder``."""

    def judge(self, setting: Setting, outcome: Outcome, folder: Path) -> Outcome:
        """``outcome`` with what the processes showed; ``folder`` is that of the whole run."""


@cache
def names() -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(__path__))


@cache
def runtime(name: str) -> Runtime:
    return cast(Runtime, importlib.import_module(f"{__name__}.{name}"))


def recipes() -> dict[str, Recipe]:
    """The collectors of all runtimes as entries of the catalogue."""
    return {key: recipe for name in names() for key, recipe in runtime(name).recipes().items()}


def is_name(name: str) -> bool:
    """Whether a manager's name is that of a runtime's collector, known or not."""
    first, dot, _ = name.partition(".")
    return bool(dot) and first in names()


def setting_of(name: str, options: Mapping[str, str]) -> Setting:
    """The setting that a manager's name and options ask for; UsageError where there is none."""
    first, _, collector = name.partition(".")
    known = runtime(first).recipes()
    if name not in known:
        raise UsageError(f"there is no manager '{name}'", f"known: {', '.join(known)}")
    setting = Setting(first, collector, dict(options))
    runtime(first).check_setting(setting)
    return setting


def check(programs: Iterable[Program], managers: Iterable[Manager], watched: str = "") -> None:
    """Raise what ``Runtime.check`` raises for any of the programs under any of the managers, and
    UsageError for what looks at malloc and free, whose name is ``watched``.
    """
    of_runtimes = [manager for manager in managers if manager.runtime is not None]
    for manager in of_runtimes:
        if watched:
            raise UsageError(
                f"{manager.name} is a collector of a runtime; {watched} looks at malloc and free",
                f"tare compare -m '{manager.name}' measures time, memory and collections",
            )
        setting = manager.runtime
        assert setting is not None
        for program in programs:
            runtime(setting.runtime).check(setting, program)


def summed(processes: Sequence[Process]) -> dict[str, float]:
    """The metrics of a run, over all its processes."""
    collections = [each for process in processes for each in process.collections]
    pauses = [pause for process in processes for pause in process.pauses if pause.collection != -1]
    values: dict[str, float] = {
        "collections": len(collections),
        "full_collections": sum(each.kind == "full" for each in collections),
        "pauses": len(pauses),
        "collector_seconds": sum(pause.end_ns - pause.start_ns for pause in pauses) / 1e9,
        "collector_cpu_seconds": sum(each.collector_cpu_ns for each in processes) / 1e9,
    }
    if stalls := sum(process.stall_ns for process in processes):
        values["stall_seconds"] = stalls / 1e9
    if pauses:
        values["max_pause_seconds"] = max(p.end_ns - p.start_ns for p in pauses) / 1e9
    if not any(process.dropped for process in processes):
        values["pause_cpu_seconds"] = sum(pause.cpu_ns or 0 for pause in pauses) / 1e9
    if after := [each.used_after for each in collections if each.used_after is not None]:
        values["max_used_after_bytes"] = max(after)
    allocated = [process.allocated_bytes for process in processes]
    if all(each is not None for each in allocated):
        values["heap_allocated_bytes"] = sum(each or 0 for each in allocated)
    heaps = [process.heap_bytes for process in processes if process.heap_bytes is not None]
    if heaps:
        values["heap_bytes"] = max(heaps)
    return values


def details(processes: Sequence[Process]) -> dict[str, Any]:
    """What the processes showed beyond metrics."""
    return {
        "processes": [
            {
                "pid": each.pid,
                "version": each.version,
                "collector": each.collector,
                "heap_bytes": each.heap_bytes,
                "ended": each.ended,
                "collections": len(each.collections),
                "observer_cpu_seconds": each.observer_cpu_ns / 1e9,
                "dropped": each.dropped,
            }
            for each in processes
        ],
    }
