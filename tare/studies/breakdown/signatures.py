"""Names for functions of a runtime in a stripped executable, by what their code looks like.

A signature is the start of a function as the runtime's library has it, without the bytes that the
linker sets. A file of them has a line for each: a name, the size, and the bytes in hexadecimal,
``..`` where any may stand; or instead of the bytes where it lies in another, as ``Heap.o+0x10``.
``#`` begins a comment. ``scripts/make_signatures.py`` writes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tare.studies.breakdown.image import Function

_LINE = re.compile(
    r"(?P<name>\S+) (?P<size>\d+) "
    r"(?:(?P<bytes>(?:[0-9a-f]{2}|\.\.)+)|(?P<within>\S+)\+0x(?P<offset>[0-9a-f]+))"
)
_LEAST_KNOWN = 8
"""Bytes in a row: shorter ones are found everywhere."""


@dataclass(frozen=True)
class Signature:
    """``code``: the bytes, None for those that may be anything; or ``within`` says which other
    function it is in, and ``offset`` where."""

    name: str
    size: int
    code: tuple[int | None, ...]
    within: str = ""
    offset: int = 0

    @functools.cached_property
    def known(self) -> tuple[int, bytes]:
        """The longest row of known bytes, and where it begins."""
        best, start = (0, 0), 0
        for place, byte in enumerate((*self.code, None)):
            if byte is None:
                best = max(best, (place - start, -start))
                start = place + 1
        length, start = best[0], -best[1]
        return start, bytes(byte or 0 for byte in self.code[start : start + length])

    def places(self, text: bytes) -> list[int]:
        """Where it occurs."""
        offset, known = self.known
        found = []
        at = text.find(known)
        while at >= 0:
            if at >= offset and self._is_at(text, at - offset):
                found.append(at - offset)
            at = text.find(known, at + 1)
        return found

    def _is_at(self, text: bytes, start: int) -> bool:
        there = text[start : start + len(self.code)]
        return len(there) == len(self.code) and all(
            wanted is None or wanted == byte for wanted, byte in zip(self.code, there, strict=True)
        )


def read_signatures(path: Path) -> tuple[Signature, ...]:
    """ValueError where a line makes no sense."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{line[:40]!r} is not a signature")
        if match["within"] is not None:
            within, offset = match["within"], int(match["offset"], 16)
            found.append(Signature(match["name"], int(match["size"]), (), within, offset))
            continue
        digits = match["bytes"]
        pairs = [digits[place : place + 2] for place in range(0, len(digits), 2)]
        code = tuple(None if pair == ".." else int(pair, 16) for pair in pairs)
        one = Signature(match["name"], int(match["size"]), code)
        if len(one.known[1]) < _LEAST_KNOWN:
            raise ValueError(f"{one.name}: fewer than {_LEAST_KNOWN} known bytes in a row")
        found.append(one)
    return tuple(found)


def find_functions(
    signatures: Iterable[Signature], start: int, text: bytes
) -> Mapping[str, Function]:
    """Functions by name, in code that begins at ``start``. What occurs twice is none of them."""
    found: dict[str, Function] = {}
    parts = []
    for signature in signatures:
        if signature.within:
            parts.append(signature)
        elif len(places := signature.places(text)) == 1:
            found.setdefault(signature.name, Function(start + places[0], signature.size))
    for part in parts:
        if part.within in found:
            address = found[part.within].address + part.offset
            found.setdefault(part.name, Function(address, part.size))
    return found
