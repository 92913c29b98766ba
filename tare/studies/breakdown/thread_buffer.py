"""Follows the objects that code allocates from a thread's buffer, whose pointer lies in memory.

    mov  rax, [pointer]     the object begins where the buffer's free part does
    lea  r10, [rax + 32]
    cmp  r10, [limit]       enough room?
    ja   slow
    mov  [pointer], r10     taken
    mov  [rax], 1           the header words
    mov  [rax + 8], class
    mov  [rax + 16], 0      cleared

The instructions that look at the limit are left to the patterns of the descriptor. What jumps to
where the memory is taken can lie behind it, so that all code is looked through for such jumps
before it is charged: ``known_takings``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tare.studies.breakdown.allocation import Key, Site, State
from tare.studies.breakdown.code import Instruction, Memory, Operand, runs, written
from tare.studies.breakdown.descriptor import Buffer
from tare.studies.breakdown.patterns import Mark, Matcher, read_operand

_BELOW_LIMIT = frozenset({"jb", "jbe"})
"""Jumps that are taken where there is room, when the limit comes second."""
_COMPUTES = frozenset({"mov", "sub", "add", "shr"})
"""Mnemonics by which the words of a header are computed."""
_STORES = frozenset({"mov", "movd", "movq", "vmovd", "vmovq", "movdqu", "vmovdqu", "movups"})
_CLEARS = frozenset({"xor", "pxor", "vpxor", "xorps", "vxorps"})
_ELEMENT_BYTES = (1, 2, 4, 8)
_ALIGNMENT = 8


@dataclass
class Taking:
    """Memory that is being taken. ``offsets``: by register, how far it points behind the start of
    the object; None where that is not a constant. ``bytes``: None where they are not constant."""

    address: int
    offsets: dict[str, int | None] = field(default_factory=dict)
    bytes: int | None = None
    is_measured: bool = False
    is_taken: bool = False
    headers: set[int] = field(default_factory=set)

    @property
    def is_about_to(self) -> bool:
        """Whether the limit has been looked at, and nothing been taken."""
        return self.is_measured and not self.is_taken

    def copy(self) -> Taking:
        return replace(self, offsets=dict(self.offsets), headers=set())


def known_takings(how: Buffer, known: Iterable[Instruction]) -> dict[int, Taking]:
    """By the address that a comparison with the limit jumps to where there is room, what is known
    there."""
    found: dict[int, Taking] = {}
    follower = BufferAllocations(how, {}, {})
    for run in runs(known):
        for one in run:
            follower.arrive(one.address)
            taking = follower.taking
            target = one.target if one.mnemonic in _BELOW_LIMIT else None
            if target is not None and taking is not None and taking.is_about_to:
                found[target] = taking.copy()
            follower.follow(one)
    return found


class BufferAllocations:
    """Goes over instructions by their addresses, one at a time. Gathers ``marks`` and ``sites``.

    ``ways_in``: how many known jumps lead to an address; ``takings``: what is known where they do.
    """

    is_unchecked = False
    """Patterns that stand behind an allocation are not for buffers: the limit says what is one."""
    carried: Mapping[int, Sequence[State]] = MappingProxyType({})
    """Nothing has to be gone over again: ``takings`` are known before."""

    def __init__(
        self, how: Buffer, ways_in: Mapping[int, int], takings: Mapping[int, Taking]
    ) -> None:
        self.how = how
        self.taking: Taking | None = None
        self.marks: dict[Key, Mark] = {}
        self.sites: list[Site] = []
        self._ways_in = ways_in
        self._takings = takings
        self._is_pointer = read_operand(how.pointer)
        self._is_limit = read_operand(how.limit)
        self._computed: dict[str, tuple[Key, ...]] = {}
        self._cleared: dict[str, Key] = {}
        self._last: Instruction | None = None

    def note_check(self, slow_path: int, resumes: int) -> None:
        """What a pattern with a slow path found; here the limit has been seen."""

    def arrive(self, address: int) -> None:
        """Control comes to the instruction at ``address``: from that before it, or by jumps."""
        last = self._last
        if last is None or last.after != address or self._ways_in.get(address):
            self.end()
        if self.taking is None and address in self._takings:
            self.taking = self._takings[address].copy()

    def follow(self, one: Instruction) -> None:
        """One instruction; ``arrive`` comes before."""
        self._last = one
        operands = one.operands
        if one.mnemonic == "mov" and _fits(self._is_pointer, operands[1]):
            self._begin(one)
        elif one.mnemonic == "mov" and _fits(self._is_pointer, operands[0]):
            self._take(one)
        elif one.mnemonic == "cmp" and _fits(self._is_limit, operands[1]):
            self._measure(one)
        elif not self._points(one) and not self._stores(one):
            self._computes(one)
        if one.mnemonic == "call" or one.ends:
            self.end()

    def end(self) -> None:
        """What is behind does not belong to what was taken."""
        taking = self.taking
        if taking is not None and taking.is_taken:
            has_header = {0, self.how.header.class_at} <= taking.headers
            words = () if has_header else None
            self.sites.append(Site(taking.address, taking.bytes or 0, words, None, None))
        self.taking = None
        self._computed = {}
        self._cleared = {}

    # ---- steps ----

    def _charge(self, component: str, one: Instruction, *others: Key) -> None:
        for key in (_key(one), *others):
            self.marks[key] = Mark(component)

    def _begin(self, one: Instruction) -> None:
        register = one.operands[0]
        computed, cleared = self._computed, self._cleared
        self.end()
        self._computed, self._cleared = computed, cleared
        if isinstance(register, str):
            self._forget(register)
            self.taking = Taking(one.address, {register: 0})
            self._charge(self.how.component, one)

    def _measure(self, one: Instruction) -> None:
        end = one.operands[0]
        if self.taking is not None and isinstance(end, str) and end in self.taking.offsets:
            self.taking.bytes = self.taking.offsets[end]
            self.taking.is_measured = True

    def _take(self, one: Instruction) -> None:
        if self.taking is None or self.taking.is_taken:
            self.end()
            self.taking = Taking(one.address)
        self.taking.is_taken = True
        self._charge(self.how.component, one)

    def _points(self, one: Instruction) -> bool:
        """Whether it computes the end of what is taken, or asks for its memory in advance."""
        taking = self.taking
        if one.mnemonic.startswith("prefetch"):
            self._charge(self.how.component, one)
            return True
        if taking is None or len(one.operands) != 2 or not isinstance(one.operands[0], str):
            return False
        register, source = one.operands[0], one.operands[1]
        if one.mnemonic == "mov":
            points, offset = source in taking.offsets, _offset_of(source, taking)
        elif one.mnemonic == "lea" and isinstance(source, Memory):
            points, offset = _address_of(source, taking)
        elif one.mnemonic == "add" and register in taking.offsets:
            points, offset = True, _sum(taking.offsets[register], source)
        else:
            return False
        if points:
            self._forget(register)
            taking.offsets[register] = offset
            if not taking.is_taken:
                self._charge(self.how.component, one)
        return points

    def _stores(self, one: Instruction) -> bool:
        """Whether it stores in what was taken, something that is not the program's."""
        taking = self.taking
        if taking is None or not taking.is_taken or one.mnemonic not in _STORES:
            return False
        target, value = one.operands
        if not isinstance(target, Memory) or target.index_register:
            return False
        if target.base not in taking.offsets and not self._is_first(target, value, taking):
            return False
        start = taking.offsets[target.base]
        if start is None:
            return False
        at = start + target.displacement
        if at in taking.headers:
            return False
        if at in (0, self.how.header.class_at):
            taking.headers.add(at)
            self._charge(self.how.header.component, one, *self._keys_of(value))
        elif at == self.how.header.length_at and self._is_array(taking, value):
            taking.headers.add(at)
            self._charge(self.how.header.component, one)
        elif self._is_zero(value):
            cleared = self._cleared.get(value) if isinstance(value, str) else None
            self._charge(self.how.zeroing, one, *(() if cleared is None else (cleared,)))
        return True

    def _is_first(self, target: Memory, value: Operand, taking: Taking) -> bool:
        """Whether it must be the first store to an object whose address was not followed."""
        if 0 in taking.offsets.values() or target.displacement or value != self.how.header.first:
            return False
        taking.offsets[target.base] = 0
        return True

    def _is_array(self, taking: Taking, value: Operand) -> bool:
        if taking.bytes is None:
            return taking.is_measured
        if not isinstance(value, int) or value < 0:
            return False
        return any(
            -(-(self.how.header.elements_at + value * size) // _ALIGNMENT) * _ALIGNMENT
            == taking.bytes
            for size in _ELEMENT_BYTES
        )

    def _is_zero(self, value: Operand) -> bool:
        return value == 0 or value in self.how.zero or value in self._cleared

    def _keys_of(self, value: Operand) -> tuple[Key, ...]:
        return self._computed.get(value, ()) if isinstance(value, str) else ()

    def _computes(self, one: Instruction) -> None:
        """Remembers how constants, and differences of them, came to be."""
        keys: tuple[Key, ...] = ()
        register = one.operands[0] if one.operands else None
        if one.mnemonic in _COMPUTES and isinstance(register, str):
            keys = self._computation(one, register, one.operands[-1])
        is_clear = one.mnemonic in _CLEARS and len(set(one.operands)) == 1
        for changed in written(one):
            self._forget(changed)
        if keys and isinstance(register, str):
            self._computed[register] = keys
        if is_clear and isinstance(register, str):
            self._cleared[register] = _key(one)

    def _computation(self, one: Instruction, register: str, source: Operand) -> tuple[Key, ...]:
        """The instructions that gave the register what it has behind ``one``, if constants did."""
        before = () if one.mnemonic == "mov" else self._computed.get(register, ())
        from_source = self._keys_of(source)
        if (one.mnemonic != "mov" and not before) or not (isinstance(source, int) or from_source):
            return ()
        return (*before, *from_source, _key(one))

    def _forget(self, register: str) -> None:
        self._computed.pop(register, None)
        self._cleared.pop(register, None)
        if self.taking is not None:
            self.taking.offsets.pop(register, None)


def _key(one: Instruction) -> Key:
    return one.address, one.length


def _fits(matcher: Matcher, operand: Operand) -> bool:
    return matcher(operand, {}, {})


def _offset_of(operand: Operand, taking: Taking) -> int | None:
    return taking.offsets.get(operand) if isinstance(operand, str) else None


def _address_of(place: Memory, taking: Taking) -> tuple[bool, int | None]:
    """Whether an address points into what is taken, and how far behind its start."""
    if place.index_register:
        return place.base in taking.offsets or place.index_register in taking.offsets, None
    return place.base in taking.offsets, _sum(_offset_of(place.base, taking), place.displacement)


def _sum(offset: int | None, more: Operand) -> int | None:
    return offset + more if offset is not None and isinstance(more, int) else None
