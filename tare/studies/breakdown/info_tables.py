"""What GHC says of objects: checks of the classifier, by the compiler.

An object's header is the address of the code that enters it, and right before that code lies a
table for the collector. And where there is no room for objects, code says how much was asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tare.studies.breakdown.code import Memory, decode_all

_TABLE = struct.Struct("<IIII")
"""How many pointers, how many other words, the kind, and where static references are."""
_PLAIN = frozenset((*range(1, 14), 38, 39, 40, 41, 47, 48))
"""Kinds by rts/storage/ClosureTypes.h of GHC 9.0 and 9.6: data, functions, and what can change."""
_THUNKS = frozenset(range(15, 21))
_SELECTOR = 22
_BYTES = 42
_SMALL_ARRAYS = frozenset(range(59, 63))
_MOST_WORDS = 1 << 20
_WORD = 8


def words_of(bytes_at: Callable[[int, int], bytes], header: int, second: int | None) -> int | None:
    """The words of an object behind its header. ``second`` is the word behind that, if it is known:
    in an array its length. None where the header is not that of an object made in line."""
    table = bytes_at(header - _TABLE.size, _TABLE.size)
    if len(table) < _TABLE.size:
        return None
    fields: tuple[int, int, int, int] = _TABLE.unpack(table)
    pointers, others, kind, _ = fields
    if max(pointers, others) > _MOST_WORDS:
        return None
    if kind in _PLAIN:
        return pointers + others
    if kind in _THUNKS:
        return 1 + pointers + others  # a word is left free for the value
    if kind == _SELECTOR:
        return 2
    if second is None or second > _MOST_WORDS:
        return None
    if kind == _BYTES:
        return 1 + (second + _WORD - 1) // _WORD
    return 1 + second if kind in _SMALL_ARRAYS else None


ASKED_FOR = Memory("r13", "", 1, 0x388)
"""In the capability: what a check that failed asked for."""
_MOST_SLOW_PATH_BYTES = 64


def asked_for(bytes_at: Callable[[int, int], bytes], slow_path: int) -> int | None:
    """The bytes that a slow path says it needs."""
    for one in decode_all(slow_path, bytes_at(slow_path, _MOST_SLOW_PATH_BYTES)):
        if one.mnemonic == "mov" and one.operands[0] == ASKED_FOR:
            amount = one.operands[1]
            return amount if isinstance(amount, int) else None
        if one.ends:
            return None
    return None
