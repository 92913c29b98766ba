"""Runtimes with a collector of their own: managers `jvm.g1`, `jvm.serial(heap=64MiB)` and the like.

A module of this package is a runtime; nothing else needs to know of it. Such a manager is not
preloaded: the runtime is told by options of its own which collector to use and how much heap. That
it did is shown by what the running process itself leaves in a folder of the run.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, cast

from tare.base.errors import TareError, UsageError
from tare.base.native import CHECKOUT, native_roots
from tare.memory_managers import mmtk
from tare.memory_managers.catalogue import Option, Recipe
from tare.memory_managers.mmtk import HEAP, multiple_of
from tare.programs.program import Program
from tare.records.runs import Outcome

FOLDER = "runtime"
"""In the folder of a run: what the runtime's processes leave."""
_INSIDE = Path("observers", "runtimes")
_TAIL_BYTES = 1 << 16
_LONGEST_LINE = 4096
_UNKNOWN = "jvm"
_MOST_PROCESSES = 10_000


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
    """What one process of the runtime showed. ``ended`` says that it ended in an orderly way. What
    the runtime does not tell is None, and its ``pid`` 0."""

    pid: int
    version: str
    collector: str
    heap_bytes: int | None
    ended: bool
    collections: tuple[Collection, ...]
    pauses: tuple[Pause, ...]
    collector_cpu_ns: int | None = None
    observer_cpu_ns: int | None = None
    allocated_bytes: int | None = None
    stall_ns: int = 0
    """How long threads waited for memory while a collector beside them sought it, summed."""
    dropped: int = 0
    """Stops of which not all is known."""


@dataclass(frozen=True)
class Setting:
    """A collector of a runtime and the options it was given."""

    runtime: str
    collector: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnHeap:
    """Objects that a runtime serves itself, which no allocator under it sees: the words of a bill.

    ``programs`` and ``mappers`` match the whole names of files: programs that are the runtime, and
    those whose code maps that heap. ``held`` is a sentence without its end, for figures may follow;
    ``command`` are the words of a command before `-- PROGRAM`, and ``shows`` says what that does.
    ``served`` is said instead where malloc serves all objects, by one of the settings OVER_MALLOC.
    """

    programs: re.Pattern[str]
    mappers: re.Pattern[str]
    held: str
    command: tuple[str, ...]
    shows: str
    served: str = ""


class Runtime(Protocol):
    """The module of a runtime."""

    NAME: str
    TITLE: str
    PACKAGE: str
    """The Debian package that holds the runtime."""
    TRIAL: tuple[str, ...]
    """A command that starts the runtime's program and ends at once."""
    LIMITED: tuple[str, ...]
    """The managers whose minimum heap is sought unless others are named; none has one if empty."""
    SWEEP: tuple[str, ...]
    """The managers whose overhead is sought unless others are named."""
    TUNED: tuple[str, ...]
    """The managers that `tare tune` tries with their options; the first is what a program has
    anyway."""
    BY_HAND: Mapping[str, str]
    """How a program itself sets what no variable and no word of a command does, by the collector or
    the option, which has {} for its value."""
    REFERENCE: str
    """The collector whose minimum heap is the unit of heaps; "" where no collector has a heap."""
    OFF: Mapping[str, Mapping[str, str]]
    """The collectors that never collect, each with the options under which it does not."""
    TELLS_WHEN: bool
    """Whether its pauses are known by process and time."""
    NO_HEAP: str
    """What to do where a collector has no option for its heap."""
    OVER_MALLOC: Mapping[str, Mapping[str, str]]
    """The settings that take each object from malloc, and so a manager: `malloc(jemalloc)`. Each
    with the variables that set it."""
    OWN_HEAP: OwnHeap | None
    """None where a bill has nothing to say of it."""

    def recipes(self) -> dict[str, Recipe]:
        """Its collectors as entries of the catalogue, by the names of managers."""

    def runs(self, program: Program) -> bool:
        """Whether the command itself, as far as it shows, is run by the runtime."""

    def check_setting(self, setting: Setting) -> None:
        """Raises UsageError for an option or a value that the collector cannot have."""

    def check(self, setting: Setting, program: Program) -> None:
        """Raises UsageError where the program's own options clash with the setting, MissingError
        where the runtime is not installed."""

    def advice(self, setting: Setting, program: Program) -> Program:
        """The program under that collector as a user would start it, with nothing that observes;
        without what is set BY_HAND."""

    def under(self, setting: Setting, program: Program, folder: Path) -> Program:
        """The program under that collector; its processes leave what they show in ``folder``."""

    def read_processes(self, folder: Path) -> list[Process]:
        """What the processes of a run left in ``folder``, or in the file ``stderr`` beside it."""

    def judge(self, setting: Setting, outcome: Outcome, folder: Path) -> Outcome:
        """``outcome`` with what the processes showed; ``folder`` is that of the whole run."""


def found(program: str) -> Path | None:
    """A program, as a shell would find it."""
    path = shutil.which(program)
    return None if path is None else Path(path).resolve()


def left_in(folder: Path, suffix: str) -> list[Path]:
    """The files of one kind that the processes of a run left. TareError where they are too many."""
    paths = sorted(folder.glob(f"*{suffix}"))
    if len(paths) > _MOST_PROCESSES:
        raise TareError(f"{folder}: the run had more than {_MOST_PROCESSES} processes")
    return paths


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


def over_malloc(text: str) -> tuple[str, str] | None:
    """The setting and the manager below it that a name like `cpython.malloc(jemalloc)` holds, glibc
    where it names none; None for another name."""
    match = re.fullmatch(r"([a-z]+)\.([a-z]+)\s*(?:\((.*)\))?", text.strip(), re.DOTALL)
    if match is None or match[1] not in names() or match[2] not in runtime(match[1]).OVER_MALLOC:
        return None
    return f"{match[1]}.{match[2]}", (match[3] or "").strip() or "glibc"


def variables_over_malloc(text: str) -> tuple[dict[str, str], str]:
    """What sets the runtime of a name like `cpython.malloc(jemalloc)`, and the manager below it;
    of another name nothing, and the name."""
    if (over := over_malloc(text)) is None:
        return {}, text
    first, _, setting = over[0].partition(".")
    return dict(runtime(first).OVER_MALLOC[setting]), over[1]


def with_own_heap(executable: str) -> tuple[Runtime, OwnHeap] | None:
    """The runtime whose program the file is, by its name, if it serves objects itself."""
    found = ((runtime(name), runtime(name).OWN_HEAP) for name in names())
    file = Path(executable).name
    return next(
        ((one, heap) for one, heap in found if heap and heap.programs.fullmatch(file)), None
    )


def names_with_options(module: Runtime) -> list[str]:
    """The names of a runtime's managers with all that can be given in them, as one would type."""
    shown = []
    for name, each in module.recipes().items():
        options = [f"{one.name}={'SIZE' if one.type == 'size' else 'N'}" for one in each.options]
        if name.partition(".")[2] in module.OVER_MALLOC:
            options = ["M"]
        shown.append(f"{name}({', '.join(options)})" if options else name)
    return shown


def setting_of(name: str, options: Mapping[str, str]) -> Setting:
    """The setting that a manager's name and options ask for; UsageError where there is none."""
    first, _, collector = name.partition(".")
    known = runtime(first).recipes()
    if name not in known:
        raise UsageError(f"there is no manager '{name}'", f"known: {', '.join(known)}")
    setting = Setting(first, collector, dict(options))
    runtime(first).check_setting(setting)
    return setting


recipe = partial(
    Recipe,
    kind="collector",
    default_weigh=False,
    build="none",
    folder=Path(__file__).parent,
)
"""A collector as an entry of the catalogue."""


def variable(program: Program, name: str) -> str:
    """What a variable holds for the program, or ""."""
    return program.environment.get(name, os.environ.get(name, ""))


def refuse_variables(setting: Setting, program: Program, variables: Iterable[str]) -> None:
    """UsageError where one of the variables, by which the manager speaks to the runtime, is taken
    by the program or by Tare's own environment."""
    for name in variables:
        if variable(program, name):
            raise UsageError(
                f"{program.name}: the variable {name} clashes with the manager "
                f"{setting.runtime}.{setting.collector}, which sets it",
                f"unset {name}",
            )


def running(program: Program) -> Runtime:
    """The runtime that runs the program; the JVM where the command shows none."""
    found = (runtime(name) for name in names())
    return next((each for each in found if each.runs(program)), runtime(_UNKNOWN))


def never_collects(setting: Setting) -> bool:
    off = runtime(setting.runtime).OFF
    return setting.collector in off and (off[setting.collector].items() <= setting.options.items())


def has_heap(setting: Setting) -> bool:
    """Whether the collector collects by a heap whose size can be given."""
    module = runtime(setting.runtime)
    options = module.recipes()[f"{setting.runtime}.{setting.collector}"].options
    return not never_collects(setting) and any(each.name == HEAP for each in options)


def numbers(setting: Setting, options: Sequence[Option]) -> dict[str, int]:
    """The options of a setting as numbers; ``tare.studykit.least_heap.runtime_heaps`` puts bytes in
    the place of a multiple. Raises UsageError."""
    return mmtk.numbers(f"{setting.runtime}.{setting.collector}", setting.options, options)


def refuse_multiple(setting: Setting) -> None:
    """UsageError for a heap that is still a multiple when the program is to run."""
    if multiple_of(setting.options.get(HEAP, "")):
        raise UsageError(
            f"{setting.runtime}.{setting.collector}: only tare compare takes multiples of the "
            "minimum heap",
            "give the heap in bytes, like heap=64MiB; tare minheap finds the minimum",
        )


def inside(file: str) -> Path:
    """A file of observers/runtimes, which a process of a runtime loads: in a checkout, or as
    installed with the package."""
    folders = [CHECKOUT, *native_roots()]
    found = next((path for each in folders if (path := each / _INSIDE / file).is_file()), None)
    if found is None:
        raise TareError(f"the file {_INSIDE / file} of Tare is missing")
    return found


def tail_of(path: Path) -> str:
    """The last part of a file."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""


def first_line_with(path: Path, pattern: re.Pattern[str]) -> str:
    """What ``pattern`` finds first in the last part of a file, or ""."""
    match = pattern.search(tail_of(path))
    return match[0].strip() if match else ""


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, the start of long ones."""
    try:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                yield line.decode(errors="replace").rstrip("\n")
    except OSError:
        return


def served(setting: Setting, outcome: Outcome, processes: Sequence[Process]) -> Outcome:
    """A good outcome with what the processes showed."""
    values = {**outcome.values, **summed(processes)}
    values["mutator_seconds"] = max(values["wall_seconds"] - values["collector_seconds"], 0.0)
    shown = {**outcome.details, setting.runtime: details(processes)}
    return replace(outcome, values=values, details=shown)


def summed(processes: Sequence[Process]) -> dict[str, float]:
    """The metrics of a run, over all its processes."""
    collections = [each for process in processes for each in process.collections]
    pauses = [pause for process in processes for pause in process.pauses if pause.collection != -1]
    values: dict[str, float] = {
        "collections": len(collections),
        "full_collections": sum(each.kind == "full" for each in collections),
        "pauses": len(pauses),
        "collector_seconds": sum(pause.end_ns - pause.start_ns for pause in pauses) / 1e9,
    }
    of_collectors = [each.collector_cpu_ns for each in processes]
    if all(each is not None for each in of_collectors):
        values["collector_cpu_seconds"] = sum(each or 0 for each in of_collectors) / 1e9
    if stalls := sum(process.stall_ns for process in processes):
        values["stall_seconds"] = stalls / 1e9
    if pauses:
        lengths = [pause.end_ns - pause.start_ns for pause in pauses]
        values["median_pause_seconds"] = statistics.median(lengths) / 1e9
        values["max_pause_seconds"] = max(lengths) / 1e9
    known = not pauses or any(pause.cpu_ns is not None for pause in pauses)
    if known and not any(process.dropped for process in processes):
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
                "observer_cpu_seconds": (
                    None if each.observer_cpu_ns is None else each.observer_cpu_ns / 1e9
                ),
                "dropped": each.dropped,
            }
            for each in processes
        ],
        "pause_histogram": _pause_histogram(processes),
    }


def _pause_histogram(processes: Sequence[Process]) -> list[tuple[int, int, int]]:
    """Rows of two lengths in nanoseconds, powers of two, and how many pauses of collections were
    between them."""
    counts = Counter(
        (pause.end_ns - pause.start_ns).bit_length()
        for process in processes
        for pause in process.pauses
        if pause.collection != -1
    )
    return [(1 << bits >> 1, 1 << bits, count) for bits, count in sorted(counts.items())]
