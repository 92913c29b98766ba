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
    cores: int
    memory_bytes: Amount
    load_average: Amount
    frequency_governor: str
    turbo: str
    transparent_huge_pages: str
    swap: bool
    hypervisor: bool


class Environment(Struct, frozen=True):
    values: dict[str, Any] = {}


class Worker(Struct, frozen=True):
    group: str
    host: str
    machine: Machine


class DescribedProgram(Struct, frozen=True, kw_only=True):
    name: str
    argv: tuple[str, ...]
    executable: str
    executable_sha256: str
    stdin: str | None = None
    stdin_sha256: str | None = None
    environment: dict[str, Any] = {}
    ignore_output: bool
    output_sha256: str


class DescribedManager(Struct, frozen=True):
    version: str
    object: str | None
    environment: dict[str, Any]
    object_sha256: str | None = None


class Asked(Struct, frozen=True):
    """What several studies and the bill record as asked; studies' own structs say more."""

    effort: str = ""
    trace: str = ""
    seconds: Amount = 0
    machine: dict[str, str] = {}
    """The part of the machine that all runs were to have, as in the name of a manager."""


class Imported(Struct, frozen=True):
    """Where ``tool`` did the runs, and what of them could not be read."""

    tool: str
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class LeftOut(Struct, frozen=True):
    """Options of a Java command that runs of its bill are without."""

    collector: tuple[str, ...] = ()
    heap: tuple[str, ...] = ()


class Java(Struct, frozen=True):
    """The JVM that a program runs under as it is; no collector where none was seen."""

    left_out: LeftOut
    collector: str = ""
    version: str = ""
    heap_bytes: Amount | None = None


class Tried(Struct, frozen=True):
    """The manager that a bill added to show all objects of a runtime, "" for none; and why a run
    under it did not count, "" where it did."""

    manager: str = ""
    fault: str = ""


class SectionCost(Struct, frozen=True):
    """Of a section of the bill."""

    expected_seconds: Amount
    took_seconds: Amount


class Header(Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    tare: str
    schema: int
    study: str
    command: tuple[str, ...]
    started: str
    machine: Machine
    programs: tuple[DescribedProgram, ...]
    managers: dict[str, DescribedManager]
    baseline: str
    seed: Number
    environment: Environment = Environment()
    drag_left_out: str = ""
    finished: str = ""
    frequencies_mhz: dict[str, tuple[Amount, Amount]] = {}
    """The lowest and the highest clock of the processors, at the start and at the end."""
    imported: Imported | None = None
    java: Java | None = None
    live_left_out: str = ""
    machines: dict[str, Worker] = {}
    observer_seconds: Amount | None = None
    own_allocators: tuple[OwnAllocator, ...] = ()
    pilot_seconds: Amount = 0.0
    request: Asked = Asked()
    revealing: Tried | None = None
    runtime: str = ""
    sections: dict[str, SectionCost] = {}
    shares: dict[str, Amount] = {}
    storage_runtime: str = ""
    asked_sections: tuple[str, ...] | None = None
    section_runs: dict[str, int] = {}
    took_seconds: Amount | None = None
