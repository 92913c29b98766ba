"""One run under the recorder: the object of observers/recorder, preloaded in front of a manager.

It writes down births and deaths of objects where they happen, so a program runs at nearly its own
speed. observers/recorder/format.hpp describes the files that it leaves; tare-merge makes of them,
when the run is over, the tables of a raw recording.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from tare.base.errors import TareError
from tare.base.native import native_file
from tare.base.units import format_bytes
from tare.memory_managers.manager import Manager
from tare.observers.protocol import Observer
from tare.observers.recording_switch import FILE as SWITCH_FILE
from tare.records.metrics import Status
from tare.records.runs import Outcome

OBJECT = "lib/libtare-recorder.so"
MERGER = "bin/tare-merge"
FOLDER_VARIABLE = "TARE_RECORDER_FOLDER"
STACKS_VARIABLE = "TARE_RECORDER_STACKS"
SAMPLE_VARIABLE = "TARE_RECORDER_SAMPLE"
SWITCH_VARIABLE = "TARE_RECORDER_SWITCH"
SIGNAL_VARIABLE = "TARE_RECORDER_SIGNAL"

_MAGIC = b"TAREREC2"
_NUMBERS = struct.Struct("<8s6I8Q")
_PATH_BYTES = 4096
_HEADER_BYTES = 4 * 4096
_MOST_PROCESSES = 100_000
_NOTE_SECONDS = 10.0
_FIRST_NOTE_SECONDS = 2.0


@dataclass(frozen=True)
class Header:
    """What a process showed of itself. ``servers`` are the files of the malloc and the free behind
    the recorder."""

    pid: int
    servers: tuple[str, str]


def require() -> Path:
    """The object that is preloaded. MissingError where Tare was built without the recorder."""
    native_file(MERGER)
    return native_file(OBJECT)


def in_front_of(
    manager: Manager,
    recording: Path,
    *,
    stacks: bool,
    sample_bytes: int = 0,
    switched: bool = False,
    signal_number: int = 0,
) -> Manager:
    """``manager`` with the recorder before it: malloc and free resolve to the recorder. If
    ``switched``, by the switch of the recording, and by a signal where its number is not 0."""
    variables = {
        FOLDER_VARIABLE: str(recording.resolve()),
        STACKS_VARIABLE: "yes" if stacks else "no",
        SAMPLE_VARIABLE: str(sample_bytes),
    }
    if switched:
        variables |= {
            SWITCH_VARIABLE: str(recording.resolve() / SWITCH_FILE),
            SIGNAL_VARIABLE: str(signal_number),
        }
    return manager.behind(native_file(OBJECT), variables)


class Recorder(Observer):
    """The observer of one run, which must show that ``manager`` stands behind the recorder."""

    def __init__(self, recording: Path, manager: Manager) -> None:
        self._recording = recording
        self._manager = manager

    def complete(
        self,
        folder: Path,  # noqa: ARG002
        pids: Collection[int],  # noqa: ARG002
        outcome: Outcome,
    ) -> Outcome:
        headers = read_headers(self._recording)
        if not headers:
            reason = "the recorder wrote no recording"
            return replace(outcome, status=Status.FAILED, reason=reason, values={})
        for header in headers:
            for server in header.servers:
                if not self._manager.serves(server):
                    reason = f"the recorder of process {header.pid} is served by {server}"
                    return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
        return replace(outcome, server=os.path.realpath(headers[0].servers[0]))


def read_headers(recording: Path) -> list[Header]:
    """Those of the processes that lived to write one, in the order of their numbers."""
    paths = _events_files(recording)
    return [header for path in paths if (header := _read_header(path)) is not None]


def _events_files(recording: Path) -> list[Path]:
    paths = sorted(recording.glob("*.events"))
    if len(paths) > _MOST_PROCESSES:
        raise TareError(f"{len(paths)} processes are more than a trace can hold")
    return paths


def _read_header(path: Path) -> Header | None:
    with path.open("rb") as file:
        data = file.read(_HEADER_BYTES)
    if len(data) < _NUMBERS.size + 3 * _PATH_BYTES or not data.startswith(_MAGIC):
        return None
    names = data[_NUMBERS.size :]
    _, malloc, free = (
        os.fsdecode(names[at : at + _PATH_BYTES].split(b"\0")[0])
        for at in range(0, 3 * _PATH_BYTES, _PATH_BYTES)
    )
    return Header(pid=int.from_bytes(data[8:12], "little"), servers=(malloc, free))


def merge(recording: Path, note: Callable[[str], None]) -> None:
    """Make tables of the events in ``recording``, which are removed. Raises TareError where that
    fails, as on a full disk."""
    merger = native_file(MERGER)
    for path in _events_files(recording):
        words = [str(merger), str(path.with_suffix(""))]
        telling = f"sorting {format_bytes(path.stat().st_size)} of events"
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            errors = _await(process, lambda telling=telling: note(telling))  # type: ignore[misc]
        if process.returncode != 0:
            text = errors.strip() or f"status {process.returncode}"
            raise TareError(f"the recording could not be sorted: {text}", "is the disk full?")


def _await(process: subprocess.Popen[str], tell: Callable[[], None]) -> str:
    """What the process complained of; ``tell`` is called now and then until its end."""
    pause = _FIRST_NOTE_SECONDS
    while True:
        try:
            return process.communicate(timeout=pause)[1]
        except subprocess.TimeoutExpired:
            tell()
            pause = _NOTE_SECONDS
        except BaseException:
            process.kill()
            raise
