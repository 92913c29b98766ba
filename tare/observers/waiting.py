"""Waits outside of a process that runs, until its memory is to be looked at: a line of /proc is
read once a second, and nothing of the process is touched."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tare.base.errors import ProgramError
from tare.base.units import format_bytes
from tare.observers.asked import AT_ONCE, When
from tare.observers.attaching import Target
from tare.observers.process_memory import PAGE

_LOOK_SECONDS = 1.0


@contextmanager
def awaited(target: Target, when: When, note: Callable[[str], None]) -> Iterator[str]:
    """Gives why the waiting is over. Within, the signal does not end Tare. ProgramError where the
    process ends before."""
    if when == AT_ONCE:
        yield ""
        return
    told, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = None
    try:
        if when.signal_number:
            before = signal.signal(when.signal_number, lambda *_: _told(tell))
        note(f"waiting for {target.name}, process {target.pid}, until {when}")
        yield _waited(target, when, told)
    finally:
        if before is not None:
            signal.signal(when.signal_number, before)
        os.close(told)
        os.close(tell)


def _told(tell: int) -> None:
    with suppress(BlockingIOError):
        os.write(tell, b"!")


def _waited(target: Target, when: When, told: int) -> str:
    most = 0
    while True:
        if not target.is_there():
            seen = f"; at most {format_bytes(most)} were seen resident" if most else ""
            raise ProgramError(
                f"process {target.pid} ended before what was waited for ({when}){seen}",
                "nothing was recorded",
            )
        resident = _resident(target.pid)
        most = max(most, resident)
        if when.resident_bytes and resident > when.resident_bytes:
            return f"{format_bytes(resident)} were resident"
        if select.select([told], [], [], _LOOK_SECONDS)[0]:
            return f"it got the signal {signal.Signals(when.signal_number).name}"


def _resident(pid: int) -> int:
    """As the kernel counts it at no cost, 0 of what has ended."""
    try:
        return int(Path("/proc", str(pid), "statm").read_bytes().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0
