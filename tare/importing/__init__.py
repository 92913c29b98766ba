"""Recordings of other tools, made into heap traces or results.

A format is a module here with ``TITLE``, ``recognises`` and ``read``; it is found by being there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tare.base.errors import UsageError
from tare.base.interrupts import termination_as_interrupt
from tare.base.version import __version__
from tare.heap_traces.trace import Trace, open_trace
from tare.importing import runs
from tare.importing.events import Facts, RecordingWriter
from tare.importing.lines import Source
from tare.observers.tracing import finish, partial_folder, refuse_occupied
from tare.programs.program import NAME_LIMIT

_PID = re.compile(r"\.(\d{1,9})(\.raw)?(\.gz|\.zst)?$")


class Format(Protocol):
    """``recognises`` is given the first 4,096 bytes of a file, uncompressed."""

    TITLE: str

    def recognises(self, head: bytes) -> bool: ...

    def read(self, source: Source, writer: RecordingWriter) -> Facts: ...


def formats() -> list[Format]:
    """All that can be imported."""
    return runs.modules_with("recognises")


def import_recording(
    path: Path,
    target: Path,
    *,
    replace: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Trace:
    """Make a heap trace in the folder ``target`` of the file ``path``, a recording of another tool.

    ``replace`` allows to replace a trace that is there. What is missing of a recording that is cut
    off or damaged, ``meta["reason"]`` of the trace says. Raises UsageError where the file is no
    recording that Tare knows.
    """
    refuse_occupied(target, replace_trace=replace)
    source = Source(path, note)
    chosen = _format_of(source)
    with termination_as_interrupt(), partial_folder(target, note) as partial:
        recording, folder = partial / "recording", partial / "trace"
        recording.mkdir()
        folder.mkdir()
        with RecordingWriter(recording, _pid_of(path)) as writer:
            found = chosen.read(source, writer)
            words = found.command.split()
            executable = found.executable or (words[0] if words else "")
            writer.finish(executable, whole=not found.missing)
        finish(recording, folder, target, _meta(path, words, found, writer), found.missing, note)
    return open_trace(target)


def _format_of(source: Source) -> Format:
    head = source.head()
    known = formats()
    for each in known:
        if each.recognises(head):
            return each
    if not head:
        reason = source.damage or "it is empty"
        raise UsageError(f"{source.path} cannot be read: {reason}")
    titles = ", ".join([each.TITLE for each in known] + [each.TITLE for each in runs.formats()])
    raise UsageError(f"{source.path} is not a recording that Tare can read", f"it reads: {titles}")


def _pid_of(path: Path) -> int:
    """heaptrack puts the number of the process into the file's name."""
    match = _PID.search(path.name)
    return int(match[1]) if match else 0


def _meta(path: Path, words: list[str], found: Facts, writer: RecordingWriter) -> dict[str, Any]:
    name = " ".join([Path(words[0]).name, *words[1:]]) if words else path.name
    return {
        "tare": __version__,
        "observer": found.observer,
        "observed": ["free", "sites", "nanoseconds", *["address"] * found.has_addresses],
        "reachability_bytes": 0,
        "program": {"name": name[:NAME_LIMIT], "argv": words, "executable": found.executable},
        "manager": "unknown",
        "manager_version": "",
        "started": "",
        "machine": {},
        "server": "",
        "wall_seconds": None,
        "status": "",
        "instructions": None,
        "allocated_bytes": writer.allocated_bytes,
        "max_live_bytes": writer.max_live_bytes,
        "imported": path.name,
        "notes": list(found.notes),
    }
