"""OCaml: its collector with the sizes that drive it.

The runtime is told by a variable, and tells at the end of a process on standard error what it did
in all. It tells of no single collection; docs/runtimes.md says what follows from that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGABRT

from tare.base.errors import UsageError
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import Option, Recipe
from tare.memory_managers.runtimes import Process, Setting
from tare.programs.elf import is_ocaml
from tare.programs.program import Program, find_executable
from tare.records.metrics import Status
from tare.records.runs import Outcome

NAME = "ocaml"
TITLE = "OCaml"
PACKAGE = "ocaml-nox"
TRIAL = ("ocaml", "-version")
LIMITED = ()
SWEEP = (
    "ocaml.gc",
    "ocaml.gc(minor=32KiB)",
    "ocaml.gc(minor=8MiB)",
    "ocaml.gc(space=20)",
    "ocaml.gc(space=1000)",
)
TUNED = ("ocaml.gc",)
BY_HAND: Mapping[str, str] = {}
REFERENCE = ""
OFF: Mapping[str, Mapping[str, str]] = {}
TELLS_WHEN = False
NO_HEAP = "OCaml's heap has no limit; tare compare shows its peak memory"
OVER_MALLOC: Mapping[str, Mapping[str, str]] = {}
OWN_HEAP = None
_VARIABLES = ("OCAMLRUNPARAM", "CAMLRUNPARAM")
"""The second is looked at where the first is not set."""
_WORD = 8
_STATISTICS = "v=0x400"
_OUT_OF_MEMORY_EXIT = 2
_OUT_OF_MEMORY = re.compile(
    r"^Fatal error: .*\b([Oo]ut[_ ]of[_ ]memory|Not enough heap memory)\b.*$", re.MULTILINE
)
_FIRST = "minor_words"
_STATISTIC = re.compile(
    r"(allocated_words|minor_words|promoted_words|major_words|minor_collections|major_collections|"
    r"heap_words|heap_chunks|top_heap_words|compactions|forced_major_collections|"
    r"mean_space_overhead): (\d{1,18})(\.\d+)?"
)
_SLACK = 1.05
_OPTIONS = (
    Option(
        "minor",
        "bytes of the minor heap; if not set, as OCaml chooses",
        "size",
        "",
        tried=("8MiB", "32KiB", "1MiB", "32MiB"),
    ),
    Option(
        "space",
        "memory that the major heap may waste, in percent of live memory; if not set, as OCaml "
        "chooses",
        "int",
        "",
        tried=("200", "40", "1000", "20"),
    ),
)
_KEYS = {"minor": "s", "space": "o"}


def recipes() -> dict[str, Recipe]:
    return {
        f"{NAME}.gc": runtimes.recipe(
            f"{NAME}.gc",
            "copies the minor heap, marks and sweeps the major heap in slices",
            "of the program",
            "LGPL-2.1 with linking exception",
            "https://ocaml.org",
            options=_OPTIONS,
            note="serves programs that OCaml compiled; a program holds its own runtime",
        )
    }


def runs(program: Program) -> bool:
    try:
        return is_ocaml(find_executable(program))
    except (UsageError, OSError):
        return False


def check_setting(setting: Setting) -> None:
    minor = _numbers(setting).get("minor", _WORD)
    if minor % _WORD:
        raise UsageError(f"{NAME}.gc(minor={minor}B): OCaml takes whole words of {_WORD} bytes")


def _numbers(setting: Setting) -> dict[str, int]:
    return runtimes.numbers(setting, _OPTIONS)


def check(setting: Setting, program: Program) -> None:
    taken = {"v", *(_KEYS[name] for name in setting.options)}
    for part in _given(program).split(","):
        if part.partition("=")[0] in taken:
            raise UsageError(
                f"{program.name}: {part} in {_VARIABLES[0]} clashes with the manager {NAME}.gc",
                f"leave {part} out of {' and '.join(_VARIABLES)}",
            )


def _given(program: Program) -> str:
    return next((text for name in _VARIABLES if (text := runtimes.variable(program, name))), "")


def advice(setting: Setting, program: Program) -> Program:
    parts = _parts(setting, program)
    return _with_parts(program, parts) if parts else program


def _parts(setting: Setting, program: Program) -> list[str]:
    numbers = _numbers(setting)
    parts = [part for part in _given(program).split(",") if part]
    if "minor" in numbers:
        parts.append(f"{_KEYS['minor']}={numbers['minor'] // _WORD}")
    if "space" in numbers:
        parts.append(f"{_KEYS['space']}={numbers['space']}")
    return parts


def _with_parts(program: Program, parts: Sequence[str]) -> Program:
    return replace(program, environment={**program.environment, _VARIABLES[0]: ",".join(parts)})


def under(setting: Setting, program: Program, folder: Path) -> Program:
    del folder  # OCaml writes nothing of its own into it
    return _with_parts(program, [*_parts(setting, program), _STATISTICS])


def read_statistics(path: Path) -> Sequence[Mapping[str, int]]:
    """What each OCaml process that wrote the file told at its end."""
    found: list[dict[str, int]] = []
    for line in runtimes.lines_of(path):
        match = _STATISTIC.fullmatch(line)
        if match is None:
            continue
        if match[1] == _FIRST:
            found.append({})
        if found:
            found[-1][match[1]] = int(match[2])
    return found


def read_processes(folder: Path) -> list[Process]:
    """None: OCaml tells of no single collection and no pause."""
    del folder
    return []


def judge(setting: Setting, outcome: Outcome, folder: Path) -> Outcome:
    errors = folder / "stderr"
    if outcome.error_tail:
        lines = outcome.error_tail.splitlines()
        kept = "\n".join(line for line in lines if not _STATISTIC.fullmatch(line))
        outcome = replace(outcome, error_tail=kept)
    if outcome.status is Status.FAILED:
        said = runtimes.first_line_with(errors, _OUT_OF_MEMORY)
        if said and (outcome.exit_code == _OUT_OF_MEMORY_EXIT or outcome.signal == SIGABRT):
            return replace(outcome, status=Status.OUT_OF_MEMORY, reason=said[:200])
        return outcome
    if outcome.status is not Status.OK:
        return outcome
    processes = read_statistics(errors)
    if reason := _fault(setting, processes):
        return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
    values = {**outcome.values, **_values(processes)}
    shown = {**outcome.details, NAME: {"processes": processes}}
    return replace(outcome, values=values, details=shown)


def _fault(setting: Setting, processes: Sequence[Mapping[str, int]]) -> str:
    """Why a run does not count, or ""."""
    if not processes:
        return "no OCaml program of the run showed its collector"
    minor = _numbers(setting).get("minor")
    for seen in processes:
        collections = seen.get("minor_collections", 0)
        between = seen[_FIRST] * _WORD / (collections + 1)
        if minor is not None and between > minor * _SLACK:
            return (
                f"OCaml allocated {between:.0f} bytes between minor collections, in a minor heap "
                f"of {minor}: the program sets its own"
            )
    return ""


def _values(processes: Sequence[Mapping[str, int]]) -> dict[str, float]:
    def total(name: str) -> int:
        return sum(seen.get(name, 0) for seen in processes)

    words = total("minor_words") + total("major_words") - total("promoted_words")
    return {
        "collections": total("minor_collections") + total("major_collections"),
        "heap_allocated_bytes": words * _WORD,
        "heap_bytes": max(seen.get("top_heap_words", 0) for seen in processes) * _WORD,
    }
