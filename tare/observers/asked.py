"""What is asked of observers: what a heap trace is to hold, and when a process that runs is to be
looked at."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tare.base.units import format_bytes

JVM = "jvm"
"""What records Java programs."""


@dataclass(frozen=True)
class Asked:
    """What a trace is to hold beyond births and frees. ``reachability_bytes`` is how many bytes
    are allocated between two marks; 0 is no marks. ``sample_bytes``, for the recorder alone, is how
    many bytes are allocated between two samples on average; 0 is all objects.

    With ``jvm`` the objects are those of a Java program, and marks are collections of its whole
    heap; with ``last_seen`` deaths are moved from there to when an object was last seen.

    The recorder can be turned on and off while the program runs, by a signal of ``signal_number``
    if that is not 0, and by words that are written to the file ``control``. If ``paused`` it is off
    at first."""

    last_use: bool = False
    sites: bool = True
    pointers: bool = False
    reachability_bytes: int = 0
    sample_bytes: int = 0
    paused: bool = False
    signal_number: int = 0
    control: Path | None = None
    jvm: bool = False
    last_seen: bool = False

    @property
    def has_switch(self) -> bool:
        """Whether recording can go on and off."""
        return self.paused or self.signal_number != 0 or self.control is not None

    @property
    def needs_instrument(self) -> bool:
        """Whether it takes more than births and frees, which the recorder sees."""
        return not self.jvm and (self.last_use or self.pointers or self.reachability_bytes > 0)

    @property
    def observer(self) -> str:
        """What records this, as meta.json names it."""
        if self.jvm:
            return JVM
        return "instrument" if self.needs_instrument else "recorder"

    def observed(self) -> list[str]:
        """The words for meta.json."""
        wanted = {
            "free": not self.jvm,
            "usable_size": not self.jvm,
            "sites": self.sites,
            "first_use": self.last_use,
            "last_use": self.last_use,
            "touched": self.last_use,
            "teardown": self.last_use,
            "unreachable": self.reachability_bytes > 0,
            "pointers": self.pointers,
            "nanoseconds": self.observer == "recorder",
            "address": self.observer == "recorder",
        }
        return [word for word, there in wanted.items() if there]


@dataclass(frozen=True)
class When:
    """When its resident memory is over ``resident_bytes``, or this Tare gets the signal; what is 0
    is not waited for, and where both are, it is at once."""

    resident_bytes: int = 0
    signal_number: int = 0

    def __str__(self) -> str:
        words = []
        if self.resident_bytes:
            words.append(f"over {format_bytes(self.resident_bytes)} are resident")
        if self.signal_number:
            name = signal.Signals(self.signal_number).name.removeprefix("SIG")
            words.append(f"kill -{name} {os.getpid()}")
        return " or ".join(words)


AT_ONCE = When()
