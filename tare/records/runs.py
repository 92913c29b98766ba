"""What was asked of one run, and what it showed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from tare.base.documents import converted
from tare.records.conditions import WHOLE_MACHINE, Conditions, Container
from tare.records.metrics import METRICS, Status

T = TypeVar("T")
DEFAULT_OUTPUT_LIMIT = 1 << 30
LEAST_COVERAGE = 0.1

GREATEST_VALUE = 1e30
"""No measurement comes near it, and figures made of such values are still finite."""

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="a whole number of 63 bits")]
Name = Annotated[
    str, Meta(pattern=r"\A[^\ud800-\udfff]*\Z", description="a name that a table can hold")
]


@dataclass(frozen=True)
class Limits:
    """Bounds of one run; None is no bound. Seconds and bytes. ``least_coverage`` is the share of a
    program's memory that its manager must serve. ``conditions`` say what of the machine it may use,
    where its manager does not; with a ``container`` it has control groups of its own."""

    timeout_seconds: float | None = None
    memory_bytes: int | None = None
    output_bytes: int = DEFAULT_OUTPUT_LIMIT
    least_coverage: float = LEAST_COVERAGE
    conditions: Conditions = WHOLE_MACHINE
    container: Container | None = None


@dataclass(frozen=True)
class Outcome:
    """What one run showed."""

    status: Status
    """How it ended, before outputs are compared."""
    reason: str = ""
    """Why the status is not ``ok``."""
    values: Mapping[str, int | float] = field(default_factory=dict)
    """Metrics and their values; empty unless ``ok``."""
    exit_code: int = 0
    """Of the main process."""
    signal: int = 0
    """That ended it, or 0."""
    server: str = ""
    """The file that served ``malloc`` of the main process."""
    executable: str = ""
    """The file that the main process ran in the end: a script, or a command, may start another."""
    silent_processes: int = 0
    """Child processes that did not show what serves them, such as static or privileged ones."""
    left_behind: int = 0
    """Processes ended 100 ms after the main process."""
    memory_is_sampled: bool = False
    """Whether peak memory comes of samples of several processes, not of the kernel's own mark."""
    output_sha256: str = ""
    """Of standard output, unless ignored."""
    output_bytes: int = 0
    """Of standard output, unless ignored."""
    error_tail: str = ""
    """The end of standard error, unless ``ok``."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the observer saw, such as ``coverage``, ``own_allocators`` and ``steal``."""

    def details_as(self, kind: type[T]) -> T:
        """``details`` as a struct. Raises DocumentError."""
        return converted(self.details, kind)


@dataclass(frozen=True)
class Run:
    """One planned invocation of one program under one manager."""

    study: Name
    """Such as ``compare``; ``pilot``: the first run of ``weigh``; ``canary``: a run that watches
    the machine only."""
    program: Name
    """The command as typed, or its name in the suite."""
    manager: Name
    """Its printed name."""
    invocation: Number
    """The number under this manager, from 0, warm-up runs apart."""
    order: Number
    """The number in the study, as runs happened."""
    warmup: bool = False
    """Whether it is a warm-up run: only its failure counts."""
    observer: str = "runner"
    """What watches it: an entry of ``tare.campaign.executor.OBSERVERS``, or the study's own."""
    machine: Name = ""
    """The worker of a campaign that did it; empty for this machine."""
    group: Name = ""
    """That worker's kind of machine."""


@dataclass(frozen=True)
class Record:
    """A run, and what it showed."""

    run: Run
    outcome: Outcome
    started: str = ""

    def to_line(self) -> str:
        return json.dumps({**asdict(self.run), "started": self.started, **asdict(self.outcome)})

    @staticmethod
    def from_line(line: str) -> Record:
        """Raises ValueError where the line holds something else than runs leave there."""
        # By json, for names of files that are no UTF-8 have lone surrogates.
        raw = json.loads(line)
        outcome = converted(raw, Outcome)
        if unknown := outcome.values.keys() - METRICS.keys():
            raise ValueError(f"a metric that this Tare does not know: {min(unknown)!r}")
        for metric, value in outcome.values.items():
            if not abs(value) <= GREATEST_VALUE:
                raise ValueError(f"{metric} is {value!r}")
        return Record(converted(raw, Run), outcome, converted(raw, Started).started)


class Started(Struct):
    """What a line of a record has beside its run and its outcome."""

    started: str = ""
    """When, in ISO 8601."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
