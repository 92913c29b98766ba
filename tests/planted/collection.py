"""The programs: programs.toml, and a source each in the folder programs."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, convert

from tare.records.actions import Kind

FOLDER = Path(__file__).parent / "programs"
_COMPILERS = {"c": ("cc", ".c"), "c++": ("c++", ".cpp")}
_STANDARDS = {"c": "-std=gnu17", "c++": "-std=c++20"}


class Planted(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of programs.toml, which says what the fields are. A healthy one has no ``fault``."""

    name: str
    language: str
    flags: tuple[str, ...]
    fault: Kind | None = None
    also: tuple[Kind, ...] = ()
    improves: str = ""
    managers: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        return FOLDER / f"{self.name}{_COMPILERS[self.language][1]}"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return (self.fault, *self.also) if self.fault else ()

    @property
    def line(self) -> int:
        """Of the fault, from 1; 0 where the fix is no line."""
        if self.fault is None or self.managers:
            return 0
        mark = f"// planted: {self.fault}"
        lines = self.source.read_text().splitlines()
        [number] = [at for at, line in enumerate(lines, 1) if line.endswith(mark)]
        return number

    def compile(self, folder: Path, fixed: bool = False) -> Path:
        """The program in ``folder``, with debug information."""
        target = folder / (f"{self.name}.fixed" if fixed else self.name)
        compiler = _COMPILERS[self.language][0]
        words = [compiler, _STANDARDS[self.language], "-g", *self.flags, *["-DFIXED"] * fixed]
        subprocess.run([*words, "-o", target, self.source], check=True)
        return target


def collection() -> Mapping[str, Planted]:
    rows = tomllib.loads((FOLDER.parent / "programs.toml").read_text())
    return {name: convert({"name": name, **row}, Planted) for name, row in rows.items()}
