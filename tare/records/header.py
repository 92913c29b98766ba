"""What run.json says that results of every study have. A study that keeps more there has a struct
of its own, for ``Results.run_as``."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from tare.records.coverage import OwnAllocator
from tare.records.runs import GREATEST_VALUE, Number

_MOST_WHOLE = (1 << 63) - 1
Amount = Annotated[
    Annotated[int, Meta(ge=-_MOST_WHOLE, le=_MOST_WHOLE)]
    | Annotated[float, Meta(ge=-GREATEST_VALUE, le=GREATEST_VALUE)],
    Meta(description="a number"),
]
"""As it was written: a whole number stays one."""


class Machine(Struct, frozen=True):
    """The settings that reports read; ``tare.records.machine`` describes more."""

    processor: str
    """The model that the processor says it is."""
    cores: int
    """Processors that Tare may use."""
    memory_bytes: Amount
    """Of the machine."""
    load_average: Amount
    """Over the last minute, at the start."""
    frequency_governor: str
    """What steers the clock."""
    turbo: str
    """Whether the clock may go beyond its base."""
    transparent_huge_pages: str
    """The kernel's setting."""
    swap: bool
    """Whether there is swap space."""
    hypervisor: bool
    """Whether it is a virtual machine."""


class Environment(Struct, frozen=True):
    values: dict[str, Any] = {}
    """Variables that steer allocators, linker, language and threads; ``other_names`` beside it has
    the names of the rest."""


class Worker(Struct, frozen=True):
    """Of a campaign."""

    group: str
    """Its kind of machine."""
    host: str
    """Its name in the network."""
    machine: Machine
    """As for this machine."""


class DescribedProgram(Struct, frozen=True, kw_only=True):
    """With ``directory``, ``scratch`` and ``timeout_seconds`` beside these keys."""

    name: str
    """The command as typed, or its name in the suite."""
    argv: tuple[str, ...]
    """The command's words."""
    executable: str
    """The file that it starts."""
    executable_sha256: str
    """SHA-256 of that file."""
    stdin: str | None = None
    """The file for standard input."""
    stdin_sha256: str | None = None
    """SHA-256 of that file."""
    environment: dict[str, Any] = {}
    """Variables added to those of Tare."""
    ignore_output: bool
    """Whether outputs are not compared."""
    output_sha256: str
    """SHA-256 of the expected output, or empty."""
    with_musl: bool = False
    """Whether it is linked with musl."""


class DescribedManager(Struct, frozen=True):
    """With ``title`` beside these keys; of a delay ``layer`` and ``layer_sha256``, of
    ``machine(…)`` also ``machine``."""

    version: str
    """As its package or crate says."""
    object: str | None
    """The file that is preloaded."""
    environment: dict[str, Any]
    """Its options, as variables."""
    object_sha256: str | None = None
    """SHA-256 of that file."""


class Asked(Struct, frozen=True):
    """What several studies and the bill record as asked; studies' own structs say more."""

    effort: str = ""
    """How much ``tare weigh`` was to measure."""
    trace: str = ""
    """The heap trace that was asked about."""
    seconds: Amount = 0
    """The budget of ``tare tune``."""
    machine: dict[str, str] = {}
    """The part of the machine that all runs were to have, as in the name of a manager."""


class Imported(Struct, frozen=True):
    """Of runs that another tool did."""

    tool: str
    """Its name."""
    missing: tuple[str, ...] = ()
    """What its recording does not say."""
    notes: tuple[str, ...] = ()
    """What of it could not be read."""


class LeftOut(Struct, frozen=True):
    """Options of a Java command that runs of its bill are without."""

    collector: tuple[str, ...] = ()
    """Those that choose a collector."""
    heap: tuple[str, ...] = ()
    """Those that limit the heap."""


class Java(Struct, frozen=True):
    """The JVM that a program runs under as it is."""

    left_out: LeftOut
    """Options that runs of the bill are without."""
    collector: str = ""
    """Empty where none was seen."""
    version: str = ""
    """Of the JVM."""
    heap_bytes: Amount | None = None
    """The limit of its heap."""


class Tried(Struct, frozen=True):
    """The manager that a bill added to show all objects of a runtime."""

    manager: str = ""
    """Its name, or empty."""
    fault: str = ""
    """Why a run under it did not count, or empty."""


class SectionCost(Struct, frozen=True):
    """Of a section of the bill."""

    expected_seconds: Amount
    """Before it was measured."""
    took_seconds: Amount
    """When it was."""


class Header(Struct, frozen=True, kw_only=True):
    """The file. Sizes are bytes, times seconds, dates ISO 8601 in UTC."""

    tare: str
    """The version that measured."""
    schema: int
    """The version of the folder's format: 1."""
    study: str
    """Its name, such as ``compare``."""
    command: tuple[str, ...]
    """The command line."""
    started: str
    """When."""
    machine: Machine
    """Hardware, kernel, libc, Python, and settings that add noise; more than the keys below."""
    programs: tuple[DescribedProgram, ...]
    """What was measured."""
    managers: dict[str, DescribedManager]
    """By printed name."""
    baseline: str
    """The printed name of the manager that others are compared to."""
    seed: Number
    """Of the order of runs, and of the bootstrap."""
    environment: Environment = Environment()
    """Variables of Tare itself."""
    canary_seconds: dict[str, tuple[Amount, ...]] = {}
    """Wall times of the canary's runs, at ``start`` and ``end``, where times are measured."""
    drag_left_out: str = ""
    """Why objects are not followed (``tare regions``), or empty."""
    finished: str = ""
    """When; empty while the study is unfinished."""
    frequencies_mhz: dict[str, tuple[Amount, Amount]] = {}
    """The lowest and the highest clock of the processors, at ``start`` and ``end``."""
    imported: Imported | None = None
    """Of runs that another tool did."""
    java: Java | None = None
    """Of a bill of a Java program."""
    live_left_out: str = ""
    """Why live bytes are not followed (``tare delay``), or empty."""
    machines: dict[str, Worker] = {}
    """Of a campaign, by worker."""
    observer_seconds: Amount | None = None
    """What the probe adds to the start of a process, about."""
    own_allocators: tuple[OwnAllocator, ...] = ()
    """Allocators that the program brings along."""
    pilot_seconds: Amount = 0.0
    """Wall time of a bill's first run."""
    request: Asked = Asked()
    """The question; each study has keys of its own."""
    revealing: Tried | None = None
    """Of a bill, the manager that shows all objects."""
    runtime: str = ""
    """Of a bill: ``jvm`` for a Java program, or empty."""
    sections: dict[str, SectionCost] = {}
    """Of a bill, what each section cost."""
    shares: dict[str, Amount] = {}
    """Of a bill, the seconds that each section may take."""
    storage_runtime: str = ""
    """Of a bill, the runtime that the breakdown knows."""
    asked_sections: tuple[str, ...] | None = None
    """Of a bill, the sections that were asked for."""
    section_runs: dict[str, int] = {}
    """Of a bill, how many runs each section has."""
    took_seconds: Amount | None = None
    """Time spent measuring, without pauses between sessions."""
