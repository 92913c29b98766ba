"""Profiles of DHAT, Valgrind's or Rust's: sums by place in the program, not objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.importing.runs import UNKNOWN, Imported, ImportedRun, named
from tare.records.metrics import Status

TITLE = "DHAT (its JSON)"
MOST_PLACES = 100
_HEAD_BYTES = 4096
_MOST_FILE_BYTES = 1 << 30
_MOST_FRAMES = 200
_VERSION = 2
_OWN_OBJECT = "vgpreload_dhat"
"""Where DHAT's own malloc lies, which is the innermost frame of all."""
_MODES = ("heap", "rust-heap")
_SUMMED = {
    "allocated_bytes": "tb",
    "objects": "tbk",
    "max_live_bytes": "gb",
    "max_live_objects": "gbk",
}
_OF_PLACE = ("tb", "tbk", "gb", "eb", "tl", "rb", "wb")


def recognises_runs(path: Path) -> bool:
    """Whether ``path`` is a file that begins as DHAT's do."""
    try:
        with path.open("rb") as file:
            return b'"dhatFileVersion"' in file.read(_HEAD_BYTES)
    except OSError:
        return False


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    """The one run that a profile is of."""
    del note
    try:
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise UsageError(f"{path} is larger than {_MOST_FILE_BYTES >> 30} GiB")
        document = json.loads(path.read_bytes())
        run = _run(document)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise UsageError(f"{path} is not a profile of DHAT: it is nested too deeply") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a profile of DHAT, or is damaged: {type(error).__name__}: {error}"
        ) from None
    return Imported(
        tool="DHAT",
        runs=[run],
        notes=[
            "DHAT keeps totals by call site, not objects, so there is no heap trace.",
            "DHAT replaces malloc, so the profile says nothing about other managers.",
        ],
    )


def _run(document: Mapping[str, Any]) -> ImportedRun:
    if document["dhatFileVersion"] != _VERSION:
        raise ValueError(f"version {document['dhatFileVersion']!r}, not {_VERSION}")
    if document["mode"] not in _MODES:
        raise ValueError(f"its mode is {document['mode']!r}, not that of a heap profile")
    places: Sequence[Mapping[str, Any]] = document["pps"]
    known = {m: k for m, k in _SUMMED.items() if all(k in place for place in places)}
    values = {metric: float(sum(_count(place[key]) for place in places))
              for metric, key in known.items()}  # fmt: skip
    if document["tu"] == "instrs":
        values["instructions"] = float(_count(document["te"]))
    largest = sorted(places, key=lambda place: -_count(place["tb"]))[:MOST_PLACES]
    details = {
        "unit": str(document["tu"])[:10],
        "places": [_place(place, document["ftbl"]) for place in largest],
        "all_places": len(places),
    }
    program = named(str(document["cmd"]))
    return ImportedRun(program, UNKNOWN, Status.OK, values=values, details=details)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{value!r} in place of a number")
    return value


def _place(place: Mapping[str, Any], frames: Sequence[object]) -> dict[str, Any]:
    """From the innermost frame on, without addresses."""
    numbers = [_count(number) for number in place["fs"][:_MOST_FRAMES]]
    texts = [text for number in numbers if _OWN_OBJECT not in (text := str(frames[number]))]
    return {
        "frames": [named(text.partition(": ")[2] or text) for text in texts],
        **{key: _count(place[key]) for key in _OF_PLACE if key in place},
    }
