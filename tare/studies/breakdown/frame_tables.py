"""What OCaml's frame tables say of allocations: a check of the classifier, by the compiler.

The tables are there for the collector. For each return address they say which words are roots, and,
where the call was made for want of room, how long the objects are that are about to be allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tare.studies.breakdown.allocation import Site
from tare.studies.breakdown.image import Image

_SUFFIXES = ("__frametable", ".frametable", "$frametable")
_SPECIAL = 0xFFFF
"""The size of a frame that is none, of a function that C calls."""
_HAS_DEBUG, _HAS_ALLOCATIONS = 1, 2
_MOST_FRAMES = 1 << 22
_CALL = 0xE8


def read_frame_tables(image: Image) -> dict[int, tuple[int, ...]]:
    """By return address, the words of the objects of an allocation, headers left out; empty for
    other frames. A table that cannot be followed ends early."""
    frames: dict[int, tuple[int, ...]] = {}
    for symbol, address in image.symbols.items():
        if symbol.startswith("caml") and symbol.endswith(_SUFFIXES):
            _read_table(image, address, frames)
    return frames


def _read_table(image: Image, address: int, frames: dict[int, tuple[int, ...]]) -> None:
    count = image.word_at(address)
    if count is None or count > _MOST_FRAMES:
        return
    at = address + 8
    for _ in range(count):
        returns_to = image.word_at(at)
        head = image.bytes_at(at + 8, 4)
        if returns_to is None or len(head) < 4:
            return
        size, live = struct.unpack("<HH", head)
        at += 12 + 2 * live
        lengths: tuple[int, ...] = ()
        if size != _SPECIAL:
            if size & _HAS_ALLOCATIONS:
                number = int.from_bytes(image.bytes_at(at, 1), "little")
                # A length is stored as the words of the object, without its header, less 1.
                lengths = tuple(1 + length for length in image.bytes_at(at + 1, number))
                at += 1 + number
            if size & _HAS_DEBUG:
                at = (at + 3) // 4 * 4 + 4 * max(len(lengths), 1)
        frames[returns_to] = lengths
        at = (at + 7) // 8 * 8


def agrees(image: Image, frames: dict[int, tuple[int, ...]], site: Site) -> bool | None:
    """Whether a place that allocates is what the tables say it is: the bytes taken, and the objects
    by their headers. None where it does not check for room itself."""
    if site.returns_to is not None:
        lengths = frames.get(site.returns_to)
    elif site.slow_path is not None:
        lengths = frames.get(_returns_to(image, site.slow_path))
    else:
        return None
    if not lengths or site.words is None:
        return False
    taken = sum(8 * (words + 1) for words in lengths)
    return taken == site.bytes and _same(lengths, site.words)


def _same(lengths: Sequence[int], words: Sequence[int]) -> bool:
    return tuple(lengths) == tuple(words)


def _returns_to(image: Image, slow_path: int) -> int:
    """The return address of the call that the slow path is; -1 where it is none."""
    code = image.bytes_at(slow_path, 5)
    return slow_path + 5 if len(code) == 5 and code[0] == _CALL else -1
