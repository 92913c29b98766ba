"""Machine code as instructions that can be compared with patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tare.base.errors import MissingError

try:
    from iced_x86 import (
        Decoder,
        FlowControl,
        MemorySizeExt,
        Mnemonic,
        OpKind,
        Register,
        RegisterExt,
    )
    from iced_x86 import Instruction as Decoded
except ModuleNotFoundError:  # pyproject.toml wants it where this can be used
    raise MissingError(
        "a breakdown reads the code of amd64 and x86 alone, by iced-x86, which is not here",
        "pip install iced-x86, on a machine with such a processor",
    ) from None

if TYPE_CHECKING:
    from iced_x86._iced_x86_py import Register as RegisterNumber


class Memory(NamedTuple):
    """What an operand in memory is addressed by; names are empty where there is none. The
    ``displacement`` from ``rip`` is an address."""

    base: str
    index_register: str
    scale: int
    displacement: int


@dataclass(frozen=True)
class Target:
    """Where a direct branch or call leads."""

    address: int


Operand = str | int | Memory | Target | None
"""A register by the name of the whole of it, a number, a place in memory, or code; None: another
kind."""


class Instruction(NamedTuple):
    """``ends``: what follows is not reached from here; ``atomic``: it locks memory;
    ``width``: the bytes of its operand in memory."""

    address: int
    length: int
    mnemonic: str
    operands: tuple[Operand, ...]
    ends: bool
    atomic: bool = False
    width: int = 0

    @property
    def after(self) -> int:
        return self.address + self.length

    @property
    def target(self) -> int | None:
        """Of a direct jump, conditional or not, or of a call."""
        first = self.operands[0] if self.operands else None
        return first.address if isinstance(first, Target) else None


_NAMES: Mapping[int, str] = {
    value: name.lower() for name, value in vars(Mnemonic).items() if isinstance(value, int)
}
_REGISTERS: Mapping[int, str] = {
    value: name.lower() for name, value in vars(Register).items() if isinstance(value, int)
}
_IMMEDIATES = frozenset(
    value
    for name, value in vars(OpKind).items()
    if isinstance(value, int) and name.startswith("IMMEDIATE")
)
_BRANCHES = frozenset({OpKind.NEAR_BRANCH16, OpKind.NEAR_BRANCH32, OpKind.NEAR_BRANCH64})
_ENDS = frozenset(
    {FlowControl.UNCONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH, FlowControl.RETURN,
     FlowControl.EXCEPTION}
)  # fmt: skip
_READ_ONLY = frozenset(
    "cmp test push call jmp bt nop comisd comiss ucomisd ucomiss prefetchnta prefetcht0"
    " prefetchw".split()
)
"""Mnemonics that do not write their first operand."""
_IMPLICIT: Mapping[str, tuple[str, ...]] = {
    "cqo": ("rdx",),
    "cdq": ("rdx",),
    "cdqe": ("rax",),
    "idiv": ("rax", "rdx"),
    "div": ("rax", "rdx"),
    "mul": ("rax", "rdx"),
}
"""Registers that are written without being named."""
UNKNOWN = "invalid"
"""The mnemonic of bytes that are no instruction."""


def written(one: Instruction) -> tuple[str, ...]:
    """The registers that an instruction writes; a call's are not told."""
    implicit = _IMPLICIT.get(one.mnemonic, ())
    named = one.operands[: 2 if one.mnemonic in ("xchg", "xadd") else 1]
    if one.mnemonic in _READ_ONLY or one.target is not None:
        return implicit
    return (*implicit, *(operand for operand in named if isinstance(operand, str)))


def updates_object(one: Instruction) -> bool:
    """Whether it writes memory that is not on the stack, but for what a comparison gave."""
    first = one.operands[0] if one.operands else None
    if not isinstance(first, Memory) or one.mnemonic in _READ_ONLY:
        return False
    on_stack = first.base == "rsp" or (first.base == "rbp" and first.displacement < 0)
    return not on_stack and not one.mnemonic.startswith("set")


def signed(value: int, bits: int = 64) -> int:
    """The number that so many bits are in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _register(register: RegisterNumber) -> str:
    return "" if register == Register.NONE else _REGISTERS[RegisterExt.full_register(register)]


def _operand(decoded: Decoded, place: int, bits: int) -> Operand:
    kind = decoded.op_kind(place)
    if kind == OpKind.REGISTER:
        return _register(decoded.op_register(place))
    if kind == OpKind.MEMORY:
        return Memory(
            _register(decoded.memory_base),
            _register(decoded.memory_index),
            decoded.memory_index_scale,
            signed(decoded.memory_displacement, bits),
        )
    if kind in _IMMEDIATES:
        return signed(decoded.immediate(place))
    if kind in _BRANCHES:
        return Target(decoded.near_branch_target)
    return None


def _instruction(decoded: Decoded, bits: int) -> Instruction:
    return Instruction(
        decoded.ip,
        decoded.len,
        _NAMES[decoded.mnemonic],
        tuple(_operand(decoded, place, bits) for place in range(decoded.op_count)),
        decoded.flow_control in _ENDS,
        decoded.has_lock_prefix,
        MemorySizeExt.size(decoded.memory_size),
    )


def decode(address: int, content: bytes, bits: int = 64) -> Instruction:
    """The one instruction that ``content`` is, for amd64 or, with 32 bits, for x86."""
    decoded = next(iter(Decoder(bits, content, ip=address)), None)
    if decoded is None or decoded.len != len(content) or decoded.mnemonic == Mnemonic.INVALID:
        return Instruction(address, len(content), UNKNOWN, (), False)
    return _instruction(decoded, bits)


def decode_all(address: int, content: bytes) -> Iterator[Instruction]:
    """What code in a row, without data in it, is made of."""
    for decoded in Decoder(64, content, ip=address):
        yield _instruction(decoded, 64)


def runs(instructions: Iterable[Instruction]) -> Iterator[list[Instruction]]:
    """The instructions, in pieces in which each begins where the one before ends. Where code has
    lain over other code, each has pieces of its own."""
    left = sorted(instructions, key=lambda one: one.address)
    while left:
        overlapping: list[Instruction] = []
        run: list[Instruction] = []
        for one in left:
            if run and one.address < run[-1].after:
                overlapping.append(one)
                continue
            if run and one.address > run[-1].after:
                yield run
                run = []
            run.append(one)
        if run:
            yield run
        left = overlapping
