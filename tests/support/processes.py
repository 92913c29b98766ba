"""The processes of this machine."""

from __future__ import annotations

from pathlib import Path


def processes_with(marker: str) -> list[str]:
    """Those whose command line holds ``marker``: their numbers, and their command lines."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in text:
            found.append(f"{entry.parent.name}: {text}")
    return found
