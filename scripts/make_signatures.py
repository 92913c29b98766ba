"""Writes the signatures of a runtime's functions, from its static libraries.

    python scripts/make_signatures.py ghc-9 libHSrts.a=names alex=names >ghc-9.signatures

Taken are the functions that the descriptor names. A name that ends in .o is all code of that member
of the library. What no library has as a symbol is named by a file of lines ``NAME PLACE``, where
the place is SYMBOL+OFFSET, or in an executable an address. Of several sources a function that
differs has several lines.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from iced_x86 import Decoder

from tare.studies.breakdown.descriptor import shipped
from tare.studies.breakdown.image import Image

MOST_BYTES = 128
ANY_GOT = (41, 42)
"""R_X86_64_GOTPCRELX and its kin: the linker may change the instruction before the address."""
EIGHT_BYTES = (1, 24, 25)
MOST_SPACE = 1 << 24
"""From the start of the code on, numbers are taken for addresses."""
CLONE = re.compile(r"\.(constprop|isra)\..*")
KNOWN = re.compile(r"[0-9a-f]{16}|\+")
"""What is too short to be told apart has no signature."""
Found = tuple[str, int, str]
"""A name, a size, and bytes or a place."""


def shown(code: bytes, free: set[int], start: int, size: int, most: int = MOST_BYTES) -> str:
    places = range(start, min(start + min(size, most), len(code)))
    return "".join(".." if at in free else f"{code[at]:02x}" for at in places)


# ---- libraries ----


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    content = archive.read_bytes()
    at, names = 8, b""
    while at + 60 <= len(content):
        title = content[at : at + 16].decode().rstrip()
        size = int(content[at + 48 : at + 58])
        data = content[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
        if title == "//":
            names = data
        elif title[:1] == "/" and title[1:].isdigit():
            start = int(title[1:])
            yield names[start : names.index(b"/", start)].decode(), data
        elif title not in ("/", "/SYM64/"):
            yield title.rstrip("/"), data


def member_name(title: str) -> str:
    """GHC names the members of libraries of another way of compiling by that."""
    return re.sub(r"\.\w+_o$", ".o", title)


def set_by_linker(elf: ELFFile, section: str, size: int) -> set[int]:
    found: set[int] = set()
    table = elf.get_section_by_name(f".rela{section}")
    for one in table.iter_relocations() if table is not None else ():
        at, kind = one["r_offset"], one["r_info_type"]
        start = at - 3 if kind in ANY_GOT else at
        found.update(range(max(start, 0), min(at + (8 if kind in EIGHT_BYTES else 4), size)))
    return found


def of_member(name: str, data: bytes, places: dict[str, str]) -> Iterator[Found]:
    elf = ELFFile(io.BytesIO(data))
    symbols = elf.get_section_by_name(".symtab")
    for number, section in enumerate(elf.iter_sections()):
        if not section["sh_flags"] & 4 or not section["sh_size"]:
            continue
        code = section.data()
        free = set_by_linker(elf, section.name, len(code))
        # What GHC compiles has no unwinding tables, and functions that are too short or alike.
        is_whole = section.name == ".text" and elf.get_section_by_name(".eh_frame") is None
        if is_whole:
            yield name, len(code), shown(code, free, 0, len(code), len(code))
        for symbol in symbols.iter_symbols() if symbols is not None else ():
            start, size = symbol["st_value"], symbol["st_size"]
            if symbol["st_shndx"] != number or not size:
                continue
            title = CLONE.sub("", symbol.name)
            yield title, size, f"{name}+{start:#x}" if is_whole else shown(code, free, start, size)
            for inner, place in places.items():
                outer, _, offset = place.partition("+")
                if outer == title:
                    at = int(offset, 0)
                    yield inner, size - at, shown(code, free, start + at, size - at)


def of_library(archive: Path, places: dict[str, str]) -> Iterator[Found]:
    for name, data in members(archive):
        if data.startswith(b"\x7fELF"):
            yield from of_member(member_name(name), data, places)


# ---- executables ----


def of_executable(path: Path, places: dict[str, str]) -> Iterator[Found]:
    image = Image(path)
    sizes = {start: end - start for start, end in image.unwound}
    addresses = {name: int(place, 0) for name, place in places.items() if "+" not in place}
    inner = {name: place.partition("+") for name, place in places.items() if "+" in place}
    for name, address in addresses.items():
        size = sizes[address]
        code = image.bytes_at(address, size)
        free = that_are_addresses(address, code, image)
        yield name, size, shown(code, free, 0, size)
        for title, (outer, _, offset) in inner.items():
            if outer == name:
                at = int(offset, 0)
                yield title, size - at, shown(code, free, at, size - at)


def that_are_addresses(address: int, code: bytes, image: Image) -> set[int]:
    """Bytes of branches, and of whatever can be an address in the executable."""
    found: set[int] = set()
    text, _ = image.text
    space = range(text, text + MOST_SPACE)
    decoder = Decoder(64, code, ip=address)
    for one in decoder:
        at = one.ip - address
        constants = decoder.get_constant_offsets(one)
        if one.near_branch_target and one.len >= 5:
            found.update(range(at + one.len - 4, at + one.len))
        if constants.has_displacement and (
            one.is_ip_rel_memory_operand or one.memory_displacement in space
        ):
            start = at + constants.displacement_offset
            found.update(range(start, start + constants.displacement_size))
        if constants.has_immediate and constants.immediate_size >= 4:
            start = at + constants.immediate_offset
            value = int.from_bytes(code[start : start + constants.immediate_size], "little")
            if value in space:
                found.update(range(start, start + constants.immediate_size))
    return found


def main() -> None:
    runtime, *sources = sys.argv[1:]
    wanted = shipped()[runtime].named
    lines: dict[str, None] = {}
    for source in sources:
        path, _, names = source.partition("=")
        text = Path(names).read_text() if names else ""
        places = dict(line.split() for line in text.splitlines() if line[:1] not in ("", "#"))
        find = of_library if path.endswith(".a") else of_executable
        for name, size, code in find(Path(path), places):
            if name in wanted and KNOWN.search(code):
                lines[f"{name} {size} {code}"] = None
    members_named = {line.split()[2].partition("+")[0] for line in lines if "+0x" in line}
    for source in sources:
        path = source.partition("=")[0]
        for name, size, code in of_library(Path(path), {}) if path.endswith(".a") else ():
            if name in members_named and name not in wanted:
                lines[f"{name} {size} {code}"] = None
    of = ", ".join(Path(source.partition("=")[0]).name for source in sources)
    print(f"# Made by scripts/make_signatures.py of {of}.")
    print("\n".join(sorted(lines)))
    if missing := wanted - {line.split()[0] for line in lines}:
        sys.exit(f"in none of them: {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main()
