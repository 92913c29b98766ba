"""Progress of a study on standard error."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tare.base.text import printable
from tare.base.units import format_duration
from tare.campaign.watching import Watcher
from tare.records.metrics import Status
from tare.records.runs import Record, Run

_LINE_EVERY_SECONDS = 10.0


class TerminalWatcher(Watcher):
    """A bar on a terminal; a line now and then where standard error is a file or a pipe."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False)
        self._wraps = not self._console.is_terminal
        self._progress: Progress | None = None
        self._done = 0
        self._total = 0
        self._last_line = 0.0

    def note(self, text: str) -> None:
        if not self._quiet:
            self._console.print(f"[dim]{escape(printable(text))}[/dim]", soft_wrap=self._wraps)

    def begin(self, title: str, runs: int, expected_seconds: float | None) -> None:
        self._done, self._total = 0, runs
        self._last_line = time.monotonic()
        if self._quiet:
            return
        cost = f", about {format_duration(expected_seconds)}" if expected_seconds else ""
        self.note(f"{title}: {runs} run{'s' if runs != 1 else ''}{cost}")
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
                refresh_per_second=2,  # drawing takes processor time from what is measured
            )
            self._progress.start()
            self._progress.add_task("", total=max(runs, 1))

    def run(self, run: Run, record: Record | None) -> None:
        if record is None:
            self._show(run)
            return
        self._done += 1
        if record.outcome.status is not Status.OK and not self._quiet:
            self._console.print(
                f"[yellow]{escape(printable(run.program))} under {escape(run.manager)}: "
                f"{record.outcome.status}: {escape(printable(record.outcome.reason))}[/yellow]",
                soft_wrap=self._wraps,
            )

    def _show(self, run: Run) -> None:
        if self._progress is not None:
            self._progress.update(
                self._progress.task_ids[0],
                completed=self._done,
                total=max(self._total, self._done + 1),
                description=escape(f"{printable(run.program)[:28]} · {run.manager[:20]}"),
            )
        elif not self._quiet and time.monotonic() - self._last_line > _LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            print(f"{self._done} of about {self._total} runs done", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
