"""Java's flight recordings: allocations, sampled, by stack. The JDK's ``jfr`` reads them, so they
come as it prints them, or it is started.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tare.base.errors import MissingError, UsageError
from tare.base.text import writable
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import LONGEST_NAME
from tare.importing.dumps import (
    MOST_FRAMES,
    Dump,
    Site,
    as_imported,
    count,
    head,
    malformed,
    whole_text,
)
from tare.importing.runs import Imported
from tare.importing.tools import TooLongError, first_bytes, written_by
from tare.memory_managers.runtimes.jvm import PACKAGE

TITLE = "Java's flight recordings (.jfr, or jfr print --json)"
_DEPTHS = (64, 16, 5)
"""Of stacks: fewer frames where the text would be too long."""
_MOST_BYTES = 256 << 20
_MOST_LINE = 1 << 31
_WEIGHTS = {
    "jdk.ObjectAllocationSample": "weight",
    "jdk.ObjectAllocationInNewTLAB": "tlabSize",
    "jdk.ObjectAllocationOutsideTLAB": "allocationSize",
}
_HEAP = "jdk.GCHeapSummary"


def recognises_runs(path: Path) -> bool:
    return _is_raw(path) or b"".join(head(path).split()).startswith(b'{"recording":')


def _is_raw(path: Path) -> bool:
    return first_bytes(path).startswith(b"FLR\0")


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    if not _is_raw(path):
        note(f"reading {path}")
        return _imported(path)
    jfr = _tool(path)
    note(f"having {jfr} read {path}")
    for depth in _DEPTHS:
        try:
            with written_by(
                path, functools.partial(_printing, jfr, path, depth), _MOST_BYTES
            ) as text:
                return _imported(text)
        except TooLongError:
            if depth == _DEPTHS[-1]:
                raise
    raise AssertionError


def _printing(jfr: str, path: Path, depth: int, _target: Path) -> list[str]:
    events = ",".join([*_WEIGHTS, _HEAP])
    return [jfr, "print", "--json", "--stack-depth", str(depth), "--events", events, str(path)]


def _tool(path: Path) -> str:
    home = os.environ.get("JAVA_HOME")
    if found := (home and shutil.which(f"{home}/bin/jfr")) or shutil.which("jfr"):
        return found
    raise MissingError(
        f"{path} is a flight recording in Java's own form, and a JDK's jfr is not installed",
        f"apt-get install {PACKAGE}; or where there is one: jfr print --json FILE > FILE.json, and "
        "import that",
    )


def _imported(path: Path) -> Imported:
    try:
        dump = _read(path, json.loads(whole_text(path, _MOST_BYTES)))
    except json.JSONDecodeError as error:
        raise malformed(path, error.lineno, f"not JSON: {error.msg}") from None
    except RecursionError:
        raise UsageError(f"{path} is no flight recording: it is nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is no flight recording, or is damaged: {what}") from None
    return as_imported(dump)


def _read(path: Path, document: Mapping[str, Any]) -> Dump:
    sites, used = [], []
    for event in document["recording"]["events"]:
        kind, values = event["type"], event["values"]
        if kind in _WEIGHTS:
            stack = values["stackTrace"]
            frames = () if stack is None else map(_frame, stack["frames"][:MOST_FRAMES])
            sites.append(Site(tuple(frames), bytes=count(values[_WEIGHTS[kind]])))
        elif kind == _HEAP:
            used.append((count(values["heapUsed"]), count(values["heapSpace"]["committedSize"])))
    if not sites and not used:
        raise ValueError("it has no samples of allocations, and no sizes of the heap")
    values = {}
    if used:
        values = {
            "live_bytes": float(used[-1][0]),
            "obtained_bytes": float(max(committed for _, committed in used)),
        }
    return Dump(
        "Java's flight recorder",
        path.name,
        "unknown",
        sites,
        values=values,
        estimated="Allocations were sampled: bytes by call site are estimates.",
        notes=["Live bytes are those that the heap's last summary has, garbage included."]
        * bool(used),
    )


def _frame(frame: Mapping[str, Any]) -> Frame:
    method = frame["method"]
    name = f"{method['type']['name']}.{method['name']}".replace("/", ".")
    line = frame["lineNumber"]
    is_known = type(line) is int and 0 < line < _MOST_LINE
    return Frame(writable(name[:LONGEST_NAME]), line=line if is_known else 0)
