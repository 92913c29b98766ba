"""Follows the objects that code allocates by moving a register: where their headers are written.

From the instruction that takes memory on, it is known of some registers and stack slots how far
behind the allocation pointer they point. What is stored there and is a constant can be a header.
Headers must tile what was taken: the first lies at its start, and each says where the next one is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tare.breakdown.code import Instruction, Memory, Operand
from tare.breakdown.descriptor import Allocation
from tare.breakdown.patterns import Mark, Names

_STACK = "rsp"
_WORD_MASK = (1 << 64) - 1
_READ_ONLY = frozenset(
    "cmp test push call jmp comisd ucomisd bt nop prefetchnta prefetcht0".split()
)
"""Mnemonics that do not write their first operand."""
_IMPLICIT = {
    "cqo": ("rdx",),
    "cdq": ("rdx",),
    "cdqe": ("rax",),
    "idiv": ("rax", "rdx"),
    "div": ("rax", "rdx"),
    "mul": ("rax", "rdx"),
}
"""Registers that are written without being named."""


@dataclass(frozen=True)
class Site:
    """One place that allocates. ``words``: the sizes of its objects by their headers, in the order
    of their addresses; None where the headers do not tile ``bytes``. ``slow_path``: where it goes
    when there is no room; ``returns_to``: where a function returns to that checks. None where it
    does not check in that way."""

    address: int
    bytes: int
    words: tuple[int, ...] | None
    slow_path: int | None
    returns_to: int | None


@dataclass(frozen=True)
class _Store:
    """A constant stored in what was taken, and the instructions that did it."""

    value: int
    places: tuple[int, ...]


@dataclass
class Chunk:
    """What one instruction took."""

    address: int
    bytes: int
    pointers: dict[str, int] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    stores: dict[int, _Store] = field(default_factory=dict)
    slow_path: int | None = None
    returns_to: int | None = None
    resumes: int | None = None
    checked: bool = False


class Allocations:
    """Goes over a run of instructions, one at a time. Gathers ``marks`` and ``sites``."""

    def __init__(self, how: Allocation, names: Names) -> None:
        self.how = how
        self._names = names
        self.chunk: Chunk | None = None
        self.marks: list[tuple[int, Mark]] = []
        self.sites: list[Site] = []
        self._constants: dict[str, tuple[int, int]] = {}

    @property
    def is_unchecked(self) -> bool:
        """Whether something was allocated that nothing has checked yet."""
        return self.chunk is not None and not self.chunk.checked

    def note_check(self, slow_path: int, resumes: int) -> None:
        """The check of the chunk goes to ``slow_path``, and comes back to ``resumes``."""
        if self.chunk is not None:
            self.chunk.checked = True
            self.chunk.slow_path, self.chunk.resumes = slow_path, resumes

    def arrive(self, address: int, is_joined: bool) -> None:
        """``is_joined``: other code may jump to the instruction at ``address``."""
        if is_joined and (self.chunk is None or address != self.chunk.resumes):
            self.end()

    def follow(self, place: int, one: Instruction) -> None:
        """One instruction, the ``place``-th of the run."""
        if (called := self._calls(one)) is not None:
            self._call(one, called)
            return
        if self._takes(one):
            self._begin(place, one)
        elif not (self.chunk is not None and self._points(place, one, self.chunk)):
            self._moves(place, one)
        if one.mnemonic == "call" or one.ends:
            self.end()

    def end(self) -> None:
        """What is behind does not belong to the chunk."""
        if self.chunk is not None:
            self._finish(self.chunk)
        self.chunk = None
        self._constants = {}

    # ---- steps ----

    def _takes(self, one: Instruction) -> bool:
        return (
            one.mnemonic == "sub"
            and one.operands[0] == self.how.register
            and isinstance(one.operands[1], int)
        )

    def _begin(self, place: int, one: Instruction) -> None:
        taken = one.operands[1]
        assert isinstance(taken, int)
        self._take(one.address, taken)
        self.marks.append((place, Mark(self.how.component)))

    def _take(self, address: int, taken: int) -> None:
        constants = self._constants
        self.end()
        self._constants = constants
        self.chunk = Chunk(address, taken)

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
            self._take(one.address, taken)
        if self.chunk is not None:
            self.chunk.checked = True
            self.chunk.returns_to = one.after

    def _points(self, place: int, one: Instruction, chunk: Chunk) -> bool:
        """Whether the instruction makes a pointer to an object."""
        if len(one.operands) != 2 or not isinstance(one.operands[0], str):
            return False
        register, source = one.operands[0], one.operands[1]
        if one.mnemonic == "lea":
            offset = self._offset(source, chunk)
        elif one.mnemonic == "add" and register in chunk.pointers and isinstance(source, int):
            offset = chunk.pointers[register] + source
        else:
            return False
        if offset is None or not 0 < offset <= chunk.bytes or offset % self.how.word:
            return False
        self._forget(register)
        chunk.pointers[register] = offset
        self.marks.append((place, Mark(self.how.component)))
        return True

    def _offset(self, operand: Operand, chunk: Chunk) -> int | None:
        if not isinstance(operand, Memory) or operand.index_register:
            return None
        if operand.base == self.how.register:
            return operand.displacement
        start = chunk.pointers.get(operand.base)
        return None if start is None else start + operand.displacement

    def _moves(self, place: int, one: Instruction) -> None:
        chunk = self.chunk
        first = one.operands[0] if one.operands else None
        if one.mnemonic == "mov" and isinstance(first, Memory):
            self._store(place, first, one.operands[1])
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
                self._constants[first] = (source & _WORD_MASK, place)
            if pointer is not None and chunk is not None:
                chunk.pointers[first] = pointer
            return
        if isinstance(first, str) and one.mnemonic not in _READ_ONLY:
            self._forget(first)
        if one.mnemonic == "xchg" and isinstance(one.operands[1], str):
            self._forget(one.operands[1])
        for register in _IMPLICIT.get(one.mnemonic, ()):
            self._forget(register)

    def _store(self, place: int, target: Memory, value: Operand) -> None:
        chunk = self.chunk
        if chunk is None:
            return
        if target.base == _STACK and not target.index_register:
            chunk.slots.pop(target.displacement, None)
            if isinstance(value, str) and value in chunk.pointers:
                chunk.slots[target.displacement] = chunk.pointers[value]
            return
        offset = self._offset(target, chunk)
        if offset is None or not 0 <= offset < chunk.bytes:
            return
        if isinstance(value, int):
            chunk.stores.setdefault(offset, _Store(value & _WORD_MASK, (place,)))
        elif isinstance(value, str) and value in self._constants:
            constant, set_at = self._constants[value]
            chunk.stores.setdefault(offset, _Store(constant, (set_at, place)))

    def _forget(self, register: str) -> None:
        self._constants.pop(register, None)
        if self.chunk is not None:
            self.chunk.pointers.pop(register, None)

    # ---- headers ----

    def _finish(self, chunk: Chunk) -> None:
        header = self.how.header
        words: list[int] = []
        found: list[tuple[int, Mark]] = []
        at = 0
        while at < chunk.bytes:
            store = chunk.stores.get(at)
            if store is None or store.value & header.zero:
                break
            size = store.value >> header.size_shift
            behind = at + self.how.word * (size + 1)
            if size == 0 or behind > chunk.bytes:
                break
            words.append(size)
            found += [(place, Mark(header.component)) for place in store.places]
            found += self._constants_of(chunk, store.value & 0xFF, at + self.how.word, behind)
            at = behind
        tiles = at == chunk.bytes
        if tiles:
            self.marks += found
        self.sites.append(
            Site(
                chunk.address,
                chunk.bytes,
                tuple(words) if tiles else None,
                chunk.slow_path,
                chunk.returns_to,
            )
        )

    def _constants_of(
        self, chunk: Chunk, tag: int, start: int, behind: int
    ) -> list[tuple[int, Mark]]:
        found = []
        for offset in range(start, behind, self.how.word):
            store = chunk.stores.get(offset)
            for kind in self.how.constants if store is not None else ():
                assert store is not None
                fits = store.value & kind.mask == kind.equals and store.value >= kind.least
                if kind.tag == tag and fits:
                    found += [(place, Mark(kind.component)) for place in store.places]
                    break
        return found
