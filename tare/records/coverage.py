"""How much of a program's memory its manager served: what the record of a run holds of that."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tare.base.units import format_bytes, format_percent
from tare.records.runs import Number

DETAIL = "coverage"
OWN_ALLOCATORS = "own_allocators"
"""The keys in the details of a record."""
NOTABLE = 0.9
"""Below this share a reader is told."""
OTHERS = "*"


class Mapped(Struct, frozen=True):
    """What code of a file mapped for itself. ``allocator`` is empty where none is known in it."""

    file: str
    bytes: Number
    allocator: str = ""
    advice: str = ""

    @property
    def source(self) -> str:
        """In words."""
        if not self.file:
            return "code that the program makes as it runs"
        if self.file == OTHERS:
            return "more files"
        name = Path(self.file).name
        return f"{self.allocator} in {name}" if self.allocator else name


class Coverage(Struct, frozen=True):
    """Bytes of all processes of a run: ``peak_bytes`` of private memory without a file, less static
    data and the stack; and what ``files`` that are not the manager's mapped of it, the largest
    first."""

    peak_bytes: Number
    static_bytes: Number
    stack_bytes: Number
    files: tuple[Mapped, ...] = ()

    @property
    def share(self) -> float:
        """Of the peak, what the manager served, as far as is known."""
        if not self.peak_bytes:
            return 1.0
        return max(0, self.peak_bytes - sum(each.bytes for each in self.files)) / self.peak_bytes

    def told(self, manager: str) -> str:
        """In words, where files had some of it."""
        largest = self.files[0]
        return (
            f"{manager} served {format_percent(self.share)} of the program's "
            f"{format_bytes(self.peak_bytes)}; {largest.source} mapped "
            f"{format_bytes(largest.bytes)} for itself"
        )


class OwnAllocator(Struct, frozen=True):
    """One that a program brings along."""

    file: str
    """The executable or library that it is in."""
    prefix: str
    """What the names of its functions begin with."""
    functions: Number
    """How many of them the program calls."""
    is_redirected: bool
    """Whether their calls were led to the manager."""
    allocator: str = ""
    """Its name, where it is known."""
    advice: str = ""
    """What to do about it."""

    @property
    def called(self) -> str:
        """In words."""
        functions = f" ({self.prefix}…)" if self.prefix else ""
        return f"{self.allocator or 'allocator'} in {Path(self.file).name}{functions}"

    @property
    def told(self) -> str:
        """What a reader must know of figures under managers."""
        return f"The program's own {self.called} was redirected, so that the manager serves it"


class Covered(Struct, frozen=True):
    """Of the details of a run: what was served, None where it was not looked, and what the program
    brings along."""

    coverage: Coverage | None = None
    own_allocators: tuple[OwnAllocator, ...] = ()
