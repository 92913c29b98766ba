"""Names and lines for places in programs and libraries, of all observers and recordings alike: by
tare-symbols of observers/symbols. A call's place is the byte before its return address."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.base.text import writable
from tare.heap_traces.recording import Frame

LONGEST_NAME = 4096
_TOOL = "bin/tare-symbols"
_TIMEOUT_SECONDS = 600.0
_FETCHING_SECONDS = "60"
"""Of a file of debug information from a server, where the user sets nothing else."""
_ESCAPED_BYTE = re.compile(r"\\u(dc[89a-f][0-9a-f])")

_Key = tuple[str, int]


def unfold(frames: Sequence[Frame]) -> list[list[Frame]]:
    """For each frame, of which the object and the offset count, the function there and those that
    have it inlined, the innermost first, each with its line. The frame itself where nothing more is
    known: where the object is no file, has no names, or Tare was built without elfutils."""
    keys = {(frame.object, frame.offset) for frame in frames if frame.object and frame.offset}
    paths = {name: _program(name) for name in {name for name, _ in keys}}
    asked = sorted((key for key in keys if paths[key[0]]), key=lambda key: (paths[key[0]], key))
    answers = _ask([(paths[name], offset) for name, offset in asked])
    places = dict(zip(asked, answers, strict=False))
    return [_frames(frame, places.get((frame.object, frame.offset), [])) for frame in frames]


def _program(name: str) -> bytes:
    """The path of an object; nothing where it is no executable file or library."""
    if not name.startswith("/") or "\0" in name:
        return b""
    unescaped = _ESCAPED_BYTE.sub(lambda match: chr(int(match[1], 16)), name)
    for path in map(Path, (name, unescaped)):
        try:
            if path.is_file():  # a pipe would be waited for
                with path.open("rb") as file:
                    return os.fsencode(path) if file.read(4) == b"\x7fELF" else b""
        except (OSError, ValueError):
            continue
    return b""


def _ask(asked: Sequence[tuple[bytes, int]]) -> list[list[list[str | int]]]:
    """For each path and offset a list of function, file and line; nothing at all where the tool is
    missing or fails."""
    if not asked:
        return []
    try:
        done = subprocess.run(
            [native_file(_TOOL)],
            input=b"".join(b"%x %s\0" % (offset, path) for path, offset in asked),
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            env={"DEBUGINFOD_MAXTIME": _FETCHING_SECONDS, **os.environ},
        )
    except (MissingError, OSError, subprocess.TimeoutExpired):
        return []
    return [
        json.loads(line) for line in done.stdout.splitlines(keepends=True) if line[-1:] == b"\n"
    ]


def _frames(frame: Frame, places: Sequence[Sequence[str | int]]) -> list[Frame]:
    named = [
        replace(
            frame,
            function=writable(str(function))[:LONGEST_NAME],
            file=writable(os.path.normpath(str(file)))[:LONGEST_NAME] if file else "",
            line=int(line),
        )
        for function, file, line in places
    ]
    if not named:
        return [frame]
    outermost = named[-1]
    named[-1] = replace(outermost, function=outermost.function or frame.function)
    return named
