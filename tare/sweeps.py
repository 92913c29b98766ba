"""What the studies that vary an option of a layer share: the names of what they measure, and the
sizes that they try.

A sweep puts a layer with several values of an option over each allocator, and holds each of these
*variants* against another one of the same allocator, its reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tare import layers
from tare.errors import UsageError
from tare.units import parse_size

MOST_VALUES = 32
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@dataclass(frozen=True)
class Variant:
    """``allocator`` under a layer with ``options``; without a layer, ``layer`` is empty."""

    allocator: str
    layer: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """As a manager's name."""
        if not self.layer:
            return self.allocator
        settings = [f"{option}={value}" for option, value in self.options]
        return f"{self.layer}({', '.join([self.allocator, *settings])})"

    def option(self, name: str) -> str:
        """The value of an option, or "" where it is not given."""
        return dict(self.options).get(name, "")

    def changed(self, **options: str) -> Variant:
        """The same with other values of some options."""
        return Variant(self.allocator, self.layer, tuple({**dict(self.options), **options}.items()))


def variant(manager: str) -> Variant:
    """What the name of a manager says."""
    name = layers.split_name(manager)
    if name is None:
        return Variant(manager)
    return Variant(name.inner, name.layer, tuple(name.options.items()))


def layered(allocator: str, layer: str, options: Mapping[str, str]) -> Variant:
    """``allocator`` under ``layer``."""
    return Variant(allocator, layer, tuple(options.items()))


def by_allocator(managers: Sequence[str]) -> dict[str, list[Variant]]:
    """The variants of each allocator, in their order."""
    found: dict[str, list[Variant]] = {}
    for manager in managers:
        each = variant(manager)
        found.setdefault(each.allocator, []).append(each)
    return found


def sizes_of(text: str) -> tuple[int, ...]:
    """The sizes of a list like ``1,4KiB,1MiB``, ascending, each once."""
    sizes = {parse_size(part) for part in text.split(",") if part.strip()}
    if not sizes:
        raise UsageError(f"'{text}' names no size", "write sizes like 4KiB,1MiB")
    return ascending(sizes)


def ascending(sizes: set[int]) -> tuple[int, ...]:
    """``sizes`` in order. UsageError for one that is not at least a byte, and for too many."""
    if min(sizes) < 1:
        raise UsageError("a size of 0 bytes", "give at least 1B")
    if len(sizes) > MOST_VALUES:
        raise UsageError(f"{len(sizes)} sizes", f"give at most {MOST_VALUES}")
    return tuple(sorted(sizes))


def size_text(size: int) -> str:
    """A size without rounding, as managers' names have it: ``64KiB``."""
    for unit, factor in _UNITS:
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"
