"""Names for the functions of a stripped executable, from the static library that it was linked of.

A section of code of the library's members is looked for in the executable byte by byte, but for the
fields that the linker fills in. What is found at exactly one place gives its symbols their places.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from tare.studies.breakdown.image import NOT_ELF, Function

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_SIZE_FIELD = slice(48, 58)
_MOST_BYTES = 1 << 28
_EXECUTABLE = 4
"""SHF_EXECINSTR."""
_LEAST_BYTES = 24
"""Of a section that is looked for: fewer can be there by chance."""
_RELAXED_BYTES, _FIELD_BYTES = 2, 4
"""The linker may write another instruction before a field, and fills in so many bytes or more."""


def find_functions(archive: Path, start: int, text: bytes) -> dict[str, Function]:
    """By name, where they lie in ``text``, which begins at ``start``. Empty where the archive
    cannot be read; a member that lies is passed over. A name that several members have for
    functions of their own is left out."""
    try:
        if archive.stat().st_size > _MOST_BYTES:
            return {}
        members = list(_members(archive.read_bytes()))
    except NOT_ELF:
        return {}
    found: dict[str, Function] = {}
    twice = set()
    for member in members:
        for name, function in _functions_of(member, start, text):
            if found.setdefault(name, function) != function:
                twice.add(name)
    return {name: function for name, function in found.items() if name not in twice}


def _members(content: bytes) -> Iterator[bytes]:
    if not content.startswith(_MAGIC):
        raise ValueError("it is not an archive")
    at = len(_MAGIC)
    while at + _HEADER_BYTES <= len(content):
        size = int(content[at:][_SIZE_FIELD])
        at += _HEADER_BYTES
        if size < 0:
            raise ValueError("a member of the archive has a negative size")
        yield content[at : at + size]
        at += size + size % 2


def _functions_of(member: bytes, start: int, text: bytes) -> list[tuple[str, Function]]:
    found = []
    try:
        elf = ELFFile(io.BytesIO(member))
        symbols = elf.get_section_by_name(".symtab")
        if not isinstance(symbols, SymbolTableSection):
            return []
        named = [symbol for symbol in symbols.iter_symbols() if _is_function(symbol)]
        for number, section in enumerate(elf.iter_sections()):
            if not section["sh_flags"] & _EXECUTABLE:
                continue
            mine = {s["st_value"]: s.name for s in named if s["st_shndx"] == number}
            place = _place_of(section.data(), _fields(elf, section), text) if mine else None
            if place is None:
                continue
            behind = [*sorted(mine)[1:], section["sh_size"]]
            for offset, end in zip(sorted(mine), behind, strict=True):
                found.append((mine[offset], Function(start + place + offset, end - offset)))
    except NOT_ELF:
        return []
    return found


def _is_function(symbol: Symbol) -> bool:
    """Those of assembly have no type; the compiler's own labels begin with a dot."""
    return (
        symbol["st_info"]["type"] in ("STT_FUNC", "STT_NOTYPE")
        and bool(symbol.name)
        and not symbol.name.startswith(".")
    )


def _fields(elf: ELFFile, section: Section) -> list[int]:
    """Where the linker fills something in."""
    for prefix in (".rela", ".rel"):
        relocations = elf.get_section_by_name(prefix + section.name)
        if isinstance(relocations, RelocationSection):
            return sorted(one["r_offset"] for one in relocations.iter_relocations())
    return []


def _place_of(wanted: bytes, fields: Sequence[int], text: bytes) -> int | None:
    """The one place in the text with these bytes."""
    pieces = _known_pieces(len(wanted), fields)
    if len(wanted) < _LEAST_BYTES or not pieces:
        return None
    first, behind = max(pieces, key=lambda piece: piece[1] - piece[0])
    places = []
    at = text.find(wanted[first:behind])
    while at >= 0:
        start = at - first
        if start >= 0 and all(text[start + a : start + b] == wanted[a:b] for a, b in pieces):
            places.append(start)
        at = text.find(wanted[first:behind], at + 1)
    return places[0] if len(places) == 1 else None


def _known_pieces(length: int, fields: Sequence[int]) -> list[tuple[int, int]]:
    pieces = []
    start = 0
    for field in fields:
        if field - _RELAXED_BYTES > start:
            pieces.append((start, field - _RELAXED_BYTES))
        start = max(start, field + _FIELD_BYTES)
    if start < length:
        pieces.append((start, length))
    return pieces
