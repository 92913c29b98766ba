"""Heap profiles of pprof: gzipped protocol buffers, as Go's runtime, tcmalloc and others write.

Of its message only what a heap profile needs is read: the sums of stacks, whose names and lines it
has itself. Go has scaled what it sampled.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.base.text import writable
from tare.base.units import format_bytes
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import LONGEST_NAME
from tare.importing.dumps import MOST_COUNT, MOST_FRAMES, Dump, Site, as_imported
from tare.importing.runs import Imported

TITLE = "heap profiles of pprof (gzipped protocol buffer)"
_MOST_BYTES = 256 << 20
_GZIP = b"\x1f\x8b"
_FIRST = b"\x0a\x5a"
"""Fields 1 and 11 are types of values; one of them comes first."""
_KINDS = {
    "inuse_space": "live_bytes",
    "inuse_objects": "live_objects",
    "alloc_space": "bytes",
    "alloc_objects": "objects",
    "space": "live_bytes",
    "objects": "live_objects",
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def recognises_runs(path: Path) -> bool:
    """A gzipped file whose text begins as the message does: a short field of two numbers."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
        if not start.startswith(_GZIP):
            return False
        text = zlib.decompressobj(31).decompress(start, 64)
        return text[0] in _FIRST and text[1] <= 8 and text[2] in (8, 16)
    except (OSError, zlib.error, IndexError):
        return False


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    note(f"reading {path}")
    try:
        return as_imported(_read(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, IndexError, KeyError, zlib.error, EOFError) as error:
        raise UsageError(f"{path} is not a heap profile of pprof, or is damaged: {error}") from None


@dataclass
class _Message:
    """The fields that are read, by number."""

    kinds: list[tuple[int, int]] = field(default_factory=list)
    samples: list[bytes] = field(default_factory=list)
    mappings: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    locations: dict[int, tuple[int, int, list[tuple[int, int]]]] = field(default_factory=dict)
    functions: dict[int, tuple[int, int]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    period: int = 0


def _read(path: Path) -> Dump:
    message = _message(_text(path))
    texts = message.texts
    kinds = [_KINDS.get(texts[kind]) for kind, _ in message.kinds]
    if "live_bytes" not in kinds:
        known = ", ".join(texts[kind][:40] for kind, _ in message.kinds[:8])
        raise ValueError(f"its values are {known or 'none'}, and not bytes in use")
    sites = [_site(message, sample, kinds) for sample in message.samples]
    go = any(text.startswith("runtime.") for text in texts)
    program = next((texts[m[2]] for m in message.mappings.values() if texts[m[2]]), "")
    rate = message.period
    estimated = (
        f"Objects were sampled, one each {format_bytes(rate)} on average: sizes by call site are "
        "estimates."
        if rate > 1
        else ""
    )
    return Dump(
        "pprof",
        program.rpartition("/")[2] or path.name,
        "go" if go else "unknown",
        sites,
        estimated=estimated,
    )


def _text(path: Path) -> bytes:
    with path.open("rb") as file:
        packed = file.read(_MOST_BYTES + 1)
    if len(packed) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    reader = zlib.decompressobj(31)
    text = reader.decompress(packed, _MOST_BYTES)
    if reader.unconsumed_tail:
        raise ValueError(f"its text is longer than {_MOST_BYTES >> 20} MiB")
    if not reader.eof:
        raise ValueError("it is cut off")
    return text


def _message(text: bytes) -> _Message:
    found = _Message()
    for number, value in _fields(text):
        if number == 12 and type(value) is int:
            found.period = value
        if not isinstance(value, bytes):
            continue
        if number == 1:
            parts = _numbers(value, 2)
            found.kinds.append((parts[0], parts[1]))
        elif number == 2:
            found.samples.append(value)
        elif number == 3:
            parts = _numbers(value, 5)
            found.mappings[parts[0]] = (parts[1], parts[3], parts[4])
        elif number == 4:
            key, of, address = _numbers(value, 3)
            lines = [part for n, part in _fields(value) if n == 4 and isinstance(part, bytes)]
            found.locations[key] = of, address, [_pair(_numbers(line, 2)) for line in lines]
        elif number == 5:
            key, name, _, file = _numbers(value, 4)
            found.functions[key] = name, file
        elif number == 6:
            found.texts.append(writable(value[:LONGEST_NAME].decode("utf-8", "replace")))
    return found


def _pair(numbers: Sequence[int]) -> tuple[int, int]:
    return numbers[0], numbers[1]


def _site(message: _Message, sample: bytes, kinds: Sequence[str | None]) -> Site:
    places, values = _repeated(sample, 1), _repeated(sample, 2)
    if len(values) != len(kinds):
        raise ValueError(f"a stack has {len(values)} values instead of {len(kinds)}")
    sums: dict[str, Any] = {}
    for kind, value in zip(kinds, values, strict=True):
        if value >= MOST_COUNT:
            raise ValueError("a stack has a negative value")
        if kind is not None:
            sums[kind] = value
    frames = [frame for place in places[:MOST_FRAMES] for frame in _frames(message, place)]
    return Site(tuple(frames[:MOST_FRAMES]), **sums)


def _frames(message: _Message, place: int) -> Iterator[Frame]:
    """Of a location, the innermost first; by its address where nothing else is known."""
    mapping, address, lines = message.locations[place]
    start, offset, file = message.mappings.get(mapping, (0, 0, 0))
    texts = message.texts
    for function, line in lines[:MOST_FRAMES]:
        name, source = message.functions[function]
        known = line if line < 1 << 31 else 0
        yield Frame(function=texts[name], file=texts[source], line=known)
    if not lines:
        path = texts[file] if mapping in message.mappings else ""
        inside = max(address - start + offset - 1, 0) if path and address >= start else 0
        yield Frame(object=path, offset=inside)


def _numbers(text: bytes, most: int) -> list[int]:
    """The first numbers of a message: 0 where one is not written."""
    found = [0] * most
    for number, value in _fields(text):
        if number <= most and type(value) is int:
            found[number - 1] = value
    return found


def _repeated(text: bytes, wanted: int) -> list[int]:
    """Numbers that are packed, or one by one."""
    found: list[int] = []
    for number, value in _fields(text):
        if number != wanted:
            continue
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            found.append(one)
    return found


def _fields(text: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(text):
        key, at = _varint(text, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(text, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(text, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"byte {at} is no field of a message")
        if at + size > len(text):
            raise ValueError(f"it is cut off at byte {at}")
        if kind == _BYTES:
            yield number, text[at : at + size]
        at += size


def _varint(text: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = text[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise ValueError(f"byte {at} is no number")
