"""An executable file as the classifier needs it: its symbols, and the bytes at an address."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from tare.base.errors import TareError

_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_32 = struct.Struct("<IIIBBH")
_RELOCATION = struct.Struct("<QQq")
_RELATIVE, _ABSOLUTE, _GLOBAL = 8, 1, 6
"""Types of relocations of amd64: R_X86_64_RELATIVE, R_X86_64_64, R_X86_64_GLOB_DAT."""
_TEXT_TYPES = (0, 1, 2)
"""Symbols of no type, of objects and of functions."""
_MOST_BYTES = 1 << 30
NOT_ELF = (
    ELFError,
    DWARFError,
    AssertionError,
    OSError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    struct.error,
)
"""What pyelftools raises for headers that lie."""


@dataclass(frozen=True)
class Function:
    """Where a function lies, and how many bytes it has."""

    address: int
    size: int


class Image:
    """An ELF file for amd64, or with ``bits`` of 32 for x86. Addresses are those in the file.
    ``text`` is where the section of that name begins, and what it has; ``found``: functions that no
    table of symbols names."""

    def __init__(self, path: Path) -> None:
        """TareError where it is none, or cannot be read."""
        self.path = path
        self.symbols: dict[str, int] = {}
        self.bits = 64
        self.sizes: dict[str, int] = {}
        self.found: dict[str, Function] = {}
        self.text: tuple[int, bytes] = 0, b""
        self._segments: list[tuple[int, bytes]] = []
        try:
            self._read()
        except NOT_ELF as error:
            raise TareError(f"{path} cannot be read as an ELF file: {error}") from None

    def _read(self) -> None:
        if self.path.stat().st_size > _MOST_BYTES:
            raise ValueError("it is too large")
        with self.path.open("rb") as file:
            elf = ELFFile(file)
            if elf.get_machine_arch() not in ("x64", "x86"):
                raise ValueError("it is not for amd64 or x86")
            self.bits = elf.elfclass
            for segment in elf.iter_segments("PT_LOAD"):
                self._segments.append((segment["p_vaddr"], segment.data()))
            self._dynamic: list[tuple[str, int]] = []
            for name in (".dynsym", ".symtab"):
                table = elf.get_section_by_name(name)
                if table is None:
                    continue
                texts = elf.get_section(table["sh_link"]).data()
                found = _symbols(table.data(), texts, self.bits)
                if name == ".dynsym":
                    self._dynamic = [(text, value) for text, value, _, _ in found]
                for text, value, size, wanted in found:
                    if wanted and text and text not in self.symbols:
                        self.symbols[text], self.sizes[text] = value, size
            section = elf.get_section_by_name(".rela.dyn")
            self._relocations = section.data() if section is not None else b""
            code = elf.get_section_by_name(".text")
            if code is not None:
                self.text = code["sh_addr"], code.data()

    def segments(self) -> list[tuple[int, int]]:
        """Where the file is mapped: from, and up to."""
        return [(start, start + len(data)) for start, data in self._segments]

    def add_functions(self, found: Mapping[str, Function]) -> None:
        """Names that were found in another way than by a table of symbols, which comes first."""
        for name, function in found.items():
            if name not in self.symbols:
                self.symbols[name], self.sizes[name] = function.address, function.size
                self.found[name] = function
        self.__dict__.pop("names", None)

    def contains(self, text: bytes) -> bool:
        return any(text in data for _, data in self._segments)

    @functools.cached_property
    def unwound(self) -> list[tuple[int, int]]:
        """Code that .eh_frame says how to unwind, from and to, in order."""
        try:
            with self.path.open("rb") as file:
                information = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
                entries = information.EH_CFI_entries() if information.has_EH_CFI() else []
                places = [
                    (entry["initial_location"], entry["address_range"])
                    for entry in entries
                    if isinstance(entry, FDE)
                ]
        except NOT_ELF as error:
            raise TareError(f"{self.path}: .eh_frame cannot be read: {error}") from None
        return sorted((start, start + size) for start, size in places)

    def bytes_at(self, address: int, count: int) -> bytes:
        """Fewer than ``count`` where the file has no more."""
        for start, data in self._segments:
            if start <= address < start + len(data):
                return data[address - start : address - start + count]
        return b""

    def word_at(self, address: int) -> int | None:
        """Eight bytes as the dynamic linker makes them, but for where the object is loaded."""
        if (found := self._relocated.get(address)) is not None:
            return found
        stored = self.bytes_at(address, 8)
        return int.from_bytes(stored, "little") if len(stored) == 8 else None

    @functools.cached_property
    def _relocated(self) -> dict[int, int]:
        words = {}
        whole = len(self._relocations) // _RELOCATION.size * _RELOCATION.size
        for place, kind, addend in _RELOCATION.iter_unpack(self._relocations[:whole]):
            if kind & 0xFFFFFFFF == _RELATIVE:
                words[place] = addend
            elif kind & 0xFFFFFFFF in (_ABSOLUTE, _GLOBAL) and kind >> 32 < len(self._dynamic):
                words[place] = self._dynamic[kind >> 32][1] + addend
        return words

    @functools.cached_property
    def names(self) -> dict[int, list[str]]:
        """The names of each address that has one."""
        names: dict[int, list[str]] = {}
        for name, address in self.symbols.items():
            names.setdefault(address, []).append(name)
        return names


def _symbols(table: bytes, texts: bytes, bits: int) -> list[tuple[str, int, int, bool]]:
    """Name, value, size, and whether it is the address of something that is there."""
    found = []
    shape = _SYMBOL if bits == 64 else _SYMBOL_32
    whole = len(table) // shape.size * shape.size
    for fields in shape.iter_unpack(table[:whole]):
        if bits == 64:
            name, info, _other, section, value, size = fields
        else:
            name, value, size, info, _other, section = fields
        end = texts.find(b"\0", name)
        text = texts[name:end].decode("utf-8", "replace")
        is_there = section != 0 and value != 0 and info & 15 in _TEXT_TYPES
        found.append((text, value, size, is_there))
    return found


def read_image(images: dict[str, Image | None], file: str) -> Image | None:
    """The image of an object file; None where it is none. ``images`` keeps those read before."""
    if file not in images:
        try:
            images[file] = Image(Path(file)) if file else None
        except TareError:
            images[file] = None
    return images[file]
