"""The descriptors of runtimes: one TOML file each, in ``runtimes/``."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.breakdown.components import COMPONENTS, OTHER
from tare.breakdown.image import Image
from tare.breakdown.patterns import Line, Pattern, read_line
from tare.errors import TareError
from tare.events import Event, Events

FOLDER = Path(__file__).resolve().parent / "runtimes"
_SCHEMA = 1


@dataclass(frozen=True)
class Phase:
    """Functions of the runtime, from their entry to their return, with all that they call.

    Where several phases nest, the first in the file counts. ``inside`` names a phase, without which
    this one does not count. With the component ``other`` what they do is judged as outside of
    phases.
    """

    name: str
    component: str
    functions: tuple[str, ...]
    inside: str = ""


@dataclass(frozen=True)
class Ranges:
    """The code that the language's compiler made: between each symbol that ends in one of
    ``begin`` and the symbol of the same start that ends in the ``end`` of the same place, but for
    the symbols in ``without``."""

    without: tuple[str, ...]
    prefix: str
    begin: tuple[str, ...]
    end: tuple[str, ...]


@dataclass(frozen=True)
class Header:
    """A word before an object. ``size_shift``: where its number of words begins; ``zero``: the bits
    that are 0 in the header of a new object."""

    size_shift: int
    zero: int
    component: str


@dataclass(frozen=True)
class Constant:
    """A word in a new object that is the runtime's: in one whose header has ``tag`` in the lowest
    byte, a constant that has ``bits`` and is at least ``least``."""

    tag: int
    mask: int
    equals: int
    least: int
    component: str


@dataclass(frozen=True)
class Allocation:
    """Objects are made by subtracting from a register, whose value then is the address of the first
    header; several at once fill what was taken, one behind the other. ``calls``: functions that do
    so and check, by the bytes they take; 0 where they only check what was taken before."""

    register: str
    component: str
    word: int
    header: Header
    constants: tuple[Constant, ...]
    calls: Mapping[str, int]


@dataclass(frozen=True)
class Descriptor:
    """One runtime. ``recognise``: symbols that an executable with it has, all of them. ``slow``: by
    operation, the component of what its calls take beyond the quickest."""

    name: str
    title: str
    recognise: tuple[str, ...]
    without: tuple[str, ...]
    ranges: Ranges | None
    allocation: Allocation | None
    patterns: tuple[Pattern, ...]
    phases: tuple[Phase, ...]
    operations: Mapping[str, str]
    slow: Mapping[str, str]
    oracle: str

    def recognises(self, image: Image) -> bool:
        return all(symbol in image.symbols for symbol in self.recognise) and not any(
            symbol in image.symbols for symbol in self.without
        )

    def events(self) -> Events:
        """What the instrument is to follow."""
        return tuple(
            Event("during", phase.name, "", function, 0)
            for phase in self.phases
            for function in phase.functions
        )

    def component_of_phases(self, names: Iterable[str]) -> str | None:
        """Of a thread that is in these phases."""
        there = set(names)
        for phase in self.phases:
            if phase.name in there and (not phase.inside or phase.inside in there):
                return None if phase.component == OTHER else phase.component
        return None

    def code_ranges(self, image: Image) -> list[tuple[int, int]]:
        """The language's code in an executable, in order."""
        if self.ranges is None:
            return []
        found = []
        for begin, end in zip(self.ranges.begin, self.ranges.end, strict=True):
            for symbol, address in image.symbols.items():
                if symbol in self.ranges.without:
                    continue
                if symbol.startswith(self.ranges.prefix) and symbol.endswith(begin):
                    behind = image.symbols.get(symbol.removesuffix(begin) + end)
                    if behind is not None and behind > address:
                        found.append((address, behind))
        return sorted(found)


# ---- reading ----


@functools.cache
def shipped() -> Mapping[str, Descriptor]:
    """The descriptors that come with Tare, by name."""
    return {
        descriptor.name: descriptor
        for descriptor in (read_descriptor(path) for path in sorted(FOLDER.glob("*.toml")))
    }


def read_descriptor(path: Path) -> Descriptor:
    """TareError where the file is no descriptor."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _descriptor(table)
    except OSError as error:
        raise TareError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TareError(f"{path} is no descriptor of a runtime: {error}") from None


def _descriptor(table: Mapping[str, Any]) -> Descriptor:
    _only(table, "schema name title recognise without code allocation pattern phase operations"
          " slow oracle")  # fmt: skip
    if table["schema"] != _SCHEMA:
        raise ValueError(f"schema {table['schema']!r}; this is Tare for {_SCHEMA}")
    if not re.fullmatch(r"[a-z][a-z0-9.-]*", table["name"]):
        raise ValueError(f"the name {table['name']!r}")
    operations = dict(table.get("operations", {}))
    slow = dict(table.get("slow", {}))
    if unknown := set(slow) - set(operations):
        raise ValueError(f"slow: {min(unknown)!r} is not among the operations")
    phases = tuple(_phase(one) for one in table.get("phase", ()))
    if slow and phases:
        raise ValueError("slow: calls inside of phases are not told from those outside")
    names = [phase.name for phase in phases]
    for phase in phases:
        if phase.inside and phase.inside not in names:
            raise ValueError(f"the phase {phase.name} is inside {phase.inside}, which is none")
    return Descriptor(
        name=table["name"],
        title=table["title"],
        recognise=_texts(table["recognise"]),
        without=_texts(table.get("without", [])),
        ranges=_ranges(table["code"]) if "code" in table else None,
        allocation=_allocation(table["allocation"]) if "allocation" in table else None,
        patterns=tuple(_pattern(one) for one in table.get("pattern", ())),
        phases=phases,
        operations={name: _component(value) for name, value in operations.items()},
        slow={name: _component(value) for name, value in slow.items()},
        oracle=table.get("oracle", ""),
    )


def _only(table: Mapping[str, Any], words: str) -> None:
    if unknown := set(table) - set(words.split()):
        raise ValueError(f"{min(unknown)!r} means nothing here")


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{value!r} is no list of texts")
    return tuple(value)


def _component(name: str) -> str:
    if name not in COMPONENTS:
        raise ValueError(f"there is no component {name!r}")
    return name


def _phase(table: Mapping[str, Any]) -> Phase:
    _only(table, "name component functions inside")
    return Phase(
        table["name"],
        _component(table["component"]),
        _texts(table["functions"]),
        table.get("inside", ""),
    )


def _ranges(table: Mapping[str, Any]) -> Ranges:
    _only(table, "without prefix begin end")
    ranges = Ranges(
        _texts(table.get("without", [])),
        table["prefix"],
        _texts(table["begin"]),
        _texts(table["end"]),
    )
    if len(ranges.begin) != len(ranges.end):
        raise ValueError("code: begin and end are of different length")
    return ranges


def _allocation(table: Mapping[str, Any]) -> Allocation:
    _only(table, "register component word header constant calls")
    header = table["header"]
    _only(header, "size_shift zero component")
    return Allocation(
        register=table["register"],
        component=_component(table["component"]),
        word=int(table["word"]),
        header=Header(int(header["size_shift"]), int(header["zero"]),
                      _component(header["component"])),
        constants=tuple(_constant(one) for one in table.get("constant", ())),
        calls={name: int(taken) for name, taken in table.get("calls", {}).items()},
    )  # fmt: skip


def _constant(table: Mapping[str, Any]) -> Constant:
    _only(table, "tag mask equals least component")
    return Constant(
        int(table["tag"]),
        int(table["mask"]),
        int(table["equals"]),
        int(table.get("least", 0)),
        _component(table["component"]),
    )


def _pattern(table: Mapping[str, Any]) -> Pattern:
    _only(table, "code before most_before unless_next_use slow_path allocated")
    lines = tuple(read_line(text) for text in _texts(table["code"]))
    if not lines or not any(line.mark for line in lines):
        raise ValueError("a pattern charges no instruction to a component")
    slow_path = tuple(read_line(text) for text in _texts(table.get("slow_path", [])))
    if slow_path and lines[-1].mark is None:
        raise ValueError("slow_path: the jump to it is charged to no component")
    before: Line | None = read_line(table["before"]) if "before" in table else None
    next_use = table.get("unless_next_use")
    if next_use is not None and not any("%a" in text for text in table["code"]):
        raise ValueError("unless_next_use is about %a, which the pattern does not name")
    return Pattern(
        lines,
        before,
        int(table.get("most_before", 0)),
        read_line(next_use) if next_use is not None else None,
        slow_path,
        table.get("allocated"),
    )
