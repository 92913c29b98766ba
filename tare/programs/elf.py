"""What an executable file is, and whether a preloaded manager can serve it at all."""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tare.base.errors import MissingError, UsageError
from tare.base.native import built_for_musl, native_file

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_OCAML_SYMBOL = "caml_main"
_SHEBANG_LIMIT = 256
_SHEBANG_DEPTH = 4
_MUSL = "/ld-musl-"
_MUSL_ITSELF = re.compile(r"/ld-musl-[^/]*$|-linux-musl/libc\.so$")
_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
_NARROW_MACHINES = {"x86_64": "EM_386"}


@dataclass(frozen=True)
class Immunity:
    """Why no preloaded manager can serve a program, in words, and what can be done instead."""

    reason: str
    hint: str


def interpreter_of(path: Path) -> Path:
    """The file that the kernel maps for ``path``: itself, or what its ``#!`` lines lead to."""
    for _ in range(_SHEBANG_DEPTH):
        with path.open("rb") as file:
            start = file.read(_SHEBANG_LIMIT)
        if not start.startswith(b"#!"):
            return path
        words = start[2:].split(b"\n", 1)[0].split()
        if not words:
            raise UsageError(f"{path}: its '#!' line names no interpreter")
        path = Path(os.fsdecode(words[0]))
        if not path.is_file():
            raise UsageError(f"the interpreter {path} of the script does not exist")
    raise UsageError(f"{path}: scripts that interpret scripts, more than {_SHEBANG_DEPTH} deep")


def immunity(path: Path, narrow: bool = False) -> Immunity | None:
    """None when a preloaded manager can serve the program file ``path``; with ``narrow`` also when
    it is a 32-bit program, which is served by its own malloc only."""
    try:
        target = interpreter_of(path)
        privileged = _privileged(target)
        return privileged or _immune_format(target, narrow)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def refuse_immune(path: Path, narrow: bool = False) -> None:
    """Raise MissingError, exit code 3, when no preloaded manager can serve ``path``."""
    found = immunity(path, narrow)
    if found is not None:
        raise MissingError(f"{path}: {found.reason}", found.hint)


def _privileged(path: Path) -> Immunity | None:
    status = path.stat()
    changes_user = bool(status.st_mode & stat.S_ISUID) and status.st_uid != os.geteuid()
    changes_group = bool(status.st_mode & stat.S_ISGID) and status.st_gid != os.getegid()
    if changes_user or changes_group or _has_capabilities(path):
        return Immunity(
            "it runs with other privileges (set-uid, set-gid or file capabilities), "
            "so the dynamic linker ignores preloaded managers",
            "measure a copy of the file without those bits",
        )
    return None


def _has_capabilities(path: Path) -> bool:
    if os.geteuid() == 0:
        return False
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def _immune_format(path: Path, narrow: bool) -> Immunity | None:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None  # the kernel, or execvp's shell, decides; the proof will tell
        file.seek(0)
        try:
            elf = ELFFile(file)
            return _immune_elf(elf, narrow)
        except (ELFError, UnicodeDecodeError, ValueError) as error:
            raise UsageError(f"{path}: a damaged ELF file ({error})") from None


def is_ocaml(path: Path) -> bool:
    """Whether the file is a program that OCaml compiled, or a script that its interpreter runs."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    try:
        target = interpreter_of(path)
    except UsageError:
        return False
    with target.open("rb") as file:
        try:
            elf = ELFFile(file)
            tables = [elf.get_section_by_name(name) for name in (".symtab", ".dynsym")]
            return any(
                table.get_symbol_by_name(_OCAML_SYMBOL)
                for table in tables
                if isinstance(table, SymbolTableSection)
            )
        except (ELFError, UnicodeDecodeError, ValueError):
            return False


def is_go(path: Path) -> bool:
    """Whether the file is a Go program."""
    return _asked(path, _has_go)


def is_of_musl(path: Path) -> bool:
    """Whether the file is a program that is linked with musl, or a script for such a one."""
    try:
        found = interpreter_of(path)
        status = found.stat()
        content = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return _asks_for_musl(found, content)
    except (OSError, UsageError):  # told when the program is checked
        return False


@lru_cache(maxsize=256)  # asked for each run
def _asks_for_musl(path: Path, content: tuple[int, ...]) -> bool:
    del content
    return _asked(path, lambda elf: _MUSL in str(_linker(elf)))


def is_musl(path: str) -> bool:
    """Whether a file's real path is that of musl, its dynamic linker and C library in one."""
    return bool(_MUSL_ITSELF.search(path))


def needs_glibc(path: Path) -> bool:
    """Whether the file is an object that is linked with glibc."""
    return _asked(path, _needs_glibc)


def _asked(path: Path, ask: Callable[[ELFFile], bool]) -> bool:
    """What an ELF file answers; False of another file, and of a damaged one."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        try:
            return ask(ELFFile(file))
        except (ELFError, UnicodeDecodeError, ValueError):
            return False


def _needs_glibc(elf: ELFFile) -> bool:
    from elftools.elf.dynamic import DynamicSegment

    return any(
        str(getattr(tag, "needed", "")).startswith(("libc.so.6", "ld-linux"))
        for segment in elf.iter_segments("PT_DYNAMIC")
        if isinstance(segment, DynamicSegment)
        for tag in segment.iter_tags("DT_NEEDED")
    )


def _linker(elf: ELFFile) -> str | None:
    """The dynamic linker that the program asks for."""
    from elftools.elf.segments import InterpSegment

    found = (s.get_interp_name() for s in elf.iter_segments() if isinstance(s, InterpSegment))
    return next(found, None)


def _has_go(elf: ELFFile) -> bool:
    return any(elf.get_section_by_name(name) for name in (".go.buildinfo", ".note.go.buildid"))


def _immune_elf(elf: object, narrow: bool) -> Immunity | None:
    from elftools.elf.elffile import ELFFile

    assert isinstance(elf, ELFFile)
    machine = platform.machine()
    kinds = [(64, _MACHINES.get(machine))]
    if narrow:
        kinds.append((32, _NARROW_MACHINES.get(machine)))
    if (elf.elfclass, elf["e_machine"]) not in kinds:
        return Immunity(
            f"it is a program for {elf.get_machine_arch()} ({elf.elfclass} bits), "
            f"and the managers are built for {machine}",
            "build the program for this machine",
        )
    if _has_go(elf):
        return Immunity(
            "it is a Go program, whose own runtime allocates its memory without malloc",
            "no manager can serve its heap; to measure its collector: "
            "tare compare -m go.gogc -m go.off",
        )
    linker = _linker(elf)
    if linker is None:
        return Immunity(
            "it is statically linked: its malloc is part of it, and no manager can replace it",
            "link it dynamically, or link the manager into it and pass each build as a program",
        )
    if _MUSL in str(linker) and built_for_musl(native_file("lib/libtare-probe.so")) is None:
        return Immunity(
            "it is linked with musl, and this Tare was built where there is no musl-gcc",
            "build Tare from source, with the package musl-tools; or the program for glibc",
        )
    return None
