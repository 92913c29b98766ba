"""Call stacks with their sums, in the forms that other tools' viewers read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tare.base.text import shortened, visible
from tare.base.version import __version__
from tare.heap_traces.frames import frame_text

LONGEST_FRAME = 400
"""Characters of a frame: names of C++ templates know no bound."""
OTHER = "[other stacks]"
UNKNOWN = "[unknown]"
_MOST_INTEGER = (1 << 63) - 1


@dataclass(frozen=True)
class Frame:
    """One frame as viewers show it: ``name`` alone, ``text`` with its place. ``line`` is 0 where it
    is not known."""

    name: str
    text: str
    file: str = ""
    line: int = 0


@dataclass
class Stack:
    """``frames`` from the innermost on; ``sums`` by the name of what is summed."""

    frames: tuple[Frame, ...]
    sums: dict[str, float]


@dataclass(frozen=True)
class Kind:
    """Of sums: ``title`` is for people, ``name`` and ``unit`` are pprof's, bytes or count."""

    title: str
    name: str
    unit: str


@dataclass(frozen=True)
class Profile:
    """``kinds`` by the names in the sums, what a viewer is to show at first before others."""

    name: str
    kinds: Mapping[str, Kind]
    stacks: Sequence[Stack]


def frame_of(raw: Mapping[str, Any]) -> Frame:
    """Of a frame as traces and records have it."""

    def tidy(text: str) -> str:
        return shortened(visible(text), LONGEST_FRAME)

    name = tidy(frame_text(raw, with_place=False))
    return Frame(name, tidy(frame_text(raw)), tidy(raw["file"]), raw["line"] or 0)


# ---- collapsed stacks ----


def to_collapsed(profile: Profile, summed: str) -> bytes:
    """A line a stack, ``outermost;…;innermost sum``, as flame graph tools read it."""
    lines: dict[str, int] = {}
    for stack in profile.stacks:
        names = (frame.name for frame in reversed(stack.frames))
        line = ";".join(name.replace(";", ":") for name in names)
        lines[line] = lines.get(line, 0) + round(stack.sums[summed])
    return "".join(f"{line} {count}\n" for line, count in lines.items() if count).encode()


# ---- speedscope ----


def to_speedscope(profile: Profile) -> bytes:
    """The file format of speedscope, with a profile for each kind of sums."""
    numbers: dict[Frame, int] = {}
    samples = [
        [numbers.setdefault(frame, len(numbers)) for frame in reversed(stack.frames)]
        for stack in profile.stacks
    ]
    profiles = []
    for summed, kind in profile.kinds.items():
        weights = [round(stack.sums[summed], 3) for stack in profile.stacks]
        profiles.append(
            {
                "type": "sampled",
                "name": kind.title,
                "unit": "bytes" if kind.unit == "bytes" else "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        )
    frames = []
    for frame in numbers:
        one: dict[str, Any] = {"name": frame.name}
        if frame.file:
            one["file"] = frame.file
        if frame.line:
            one["line"] = frame.line
        frames.append(one)
    return as_json(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": frames},
            "profiles": profiles,
            "name": profile.name,
            "exporter": f"tare {__version__}",
            "activeProfileIndex": 0,
        }
    )


def as_json(document: Mapping[str, Any]) -> bytes:
    """On one line."""
    return (json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n").encode()


# ---- pprof ----


def to_pprof(profile: Profile) -> bytes:
    """A profile.proto of pprof, compressed. Its messages and field numbers are those of
    profile.proto in github.com/google/pprof."""
    strings: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str], int] = {}
    locations: dict[Frame, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    # pprof shows the last kind at first, unless it is told otherwise.
    kinds = dict(reversed([*profile.kinds.items()]))
    body = [
        _message(1, _number(1, text(kind.name)), _number(2, text(kind.unit)))
        for kind in kinds.values()
    ]
    for stack in profile.stacks:
        places = [locations.setdefault(frame, len(locations) + 1) for frame in stack.frames]
        values = [round(stack.sums[summed]) for summed in kinds]
        body.append(_message(2, _numbers(1, places), _numbers(2, values)))
    for frame, number in locations.items():
        function = functions.setdefault((frame.name, frame.file), len(functions) + 1)
        line = _message(4, _number(1, function), _number(2, frame.line))
        body.append(_message(4, _number(1, number), line))
    for (name, file), number in functions.items():
        words = (_number(2, text(name)), _number(3, text(name)), _number(4, text(file)))
        body.append(_message(5, _number(1, number), *words))
    first, *_ = profile.kinds.values()
    body.append(_number(14, text(first.name)))
    body.append(_number(13, text(profile.name)))
    body += [_bytes(6, value.encode(errors="replace")) for value in strings]
    return gzip.compress(b"".join(body), mtime=0)


def _varint(value: int) -> bytes:
    value = min(value, _MOST_INTEGER)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _bytes(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(value)) + value


def _message(tag: int, *fields: bytes) -> bytes:
    return _bytes(tag, b"".join(fields))


def _numbers(tag: int, values: Iterable[int]) -> bytes:
    return _bytes(tag, b"".join(map(_varint, values)))
