#!/usr/bin/env python3
"""What the programs and objects in a wheel need of a system: glibc's version, and libraries.

    scripts/wheel_needs.py WHEEL…

A manylinux tag promises that nothing but a few libraries of every Linux is needed. Exit code 1 if a
wheel with such a tag needs more, or a newer glibc than the tag says.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

EVERYWHERE = frozenset(
    "ld-linux-x86-64.so.2 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0 "
    "librt.so.1".split()
)
"""Of the libraries that PEP 600 allows, the C library's and one that it needs itself."""

Version = tuple[int, ...]


def main() -> int:
    wrong = False
    for wheel in map(Path, sys.argv[1:]):
        glibc, needed_by = needs(wheel)
        print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB; glibc {written(glibc)} or newer")
        for library, files in sorted(needed_by.items()):
            print(f"  {library}: {', '.join(files)}")
        if tag := re.search(r"manylinux_(\d+)_(\d+)", wheel.name):
            wrong |= bool(needed_by) or glibc > tuple(map(int, tag.groups()))
    return 1 if wrong else 0


def needs(wheel: Path) -> tuple[Version, dict[str, list[str]]]:
    """The glibc that is needed, and what is needed beyond the libraries of every Linux, by whom."""
    glibc: Version = (2, 5)
    needed_by: dict[str, list[str]] = {}
    found = list(programs(wheel))
    there = EVERYWHERE | {Path(name).name for name, _ in found}
    for name, elf in found:
        for section in elf.iter_sections():
            if isinstance(section, DynamicSection):
                for tag in section.iter_tags("DT_NEEDED"):
                    library: str = vars(tag)["needed"]  # which its class does not declare
                    if library not in there:
                        needed_by.setdefault(library, []).append(Path(name).name)
            elif isinstance(section, GNUVerNeedSection):
                glibc = max(glibc, *versions(section), (0,))
    return glibc, needed_by


def programs(wheel: Path) -> Iterator[tuple[str, ELFFile]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if content.startswith(b"\x7fELF"):
                yield name, ELFFile(io.BytesIO(content))


def versions(section: GNUVerNeedSection) -> Iterator[Version]:
    for _, auxiliaries in section.iter_versions():
        for auxiliary in auxiliaries:
            if found := re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", auxiliary.name):
                yield tuple(map(int, found[1].split(".")))


def written(version: Version) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main())
