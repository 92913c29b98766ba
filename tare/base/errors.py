"""What can go wrong, each with the exit code that the command line gives it."""

from __future__ import annotations

from pathlib import Path


class TareError(Exception):
    """Tare itself could not go on (full disk, unreadable folder): exit code 4.

    ``message`` says what happened and to which file or program; ``hint`` says what to do about it.
    """

    exit_code = 4

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message, as on the command line."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(TareError):
    """The request cannot be understood or makes no sense: exit code 2."""

    exit_code = 2


class MissingError(TareError):
    """Something needed is missing or cannot work here; the hint says what helps: exit code 3."""

    exit_code = 3


class ProgramError(TareError):
    """The program to measure fails by itself: exit code 1."""

    exit_code = 1


class InterruptedStudy(KeyboardInterrupt):
    """Ctrl-C or SIGTERM during a study. ``folder`` holds every run that had finished."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
