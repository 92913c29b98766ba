"""Which allocator of its own a file holds that maps memory for itself."""

from __future__ import annotations

import functools
import mmap
import tomllib
from pathlib import Path

from msgspec import Struct

from tare.base.documents import converted

_TABLE = Path(__file__).with_name("private_allocators.toml")


class PrivateAllocator(Struct, frozen=True):
    """``marks`` are parts of the files that hold it; ``advice`` says what to do instead, or is
    empty."""

    name: str
    marks: tuple[str, ...]
    advice: str


def private_allocator(file: Path) -> PrivateAllocator | None:
    """The one whose marks are in the file; None where none is known, or the file cannot be read."""
    if not file.is_file():
        return None
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as text:
            for each in _known():
                if any(text.find(mark.encode()) >= 0 for mark in each.marks):
                    return each
    except (OSError, ValueError):  # of an empty file, too
        return None
    return None


@functools.cache
def _known() -> tuple[PrivateAllocator, ...]:
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return converted(table["allocator"], tuple[PrivateAllocator, ...])
