"""Who is told of the progress of a command."""

from __future__ import annotations

from tare.campaign.watching import Watcher


def watcher(quiet: bool) -> Watcher:
    """Whoever reads standard error; nobody with ``quiet``."""
    if quiet:
        return Watcher()
    from tare.studykit.progress import TerminalWatcher  # what draws takes long to load

    return TerminalWatcher()
