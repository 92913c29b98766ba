"""Who is told of the progress of a study."""

from __future__ import annotations

from tare.records.runs import Record, Run


class Watcher:
    """Told of the progress of a study; the methods do nothing here."""

    def note(self, text: str) -> None:
        """Something worth saying once."""

    def begin(self, title: str, runs: int, expected_seconds: float | None) -> None:
        """A part of the study starts, of about ``runs`` runs."""

    def run(self, run: Run, record: Record | None) -> None:
        """``run`` is about to start, or has ended with ``record``."""

    def end(self) -> None:
        """The part has ended."""
