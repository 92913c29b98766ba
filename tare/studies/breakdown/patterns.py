"""Patterns of instructions, as the descriptors of runtimes write them.

A pattern is a list of lines, one an instruction, in Intel's order of operands:

    MNEMONIC|MNEMONIC OPERAND, OPERAND -> COMPONENT

Behind the mnemonics can stand how many bytes its memory has: ``add.8``.
An operand is a register by its 64-bit name or several (``rdi|rsi``), ``%a`` for any register, the
same wherever it is named again, a number, ``odd``, ``number`` for any, or ``2%4`` for any that
leaves 2 when divided by 4, memory such as ``[r14]``, ``[%a + %b*_ + 1]`` or ``[]`` for any, code by
its symbols (``@caml_modify|@caml_initialize``), or ``_`` for anything.
In memory ``_`` is any scale or displacement. Behind the arrow stands the component that the
instruction is charged to, if any; ``other`` for the program's own, whatever else fits it. With
``?`` behind it the instruction is charged only in the upper bound, because code that has nothing to
do with storage can look the same; with ``~`` likewise, because the work is folded into an
instruction that the program needs anyway.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tare.records.components import COMPONENTS, Certainty
from tare.studies.breakdown.code import Instruction, Memory, Operand, Target, written

Names = Mapping[int, Sequence[str]]
"""The symbols at an address."""
Bindings = dict[str, str]
"""What ``%`` names stand for."""
Matcher = Callable[[Operand, Bindings, Names], bool]

_LINE = re.compile(r"(?P<code>[^>]*?)(?:\s*->\s*(?P<component>[a-z_]+)(?P<certainty>[?~]?))?\s*")
_REGISTER = re.compile(r"r[a-z0-9]{1,3}|xmm\d{1,2}")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
_REMAINDER = re.compile(r"(\d+)%([1-9]\d*)")
_NAME = re.compile(r"%[a-z]+")
_WIDTH = re.compile(r"\.(\d+)$")
_ANY = "_"
_GAP = "..."
_CERTAINTIES = {"": Certainty.SURE, "?": Certainty.AMBIGUOUS, "~": Certainty.FOLDED}


@dataclass(frozen=True)
class Mark:
    """What an instruction is charged to; ``writes_counts``: if it writes memory, a count of
    references."""

    component: str
    certainty: Certainty = Certainty.SURE
    writes_counts: bool = True


@dataclass(frozen=True)
class Line:
    """One instruction of a pattern; ``names`` are the ``%`` names in it."""

    mnemonics: frozenset[str]
    operands: tuple[Matcher, ...]
    mark: Mark | None
    names: frozenset[str] = frozenset()
    width: int = 0

    @property
    def is_gap(self) -> bool:
        """Whether it stands for all instructions up to where they end."""
        return _GAP in self.mnemonics

    def matches(self, one: Instruction, bindings: Bindings, names: Names) -> bool:
        """Adds to ``bindings``, also where it does not match in the end."""
        return (
            one.mnemonic in self.mnemonics
            and self.width in (0, one.width)
            and len(one.operands) == len(self.operands)
            and all(
                matcher(operand, bindings, names)
                for matcher, operand in zip(self.operands, one.operands, strict=True)
            )
        )


def read_line(text: str) -> Line:
    """ValueError where the line cannot be understood."""
    match = _LINE.fullmatch(text)
    if match is None or not match["code"]:
        raise ValueError(f"{text!r} is not a pattern of an instruction")
    mark = None
    if match["component"] is not None:
        if match["component"] not in COMPONENTS:
            raise ValueError(f"{text!r}: there is no component {match['component']}")
        mark = Mark(match["component"], _CERTAINTIES[match["certainty"]])
    mnemonics, _, rest = match["code"].strip().partition(" ")
    width = _WIDTH.search(mnemonics)
    operands = [word.strip() for word in rest.split(",")] if rest.strip() else []
    return Line(
        frozenset(_WIDTH.sub("", mnemonics).split("|")),
        tuple(read_operand(word) for word in operands),
        mark,
        frozenset(_NAME.findall(rest)),
        int(width[1]) if width else 0,
    )


def read_operand(word: str) -> Matcher:
    """ValueError where the operand cannot be understood."""
    if word == _ANY:
        return lambda _operand, _bindings, _names: True
    if word.startswith("@"):
        symbols = frozenset(part.removeprefix("@") for part in word.split("|"))
        return lambda operand, _bindings, names: not symbols.isdisjoint(_named(operand, names))
    if word.startswith("["):
        return _read_memory(word)
    if word == "number":
        return lambda operand, _bindings, _names: isinstance(operand, int)
    if word == "odd":
        return lambda operand, _bindings, _names: isinstance(operand, int) and operand % 2 == 1
    if match := _REMAINDER.fullmatch(word):
        remainder, divisor = int(match[1]), int(match[2])
        return lambda operand, _bindings, _names: (
            isinstance(operand, int) and operand % divisor == remainder
        )
    if _NUMBER.fullmatch(word):
        wanted = int(word, 0)
        return lambda operand, _bindings, _names: operand == wanted
    return _read_register(word)


def _named(operand: Operand, names: Names) -> Sequence[str]:
    """The symbols of code that an operand leads to, or is the address of."""
    address = operand.address if isinstance(operand, Target) else operand
    return names.get(address, ()) if isinstance(address, int) else ()


def _read_register(word: str) -> Matcher:
    if word.startswith("%"):
        return lambda operand, bindings, _names: (
            isinstance(operand, str) and (bindings.setdefault(word, operand) == operand)
        )
    registers = frozenset(word.split("|"))
    if not all(_REGISTER.fullmatch(register) for register in registers):
        raise ValueError(f"{word!r} is not an operand")
    return lambda operand, _bindings, _names: operand in registers


def _read_memory(word: str) -> Matcher:
    if not word.endswith("]"):
        raise ValueError(f"{word!r} has no closing ]")
    if word == "[]":
        return lambda operand, _bindings, _names: isinstance(operand, Memory)
    base = index = scale = ""
    displacement = "0"
    for term in word[1:-1].replace("- ", "+ -").split("+"):
        term = term.strip()
        if "*" in term:
            index, scale = (part.strip() for part in term.split("*"))
        elif term in (_ANY, "odd") or _NUMBER.fullmatch(term):
            displacement = term
        elif not base:
            base = term
        else:
            raise ValueError(f"{word!r}: a second base; write an index with its scale, as %a*1")
    match_base = _read_part(base)
    match_index = _read_part(index)

    def matches(operand: Operand, bindings: Bindings, names: Names) -> bool:
        return (
            isinstance(operand, Memory)
            and match_base(operand.base, bindings, names)
            and match_index(operand.index_register, bindings, names)
            and (not index or scale == _ANY or operand.scale == int(scale))
            and _is_displaced(operand.displacement, displacement)
        )

    return matches


def _read_part(word: str) -> Matcher:
    """A base or an index, which may be none."""
    if word:
        return _read_register(word)
    return lambda operand, _bindings, _names: operand == ""


def _is_displaced(displacement: int, wanted: str) -> bool:
    if wanted == "odd":
        return displacement % 2 == 1
    return wanted == _ANY or displacement == int(wanted, 0)


@dataclass(frozen=True)
class Pattern:
    """Instructions in a row, and what they are charged to.

    ``before``: of the instructions right before, padding left out, those that match one of these
    lines, at most
    ``most_before``.
    ``unless_next_use``: not where the next instruction that has the register ``%a`` as an operand
    of its own matches this. ``slow_path``: the lines of the code that its last instruction, a jump,
    goes to when something is to be done; they are charged to the same component, and so is a jump
    to there; but the jumps ``with_room`` are taken when there is nothing to do. ``allocated``: only
    behind an allocation which nothing has checked yet, or only not there. ``gap``: between two
    lines so many instructions can lie that have nothing to do with the registers that ``%`` names
    in later lines stand for.
    """

    lines: tuple[Line, ...]
    before: tuple[Line, ...] = ()
    most_before: int = 0
    unless_next_use: Line | None = None
    slow_path: tuple[Line, ...] = ()
    with_room: frozenset[str] = frozenset()
    allocated: bool | None = None
    gap: int = 0

    def match(
        self, run: Sequence[Instruction], place: int, names: Names, allocated: bool
    ) -> list[tuple[int, Mark]] | None:
        """Places in the run with their marks, if the pattern begins at ``place``."""
        if self.allocated is not None and self.allocated is not allocated:
            return None
        bindings: Bindings = {}
        if not self.lines[0].matches(run[place], bindings, names):
            return None
        rest = self._find(1, run, place + 1, bindings, names)
        if rest is None:
            return None
        places = [place, *rest]
        end = places[-1] + 1
        if self.unless_next_use is not None and self._is_used_so(run, end, bindings, names):
            return None
        marks = [
            (at, line.mark)
            for at, line in zip(places, self.lines, strict=True)
            if line.mark is not None
        ]
        return self._marks_before(run, place, names) + marks

    def _find(
        self, number: int, run: Sequence[Instruction], start: int, bindings: Bindings, names: Names
    ) -> list[int] | None:
        """Where in the run the lines from ``number`` on fit, from ``start`` on, as near as they do;
        adds to ``bindings``."""
        if number == len(self.lines):
            return []
        for at in range(start, min(start + 1 + self.gap, len(run))):
            tried = dict(bindings)
            if self.lines[number].matches(run[at], tried, names):
                rest = self._find(number + 1, run, at + 1, tried, names)
                if rest is not None:
                    bindings.update(tried)
                    return [at, *rest]
            if run[at].mnemonic == "call" or run[at].ends:
                return None
            needed = {bindings[name] for name in self._needed[number] if name in bindings}
            if any(mentions(run[at], register) for register in needed):
                return None
            if needed.intersection(written(run[at])):
                return None
        return None

    @functools.cached_property
    def _needed(self) -> list[frozenset[str]]:
        """By line, the ``%`` names in it and in those behind it."""
        return [
            frozenset().union(*(line.names for line in self.lines[number:]))
            for number in range(len(self.lines))
        ]

    def _marks_before(
        self, run: Sequence[Instruction], place: int, names: Names
    ) -> list[tuple[int, Mark]]:
        found: list[tuple[int, Mark]] = []
        for earlier in range(place - 1, -1, -1):
            if run[earlier].mnemonic == _PADDING:
                continue
            if len(found) == self.most_before:
                break
            line = next((x for x in self.before if x.matches(run[earlier], {}, names)), None)
            if line is None or line.mark is None:
                break
            found.append((earlier, line.mark))
        return found

    def _is_used_so(
        self, run: Sequence[Instruction], place: int, bindings: Bindings, names: Names
    ) -> bool:
        assert self.unless_next_use is not None
        register = bindings["%a"]
        for one in run[place : place + _NEXT_USE_WITHIN]:
            if mentions(one, register):
                return self.unless_next_use.matches(one, dict(bindings), names)
        return False


_NEXT_USE_WITHIN = 4
_PADDING = "nop"


def mentions(one: Instruction, register: str) -> bool:
    """Whether the register is an operand, or an address is made of it."""
    return any(
        operand == register
        or (isinstance(operand, Memory) and register in (operand.base, operand.index_register))
        for operand in one.operands
    )
