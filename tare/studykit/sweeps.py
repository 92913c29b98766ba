"""What the studies that vary an option of a layer share: the names of what they measure, and the
sizes that they try.

A sweep puts a layer with several values of an option over each allocator, and holds each of these
*variants* against another one of the same allocator, its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tare.base.errors import UsageError
from tare.base.units import parse_size
from tare.memory_managers import layers
from tare.memory_managers import manager as managers_module
from tare.memory_managers.manager import Manager

MOST_VALUES = 32
LEAST_HEAP, MOST_HEAP, MOST_HEAPS = 1.0, 64.0, 12
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

NOT_BUILT = (
    "the instrument is not built; it needs Debian's package valgrind and a new build of Tare"
)


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


Groups = Mapping[str, Sequence[Variant]]
"""The variants of each allocator."""


def sizes_of(text: str) -> tuple[int, ...]:
    """The sizes of a list like ``1,4KiB,1MiB``, ascending, each once."""
    sizes = {parse_size(part) for part in text.split(",") if part.strip()}
    if not sizes:
        raise UsageError(f"'{text}' names no size", "write sizes like 4KiB,1MiB")
    return ascending(sizes)


def ascending(sizes: set[int]) -> tuple[int, ...]:
    """``sizes`` in order. UsageError for one that is not at least a byte, and for too many."""
    if min(sizes) < 1:
        raise UsageError("a size cannot be 0 bytes", "give at least 1B")
    if len(sizes) > MOST_VALUES:
        raise UsageError(f"{len(sizes)} sizes", f"give at most {MOST_VALUES}")
    return tuple(sorted(sizes))


def numbers_of(text: str) -> tuple[float, ...]:
    """The numbers of a list like ``1.5,2,3``."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(f"'{text}' is not a list of numbers", "write it like 1.5,2,3") from None


def checked_heaps(heaps: Sequence[float], of: str) -> tuple[float, ...]:
    """``heaps``, multiples of what ``of`` says, ascending, each once. UsageError for none, for too
    many, and for one that is too small or too large."""
    found = tuple(sorted(set(heaps)))
    if not found or len(found) > MOST_HEAPS or not all(LEAST_HEAP <= h <= MOST_HEAP for h in found):
        raise UsageError(
            "these heaps cannot be tried",
            f"give 1 to {MOST_HEAPS} multiples of {of}, from {LEAST_HEAP:g} to {MOST_HEAP:g}",
        )
    return found


def size_text(size: int) -> str:
    """A size without rounding, as managers' names have it: ``64KiB``."""
    for unit, factor in _UNITS:
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def swept(
    names: Sequence[str], variants: Callable[[Sequence[str]], Sequence[Variant]]
) -> tuple[dict[str, Manager], str]:
    """Resolve the variants of allocators, those named or the defaults; and the baseline: glibc if
    it takes part, else the first."""
    allocators = [
        managers_module.resolve(name) for name in names or managers_module.default_managers()
    ]
    for allocator in allocators:
        if allocator.layer_name:
            raise UsageError(f"{allocator.name} already has a layer", "give the allocator under it")
    bare = list(dict.fromkeys(allocator.name for allocator in allocators))
    resolved = {m.name: m for m in (managers_module.resolve(v.name) for v in variants(bare))}
    return resolved, "glibc" if "glibc" in bare else bare[0]
