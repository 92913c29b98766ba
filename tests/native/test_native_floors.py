"""No files of a native folder know each other in a circle, nor do its folders.

A file and its header are one: ``X.c`` with ``X.h``. It knows what it includes; in C, also where
that is defined which it declares; in Rust, the modules of its crate that it names. Nothing has to
be built for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import ROOT

FOLDERS = (
    "managers/classics",
    "managers/delay",
    "managers/layers",
    "managers/marksweep",
    "managers/preload",
    "managers/regions",
    "observers/instrument",
    "observers/jvm",
    "observers/latency",
    "observers/recorder",
    "observers/runner",
    "platform",
    "replay/harness/src",
    "replay/mmtk/src",
    "replay/replayer/src",
    "replay/schedule/src",
)
"""Each by itself, with all folders in it."""

Graph = dict[str, set[str]]

_SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".rs"}
_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_INCLUDE = re.compile(r'^ *# *include *"([^"]+)"', re.MULTILINE)
_CRATE = re.compile(r"\bcrate::(\w+|\{[^}]*\})")
_HEAD = r"^(?!(?:static|typedef|extern|return|else)\b)[A-Za-z_][\w *]*?[ *](\w+)"
_DEFINED = re.compile(_HEAD + r"(?:\([^;{]*\)\s*\{|(?:\[[^\]]*\])?(?: = [^;]*)?;)", re.MULTILINE)
_DECLARED = re.compile(
    _HEAD.replace("|extern", "") + r"(?:\([^;{]*\)|(?:\[[^\]]*\])?);", re.MULTILINE
)
"""Functions and variables of C that other files can name."""


def sources(folder: Path) -> dict[str, list[Path]]:
    """The files of each unit."""
    units: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES:
            units.setdefault(str(path.relative_to(folder).with_suffix("")), []).append(path)
    return units


def knows(folder: Path) -> Graph:
    """Which units each unit of the folder knows."""
    units = sources(folder)
    unit_of = {path.resolve(): unit for unit, paths in units.items() for path in paths}
    home = definitions(units)
    graph: Graph = {unit: set() for unit in units}
    for unit, paths in units.items():
        for path in paths:
            text = path.read_text()
            if path.suffix == ".rs":
                graph[unit] |= {other for other in modules(text, unit) if other in units}
            graph[unit] |= set(included(text, path, folder, unit_of))
            if path.suffix in {".c", ".h"}:
                declared = _DECLARED.findall(_NO_CODE.sub("", text))
                graph[unit] |= {home[name] for name in declared if name in home}
        graph[unit].discard(unit)
    return graph


def included(text: str, path: Path, folder: Path, unit_of: Mapping[Path, str]) -> Iterator[str]:
    for name in _INCLUDE.findall(text):
        for start in (path.parent, folder, folder / "include"):
            if (unit := unit_of.get((start / name).resolve())) is not None:
                yield unit
                break


def definitions(units: Mapping[str, Iterable[Path]]) -> dict[str, str]:
    """Where names of C are defined; those that several units define are nobody's."""
    found: dict[str, set[str]] = {}
    for unit, paths in units.items():
        for path in paths:
            if path.suffix == ".c":
                for name in _DEFINED.findall(_NO_CODE.sub("", path.read_text())):
                    found.setdefault(name, set()).add(unit)
    return {name: next(iter(where)) for name, where in found.items() if len(where) == 1}


def modules(text: str, unit: str) -> Iterator[str]:
    """The modules of its crate that a file of Rust names, as units beside it."""
    beside = unit.rpartition("/")[0]
    for named in _CRATE.findall(re.sub(r"//[^\n]*", "", text)):
        for name in re.findall(r"(?:^|[{,])\s*(\w+)", named):
            yield f"{beside}/{name}" if beside else name


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Units that reach each other, together; by Tarjan."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(unit: str) -> None:
        index[unit] = lowest[unit] = len(index)
        path.append(unit)
        for other in sorted(graph[unit]):
            if other not in index:
                visit(other)
                lowest[unit] = min(lowest[unit], lowest[other])
            elif other in path:
                lowest[unit] = min(lowest[unit], index[other])
        if lowest[unit] == index[unit]:
            start = path.index(unit)
            found.append(sorted(path[start:]))
            del path[start:]

    for unit in graph:
        if unit not in index:
            visit(unit)
    return [each for each in found if len(each) > 1]


def between_folders(graph: Graph) -> Graph:
    """The same between the folders in which the units lie; those of the top are left out."""
    folders: Graph = {}
    for unit, others in graph.items():
        if "/" in unit:
            own = unit.split("/")[0]
            theirs = {other.split("/")[0] for other in others if "/" in other}
            folders.setdefault(own, set()).update(theirs - {own})
    return folders


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_know_each_other_in_no_circle(folder: str) -> None:
    graph = knows(ROOT / folder)
    assert graph
    assert circles(graph) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_know_each_other_in_no_circle(folder: str) -> None:
    assert circles(between_folders(knows(ROOT / folder))) == []


def test_circles_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    files = {
        "a/low.h": "void low(void);",
        "a/low.c": '#include "low.h"\n#include "high.h"\nvoid low(void) {\n  high();\n}\n',
        "a/high.h": '#include "low.h"\nvoid high(void);',
        "alone.c": "static int low;",
        "top.c": 'extern int level;\nint of(void) { return level; }\n#include "a/high.h"',
        "level.c": "int of(void);\nint level = 3;\nint again(void) { return of(); }\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert circles(knows(tmp_path)) == [["a/high", "a/low"], ["level", "top"]]


def test_circles_of_modules_are_found(tmp_path: Path) -> None:
    files = {
        "main.rs": "mod a;\nmod b;\nuse crate::a::run;",
        "a.rs": "use crate::{\n    b::Heap,\n    c,\n};",
        "b.rs": "// use crate::main\nfn f() { crate::a::run() }",
        "c.rs": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert circles(knows(tmp_path)) == [["a", "b"]]
