"""Follows the objects that code allocates by moving a register: where their headers are written.

It is known of some registers and stack slots how far from the allocation pointer they point. What
is stored there and is a constant can be a header. Headers must tile what was taken: the first lies
at its start, and each says where the next one is. A register that goes up may be moved before its
objects are initialised, or behind; it is followed over conditional jumps, and may give back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tare.studies.breakdown import info_tables
from tare.studies.breakdown.code import Instruction, Memory, Operand, written
from tare.studies.breakdown.descriptor import Allocation
from tare.studies.breakdown.patterns import Mark, Names

_STACK = "rsp"
_WORD_MASK = (1 << 64) - 1
_CALLER_SAVED = "rax rcx rdx rsi rdi r8 r9 r10 r11".split()

Key = tuple[int, int]
"""An instruction, by its address and length."""
HeaderWords = Callable[[int, int | None], int | None]
"""The words of an object behind its header, given this and a constant stored in the word behind it;
None where it is no header."""


@dataclass(frozen=True)
class Site:
    """One place that allocates. ``words``: the sizes of its objects by their headers, in the order
    of their addresses; None where the headers do not tile ``bytes``, but for what is given back.
    ``slow_path``: where it goes when there is no room; ``returns_to``: where a function returns to
    that checks. None where it does not check in that way."""

    address: int
    bytes: int
    words: tuple[int, ...] | None
    slow_path: int | None
    returns_to: int | None


@dataclass(frozen=True)
class _Store:
    """A constant stored in what was taken, and the instructions that did it."""

    value: int
    keys: tuple[Key, ...]


@dataclass
class Chunk:
    """What one instruction took, or is about to take where the register goes up. Offsets are from
    its start; ``register``: that of where the allocation pointer points; ``end``: behind what was
    taken. ``pointing``: instructions that made a pointer to an offset."""

    address: int | None = None
    bytes: int = 0
    register: int = 0
    end: int = 0
    pointers: dict[str, int] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    stores: dict[int, _Store] = field(default_factory=dict)
    pointing: list[tuple[int, Key]] = field(default_factory=list)
    slow_path: int | None = None
    returns_to: int | None = None
    resumes: int | None = None
    checked: bool = False

    def copy(self) -> Chunk:
        return replace(
            self,
            pointers=dict(self.pointers),
            slots=dict(self.slots),
            stores=dict(self.stores),
            pointing=list(self.pointing),
        )

    def behind(self) -> Chunk:
        """What comes behind the end, of which nothing was taken yet."""
        end = self.end
        return Chunk(
            register=self.register - end,
            pointers={name: offset - end for name, offset in self.pointers.items()},
            slots={place: offset - end for place, offset in self.slots.items()},
            stores={offset - end: one for offset, one in self.stores.items() if offset >= end},
            pointing=[(offset - end, key) for offset, key in self.pointing if offset >= end],
        )


_Constants = dict[str, tuple[int, Key]]
State = tuple[Chunk, _Constants]


def _keep_common(mine: dict[Any, Any], others: Mapping[Any, Any]) -> None:
    for name in [name for name, value in mine.items() if others.get(name) != value]:
        del mine[name]


class Allocations:
    """Goes over instructions by their addresses, one at a time. Gathers ``marks`` and ``sites``.

    ``ways_in``: how many known jumps lead to an address. ``carried_before``: what was ``carried``
    to addresses in an earlier pass, which jumps backwards have to be known from.
    """

    def __init__(
        self,
        how: Allocation,
        names: Names,
        ways_in: Mapping[int, int],
        header_words: HeaderWords,
        carried_before: Mapping[int, Sequence[State]],
    ) -> None:
        self.how = how
        self._names = names
        self._ways_in = ways_in
        self._header_words = header_words
        self.chunk: Chunk | None = self._nothing()
        self.marks: dict[Key, Mark] = {}
        self._sites: dict[int, Site] = {}
        self._constants: _Constants = {}
        self.carried: dict[int, list[State]] = {}
        self._carried_before = carried_before
        self._last: Instruction | None = None

    @property
    def sites(self) -> list[Site]:
        return list(self._sites.values())

    @property
    def is_unchecked(self) -> bool:
        """Whether something was allocated that nothing has checked yet."""
        chunk = self.chunk
        return chunk is not None and chunk.address is not None and not chunk.checked

    def note_check(self, slow_path: int, resumes: int) -> None:
        """The check of the chunk goes to ``slow_path``, and comes back to ``resumes``."""
        if self.chunk is not None:
            self.chunk.checked = True
            self.chunk.slow_path, self.chunk.resumes = slow_path, resumes

    def arrive(self, address: int) -> None:
        """Control comes to the instruction at ``address``: from that before it, or by jumps."""
        last = self._last
        falls_through = last is not None and last.after == address and not last.ends
        if not falls_through:
            self._break_off()
        ways_in = self._ways_in.get(address, 0)
        if ways_in == 0 or (self.chunk is not None and address == self.chunk.resumes):
            return
        carried = self.carried.get(address) or self._carried_before.get(address, [])
        if len(carried) < ways_in:
            self.end()
            return
        if falls_through and self.chunk is not None:
            carried = [*carried, (self.chunk, self._constants)]
        self._join(carried)

    def follow(self, one: Instruction) -> None:
        """One instruction; ``arrive`` comes before."""
        self._last = one
        if (called := self._calls(one)) is not None:
            self._call(one, called)
            return
        if (taken := self._taken(one)) is not None:
            self._take(one, taken)
        elif not (self.chunk is not None and self._points(one, self.chunk)):
            self._moves(one)
        if one.mnemonic == "call":
            self._come_back()
        elif one.ends:
            self.end()
        elif one.target is not None:
            self._carry(one.target)

    def _break_off(self) -> None:
        """What comes next was not executed, and is not known. Nothing can be said of the place."""
        if self.chunk is not None and self.how.goes_up:
            self._mark_pointers(self.chunk)
            self.chunk = self._nothing()
        self.end()

    def end(self) -> None:
        """What is behind does not belong to the chunk."""
        if self.chunk is not None:
            self._finish(self.chunk)
        self.chunk = self._nothing()
        self._constants = {}

    # ---- steps ----

    def _nothing(self) -> Chunk | None:
        """Before anything is taken; objects may be initialised first where the register goes up."""
        return Chunk() if self.how.goes_up else None

    def _taken(self, one: Instruction) -> int | None:
        """The bytes that an instruction takes; less than 0 where it gives back."""
        if one.mnemonic not in ("add", "sub") or one.operands[0] != self.how.register:
            return None
        amount = one.operands[1]
        if not isinstance(amount, int):
            return None
        up = amount if one.mnemonic == "add" else -amount
        if self.how.goes_up:
            return up
        return -up if up < 0 else None

    def _take(self, one: Instruction, taken: int) -> None:
        self.marks[one.address, one.length] = Mark(self.how.component)
        if not self.how.goes_up:
            self._take_down(one.address, taken)
        elif self.chunk is not None:
            self._take_up(self.chunk, one.address, taken)

    def _take_down(self, address: int, taken: int) -> None:
        if self.chunk is not None:
            self._finish(self.chunk)
        self.chunk = Chunk(address, taken, end=taken)

    def _take_up(self, chunk: Chunk, address: int, taken: int) -> None:
        if taken > 0 and chunk.address is not None:
            self._finish(chunk)
            self.chunk = chunk = chunk.behind()
        if taken > 0:
            chunk.address, chunk.bytes = address, taken
        chunk.register += taken
        chunk.end += taken
        if chunk.end < 0:
            self.chunk = self._nothing()  # it gives back what was taken before all that is known

    def _calls(self, one: Instruction) -> int | None:
        """The bytes that a function takes which is called here, and which checks."""
        if one.mnemonic != "call" or one.target is None:
            return None
        for name in self._names.get(one.target, ()):
            if name in self.how.calls:
                return self.how.calls[name]
        return None

    def _call(self, one: Instruction, taken: int) -> None:
        if taken != 0:
            self._take_down(one.address, taken)
        if self.chunk is not None:
            self.chunk.checked = True
            self.chunk.returns_to = one.after

    def _come_back(self) -> None:
        """From a call of which nothing is known. A register that goes down can have been moved."""
        if self.chunk is None or not self.how.goes_up:
            self.end()
            return
        for register in _CALLER_SAVED:
            self._forget(register)

    def _carry(self, target: int) -> None:
        """The state goes on at the target of a conditional jump."""
        if self.how.goes_up and self.chunk is not None and target != self.chunk.slow_path:
            states = self.carried.setdefault(target, [])
            states.append((self.chunk.copy(), dict(self._constants)))

    def _join(self, states: Sequence[State]) -> None:
        """All ways in are known: what is so on each of them goes on, if they are of one taking."""
        (first, first_constants), *others = states
        chunk, constants = first.copy(), dict(first_constants)
        if any(
            (other.address, other.register) != (chunk.address, chunk.register)
            for other, _ in others
        ):
            self.end()
            return
        for other, other_constants in others:
            for mine, its in (
                (chunk.pointers, other.pointers),
                (chunk.slots, other.slots),
                (chunk.stores, other.stores),
                (constants, other_constants),
            ):
                _keep_common(mine, its)
            chunk.pointing += other.pointing
        self.chunk, self._constants = chunk, constants

    def _points(self, one: Instruction, chunk: Chunk) -> bool:
        """Whether the instruction makes a pointer to an object."""
        if len(one.operands) != 2 or not isinstance(one.operands[0], str):
            return False
        register, source = one.operands[0], one.operands[1]
        if one.mnemonic == "lea":
            offset = self._offset(source, chunk)
        elif one.mnemonic == "add" and register in chunk.pointers and isinstance(source, int):
            offset = chunk.pointers[register] + source
        elif one.mnemonic == "mov" and self.how.goes_up and source == self.how.register:
            offset = chunk.register
        else:
            return False
        if offset is None or not self._can_be_pointed_to(offset, chunk):
            return False
        self._forget(register)
        chunk.pointers[register] = offset
        chunk.pointing.append((offset, (one.address, one.length)))
        return True

    def _can_be_pointed_to(self, offset: int, chunk: Chunk) -> bool:
        if offset % self.how.word & ~self.how.pointer_tags:
            return False
        return offset >= 0 if self.how.goes_up else 0 < offset <= chunk.end

    def _offset(self, operand: Operand, chunk: Chunk) -> int | None:
        if not isinstance(operand, Memory) or operand.index_register:
            return None
        if operand.base == self.how.register:
            return chunk.register - self.how.first + operand.displacement
        start = chunk.pointers.get(operand.base)
        return None if start is None else start + operand.displacement

    def _moves(self, one: Instruction) -> None:
        chunk = self.chunk
        first = one.operands[0] if one.operands else None
        key = one.address, one.length
        if one.mnemonic == "mov" and isinstance(first, Memory):
            self._store(key, first, one.operands[1])
            return
        if one.mnemonic == "mov" and isinstance(first, str):
            source = one.operands[1]
            pointer = None
            if chunk is not None and isinstance(source, str):
                pointer = chunk.pointers.get(source)
            elif chunk is not None and isinstance(source, Memory) and source.base == _STACK:
                pointer = chunk.slots.get(source.displacement)
            self._forget(first)
            if isinstance(source, int):
                self._constants[first] = (source & _WORD_MASK, key)
            if pointer is not None and chunk is not None:
                chunk.pointers[first] = pointer
            return
        for register in written(one):
            self._forget(register)

    def _store(self, key: Key, target: Memory, value: Operand) -> None:
        chunk = self.chunk
        if chunk is None:
            return
        if target.base == _STACK and not target.index_register:
            chunk.slots.pop(target.displacement, None)
            if isinstance(value, str) and value in chunk.pointers:
                chunk.slots[target.displacement] = chunk.pointers[value]
            return
        offset = self._offset(target, chunk)
        if offset is None or offset < 0 or (offset >= chunk.end and not self.how.goes_up):
            return
        if isinstance(value, int):
            chunk.stores.setdefault(offset, _Store(value & _WORD_MASK, (key,)))
        elif isinstance(value, str) and value in self._constants:
            constant, set_by = self._constants[value]
            chunk.stores.setdefault(offset, _Store(constant, (set_by, key)))

    def _forget(self, register: str) -> None:
        self._constants.pop(register, None)
        if self.chunk is not None:
            self.chunk.pointers.pop(register, None)

    # ---- headers ----

    def _finish(self, chunk: Chunk) -> None:
        if chunk.address is None:
            return
        self._mark_pointers(chunk)
        words = self._tile(chunk)
        known = self._sites.get(chunk.address)
        # Several ways can lead on from one place: it is tiled where all are.
        if known is None or known.words is not None:
            self._sites[chunk.address] = Site(
                chunk.address, chunk.bytes, words, chunk.slow_path, chunk.returns_to
            )

    def _mark_pointers(self, chunk: Chunk) -> None:
        for offset, key in chunk.pointing:
            if offset < chunk.end:
                self.marks[key] = Mark(self.how.component)

    def _tile(self, chunk: Chunk) -> tuple[int, ...] | None:
        """The words of the objects, whose headers are marked; None where they do not tile it."""
        word = self.how.word
        words: list[int] = []
        found: list[tuple[Key, Mark]] = []
        at = 0
        while at < chunk.end:
            store = chunk.stores.get(at)
            if store is None:
                return None
            second = chunk.stores.get(at + word)
            size = self._header_words(store.value, second.value if second is not None else None)
            if size is None or size <= 0 or at + word * (size + 1) > chunk.end:
                return None
            words.append(size)
            found += [(key, Mark(self.how.header.component)) for key in store.keys]
            behind = at + word * (size + 1)
            found += self._constants_of(chunk, store.value & 0xFF, at + word, behind)
            at = behind
        self.marks.update(found)
        return tuple(words)

    def _constants_of(
        self, chunk: Chunk, tag: int, start: int, behind: int
    ) -> list[tuple[Key, Mark]]:
        found = []
        for offset in range(start, behind, self.how.word):
            store = chunk.stores.get(offset)
            for kind in self.how.constants if store is not None else ():
                assert store is not None
                fits = store.value & kind.mask == kind.equals and store.value >= kind.least
                if kind.tag == tag and fits:
                    found += [(key, Mark(kind.component)) for key in store.keys]
                    break
        return found


def agrees(bytes_at: Callable[[int, int], bytes], site: Site) -> bool | None:
    """Whether a place takes what its slow path says. None where it does not check for room, or asks
    for what is only known as it runs."""
    asked = None if site.slow_path is None else info_tables.asked_for(bytes_at, site.slow_path)
    return None if asked is None else asked == site.bytes
