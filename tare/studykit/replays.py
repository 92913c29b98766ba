"""What the studies of replays share: a trace compiled in the results folder, and its runs."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from tare.base.errors import UsageError
from tare.base.files import hash_file, writing
from tare.base.units import format_count
from tare.campaign.session import Question, Repeated, Rounds, Where, in_rounds, measure
from tare.campaign.watching import Watcher
from tare.heap_traces.schedule import DEATHS, How, check, compile_trace
from tare.heap_traces.trace import META_FILE, Trace
from tare.programs.program import Program
from tare.records.header import Asked, Header
from tare.records.results import Results
from tare.records.runs import Number
from tare.studykit import replayer
from tare.studykit.request import Request

_LEAST_TIMEOUT_SECONDS = 10.0
_SLOW_SECONDS_AN_OBJECT = 4e-6
_SLOW_SECONDS_A_BYTE = 4e-9
"""A replay that takes longer than these together does little but collect: malloc and free take less
than a twentieth of it."""


class Counted(Struct, frozen=True):
    """What of the counts of a schedule reports read."""

    objects: Number = 0
    allocated_bytes: Number = 0
    peak_bytes: Number = 0
    threads: Number = 1


class AskedHow(Struct, frozen=True):
    death: str
    threads: bool = False


class AskedOfReplay(Asked, frozen=True, kw_only=True):
    how: AskedHow


class ReplayRun(Header, frozen=True, kw_only=True):
    """What run.json says of all studies of replays."""

    request: AskedOfReplay
    schedule: Counted = Counted()


@dataclass(frozen=True)
class Replayable:
    """A trace whose schedule was compiled. ``program`` is its replay; ``counted`` is what the
    header of the schedule counts."""

    trace: Trace
    how: How
    folder: Path
    schedule: Path
    program: Program
    counted: dict[str, int]
    watcher: Watcher

    def asked(self) -> dict[str, Any]:
        """What of the request is the same for all studies."""
        return {
            "trace": str(self.trace.folder.resolve()),
            "meta_sha256": hash_file(self.trace.folder / META_FILE),
            "how": {
                name: value
                for name, value in asdict(self.how).items()
                if value or name != "pace"  # which an earlier version did not know
            },
        }


class RepeatedReplays(Repeated, Protocol):
    """What is asked of such a study."""

    def where(self, **changed: Any) -> Where: ...


def prepare(trace: Trace, how: How, study: str, request: Request) -> Replayable:
    """Compile ``trace`` in the results folder, which is a new one of ``study`` if none is named.
    Raises UsageError where the trace does not have what ``how`` needs; no new folder is left."""
    how = replace(how, process=check(trace, how))
    where = request.folder_or_new(study, trace.folder.stem)
    watcher = request.watcher or Watcher()
    schedule = (where / ".work" / replayer.SCHEDULE_FILE).resolve()
    if left_out := len(trace.processes) - 1:
        others = f"{left_out} other process{'es' if left_out > 1 else ''}"
        watcher.note(f"replaying process {how.process} of the trace, and not its {others}")
    watcher.note(f"compiling {format_count(trace.processes[how.process or 0]['objects'])} objects")
    counted = _compile(trace, how, schedule)
    program = replayer.program_of(trace, how, schedule)
    return Replayable(trace, how, where, schedule, program, counted, watcher)


def _compile(trace: Trace, how: How, schedule: Path) -> dict[str, int]:
    """As ``compile_trace``; where that fails, no new folder is left."""
    folder = schedule.parent.parent
    with writing(folder):
        schedule.parent.mkdir(parents=True, exist_ok=True)
    try:
        return compile_trace(trace, how, schedule)
    except BaseException:
        schedule.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a folder that holds more stays
            schedule.parent.rmdir()
            folder.rmdir()
        raise


def measure_replays(
    prepared: Replayable, study: Rounds, request: RepeatedReplays, question: Question
) -> Results:
    """Replay under each manager as often as asked, the managers in turns. ``question`` is without
    what all such studies ask."""
    repeated = replace(
        question,
        asked={
            **question.asked,
            **prepared.asked(),
            "runs": request.runs,
            "warmup": request.warmup,
        },
        facts={"schedule": prepared.counted, **question.facts},
    )
    where = request.where(folder=prepared.folder, watcher=prepared.watcher)
    return measure(repeated, in_rounds(study, question.compared, request), where)


def oracles(prepared: Replayable) -> dict[str, int]:
    """By each death that the trace tells of, the most bytes that live at one moment."""
    peaks = {}
    for death in DEATHS:
        how = replace(prepared.how, death=death)
        try:
            check(prepared.trace, how)
        except UsageError:
            continue
        if how == prepared.how:
            peaks[death] = prepared.counted["peak_bytes"]
            continue
        other = prepared.schedule.with_suffix(".oracle")
        peaks[death] = compile_trace(prepared.trace, how, other)["peak_bytes"]
        other.unlink()
    return peaks


def slow(counted: dict[str, int]) -> float:
    """After so many seconds a replay of the schedule that counts these is not worth waiting for."""
    return (
        _LEAST_TIMEOUT_SECONDS
        + _SLOW_SECONDS_AN_OBJECT * counted["objects"]
        + _SLOW_SECONDS_A_BYTE * counted["allocated_bytes"]
    )
