"""What was asked of one run, and what it showed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from tare.base.documents import converted
from tare.records.conditions import WHOLE_MACHINE, Conditions
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
    where its manager does not."""

    timeout_seconds: float | None = None
    memory_bytes: int | None = None
    output_bytes: int = DEFAULT_OUTPUT_LIMIT
    least_coverage: float = LEAST_COVERAGE
    conditions: Conditions = WHOLE_MACHINE


@dataclass(frozen=True)
class Outcome:
    """What one run showed. ``values`` holds metrics and is empty unless ``status`` is ok.

    ``server`` serves malloc of the program's first process, and ``executable`` is what that became:
    of a script, or of a command that starts another in its place, the file that ran in the end.
    ``silent_processes`` counts children that did not show who serves them (static or privileged
    ones: no manager can).
    ``memory_is_sampled`` says that the peak of a process tree comes from samples, not from the
    kernel's own high-water mark.
    ``details`` is what an observer saw beyond numbers of metrics; its own module says how.
    """

    status: Status
    reason: str = ""
    values: Mapping[str, int | float] = field(default_factory=dict)
    exit_code: int = 0
    signal: int = 0
    server: str = ""
    executable: str = ""
    silent_processes: int = 0
    left_behind: int = 0
    memory_is_sampled: bool = False
    output_sha256: str = ""
    output_bytes: int = 0
    error_tail: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def details_as(self, kind: type[T]) -> T:
        """``details`` as a struct. Raises DocumentError."""
        return converted(self.details, kind)


@dataclass(frozen=True)
class Run:
    """One planned invocation of one program under one manager. ``order`` counts all runs of the
    study as they happened. Of warm-up runs only failures count. ``observer`` names what watches the
    run: an entry of ``tare.campaign.executor.OBSERVERS``, or of those that its study brings.
    ``machine`` is the worker of a cluster that did it, and ``group`` names its kind; both are empty
    for this machine."""

    study: Name
    program: Name
    manager: Name
    invocation: Number
    order: Number
    warmup: bool = False
    observer: str = "runner"
    machine: Name = ""
    group: Name = ""


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
        return Record(converted(raw, Run), outcome, converted(raw, _Started).started)


class _Started(Struct):
    started: str = ""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
