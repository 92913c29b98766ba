"""What of its machine a run may use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tare.base.errors import UsageError

AS_IS = "as-is"
HUGE_PAGES = ("never", "madvise", "always", AS_IS)
_MOST_PLACES = 1024
_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


@dataclass(frozen=True)
class Conditions:
    """``cpus`` and ``memory_nodes`` are lists of processors and of memory nodes, as ``listed``
    writes them; ``hugepages``, one of ``HUGE_PAGES``, says who gets transparent huge pages: nobody,
    who asks for them, or all. "" is not asked for."""

    cpus: str = ""
    memory_nodes: str = ""
    hugepages: str = ""

    def asked(self) -> dict[str, str]:
        """What was asked for, by the names that it has in the name of a manager."""
        given = {each.name.replace("_", "-"): getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in given.items() if value}

    def over(self, others: Conditions) -> Conditions:
        """The same, and of ``others`` what these do not say."""
        return conditions_of({**others.asked(), **self.asked()})


WHOLE_MACHINE = Conditions()


@dataclass(frozen=True)
class Container:
    """What a run may use that has control groups of its own: bytes of memory, without swap, and
    processors, of which it still sees all. None is no limit."""

    memory_bytes: int | None = None
    processors: float | None = None


def conditions_of(options: Mapping[str, str]) -> Conditions:
    """The inverse of ``Conditions.asked``, of what was typed. Raises UsageError."""
    known = [each.name.replace("_", "-") for each in fields(Conditions)]
    if others := [name for name in options if name not in known]:
        raise UsageError(f"machine has no option '{others[0]}'", f"its options: {', '.join(known)}")
    hugepages = options.get("hugepages", "")
    if hugepages not in ("", *HUGE_PAGES):
        raise UsageError(f"hugepages is one of {', '.join(HUGE_PAGES)}, not '{hugepages}'")
    return Conditions(
        listed(options.get("cpus", ""), "processors"),
        listed(options.get("memory-nodes", ""), "memory nodes"),
        hugepages,
    )


def listed(text: str, what: str) -> str:
    """The list of places that ``text`` gives, in its shortest form; "" for none. Raises UsageError
    for what is no list of ``what``."""
    return shown(places(text, what)) if text else ""


def places(text: str, what: str = "places") -> set[int]:
    """The numbers in a list like 0,2-3."""
    found: set[int] = set()
    bare = "".join(text.split())
    if not _LIST.fullmatch(bare):
        raise UsageError(f"'{text}' is not a list of {what}", "write it like 0, 0-1 or 0,2-3")
    for part in bare.split(","):
        first, _, last = part.partition("-")
        if max(len(first), len(last)) > 6 or int(last or first) >= _MOST_PLACES:
            raise UsageError(f"'{text}': {what} go up to {_MOST_PLACES - 1}")
        if int(last or first) < int(first):
            raise UsageError(f"'{text}' is not a list of {what}", f"{part} ends before it begins")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def shown(numbers: set[int]) -> str:
    """As the kernel lists them."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
