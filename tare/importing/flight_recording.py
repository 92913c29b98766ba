"""Java's flight recordings as ``jfr print --json`` writes them: allocations, sampled, by stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
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

TITLE = "Java's flight recordings (jfr print --json)"
_MOST_BYTES = 256 << 20
_MOST_LINE = 1 << 31
_WEIGHTS = {
    "jdk.ObjectAllocationSample": "weight",
    "jdk.ObjectAllocationInNewTLAB": "tlabSize",
    "jdk.ObjectAllocationOutsideTLAB": "allocationSize",
}
_HEAP = "jdk.GCHeapSummary"


def recognises_runs(path: Path) -> bool:
    start = head(path)
    return start.startswith(b"FLR\0") or b"".join(start.split()).startswith(b'{"recording":')


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    note(f"reading {path}")
    if head(path).startswith(b"FLR\0"):
        raise UsageError(
            f"{path} is a flight recording in Java's own form",
            "write its text, and import that: jfr print --json FILE > FILE.json",
        )
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
