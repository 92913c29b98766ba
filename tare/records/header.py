"""What run.json says that results of every study have."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from tare.records.runs import GREATEST_VALUE, Number

Amount = Annotated[float, Meta(ge=-GREATEST_VALUE, le=GREATEST_VALUE)]


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


class DescribedProgram(Struct, frozen=True):
    name: str
    argv: tuple[str, ...]
    executable: str
    executable_sha256: str
    ignore_output: bool
    output_sha256: str


class DescribedManager(Struct, frozen=True):
    version: str
    object: str | None
    environment: dict[str, Any]


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
    finished: str = ""
    imported: dict[str, Any] = {}
    java: dict[str, Any] = {}
    machines: dict[str, Worker] = {}
    observer_seconds: Amount | None = None
    pilot_seconds: Amount = 0.0
    request: dict[str, Any] = {}
    runtime: str = ""
    sections: dict[str, Any] = {}
    shares: dict[str, Any] = {}
    took_seconds: Amount | None = None
