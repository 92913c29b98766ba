"""Progress of a study on standard error."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tare.base.text import printable
from tare.base.units import format_duration
from tare.campaign.watching import Watcher
from tare.records.metrics import Status
from tare.records.runs import Record, Run

_LINE_EVERY_SECONDS = 10.0


class TerminalWatcher(Watcher):
    """A bar on a terminal; a line now and then where standard error is a file or a pipe."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._wraps = not self._console.is_terminal
        self._progress: Progress | None = None
        self._done = 0
        self._total = 0
        self._seconds: float | None = None
        self._begun = 0.0
        self._last_line = 0.0

    def note(self, text: str) -> None:
        self._console.print(f"[dim]{escape(printable(text))}[/dim]", soft_wrap=self._wraps)

    def begin(self, title: str, runs: int, expected_seconds: float | None) -> None:
        self._done, self._total = 0, runs
        self._seconds = None if runs else expected_seconds
        self._begun = self._last_line = time.monotonic()
        cost = f", about {format_duration(expected_seconds)}" if expected_seconds else ""
        of_runs = f": {runs} run{'s' if runs != 1 else ''}"
        self.note(f"{title}{cost} at most" if self._seconds else f"{title}{of_runs}{cost}")
        done = TimeElapsedColumn() if self._seconds else MofNCompleteColumn()
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                done,
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
                refresh_per_second=2,  # drawing takes processor time from what is measured
            )
            self._progress.start()
            self._progress.add_task("", total=self._seconds or max(runs, 1))

    def run(self, run: Run, record: Record | None) -> None:
        if record is None:
            self._show(run)
            return
        self._done += 1
        if record.outcome.status is not Status.OK:
            self._console.print(
                f"[yellow]{escape(printable(run.program))} under {escape(run.manager)}: "
                f"{record.outcome.status}: {escape(printable(record.outcome.reason))}[/yellow]",
                soft_wrap=self._wraps,
            )

    def _show(self, run: Run) -> None:
        if self._progress is not None:
            completed, total = self._share()
            self._progress.update(
                self._progress.task_ids[0],
                completed=completed,
                total=total,
                description=escape(f"{printable(run.program)[:28]} · {run.manager[:20]}"),
            )
        elif time.monotonic() - self._last_line > _LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            print(self._line(), file=sys.stderr, flush=True)

    def _share(self) -> tuple[float, float]:
        """What is done, of what: runs, or seconds where nobody knows how many runs that makes."""
        if self._seconds:
            return min(time.monotonic() - self._begun, self._seconds), self._seconds
        return self._done, max(self._total, self._done + 1)

    def _line(self) -> str:
        if self._seconds:
            passed = format_duration(time.monotonic() - self._begun)
            return f"{self._done} runs done, {passed} of {format_duration(self._seconds)} at most"
        return f"{self._done} of about {self._total} runs done"

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
