"""What a command found, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a command that only tells its version has none
    from tare.records.results import Results


@dataclass(frozen=True)
class Output:
    """Where results go. ``folder`` None is a new one below tare-results."""

    folder: Path | None
    json_file: Path | None
    csv_file: Path | None
    page: bool
    quiet: bool
    verbose: bool = False


@dataclass(frozen=True)
class Answer:
    """What a command found, and where it goes: the command line shows it, writes it, and ends with
    ``exit_code``; None is 1 where a run gave a status instead of a figure, else 0."""

    results: Results
    output: Output
    markdown: Path | None = None
    exit_code: int | None = None
    opens: bool = False
    """Whether the page is to be opened when it is written."""
