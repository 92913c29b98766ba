"""What was asked of one run, and what it showed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from tare.records.metrics import METRICS, Status

DEFAULT_OUTPUT_LIMIT = 1 << 30

_GREATEST_NUMBER = (1 << 63) - 1
_GREATEST_VALUE = 1e30
"""No measurement comes near it, and figures made of such values are still finite."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one run; None is no bound. Seconds and bytes."""

    timeout_seconds: float | None = None
    memory_bytes: int | None = None
    output_bytes: int = DEFAULT_OUTPUT_LIMIT


@dataclass(frozen=True)
class Outcome:
    """What one run showed. ``values`` holds metrics and is empty unless ``status`` is ok.

    ``silent_processes`` counts children that did not show who serves them (static or privileged
    ones: no manager can).
    ``memory_is_sampled`` says that the peak of a process tree comes from samples, not from the
    kernel's own high-water mark.
    ``details`` is what an observer saw beyond numbers of metrics; its own module says how.
    """

    status: Status
    reason: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    exit_code: int = 0
    signal: int = 0
    server: str = ""
    silent_processes: int = 0
    left_behind: int = 0
    memory_is_sampled: bool = False
    output_sha256: str = ""
    output_bytes: int = 0
    error_tail: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


_KINDS = {
    "str": str,
    "int": int,
    "bool": bool,
    "Status": str,
    "Mapping[str, float]": dict,
    "Mapping[str, Any]": dict,
}
"""How JSON gives the fields of a run and its outcome."""


@dataclass(frozen=True)
class Run:
    """One planned invocation of one program under one manager. ``order`` counts all runs of the
    study as they happened. Of warm-up runs only failures count. ``observer`` names what watches the
    run: an entry of ``tare.campaign.executor.OBSERVERS``, or of those that its study brings.
    ``machine`` is the worker of a cluster that did it, and ``group`` names its kind; both are empty
    for this machine."""

    study: str
    program: str
    manager: str
    invocation: int
    order: int
    warmup: bool = False
    observer: str = "runner"
    machine: str = ""
    group: str = ""


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
        raw = json.loads(line)
        _check_types(raw)
        run = Run(**{f.name: raw[f.name] for f in fields(Run) if f.name in raw})
        known = {f.name: raw[f.name] for f in fields(Outcome) if f.name in raw}
        known["status"] = Status(known["status"])
        return Record(run, Outcome(**known), raw.get("started", ""))


def _check_types(raw: Any) -> None:
    """Raises ValueError where a line of runs.jsonl holds something else than runs leave there."""
    if not isinstance(raw, dict):
        raise ValueError("no run")
    for known in (*fields(Run), *fields(Outcome)):
        if known.name in raw and type(raw[known.name]) is not _KINDS[str(known.type)]:
            raise ValueError(f"{known.name} is of another type")
    if not isinstance(raw.get("started", ""), str):
        raise ValueError("started is not text")
    for name in ("study", "program", "manager", "machine", "group"):
        raw.get(name, "").encode()  # half a character of UTF-16 is a name that no table can hold
    for name in ("invocation", "order"):
        if not 0 <= raw.get(name, 0) <= _GREATEST_NUMBER:
            raise ValueError(f"{name} is {raw[name]}")
    for metric, value in raw.get("values", {}).items():
        if metric not in METRICS:
            raise ValueError(f"a metric that this Tare does not know: {metric!r}")
        if type(value) not in (int, float) or not abs(value) <= _GREATEST_VALUE:
            raise ValueError(f"{metric} is {value!r}")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
