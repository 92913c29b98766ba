"""`tare gate`: a change, judged."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click

from tare.base.errors import UsageError
from tare.base.interrupts import termination_as_interrupt
from tare.gating.changes import BASE, HEAD
from tare.gating.folders import GateOfFolders, gate_folders
from tare.gating.question import gate
from tare.gating.report import STUDY, is_broken
from tare.gating.request import Gate
from tare.programs.checkouts import checked_out, commit_of
from tare.programs.program import Program, program_from_command
from tare.records.results import RUN_FILE, default_folder
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.request import own_fields
from tare.studykit.watcher import watcher

EPILOG = """\b
Examples:
  tare gate old/report new/report -- --quiet words.txt
  tare gate main HEAD --build 'make -s' -- ./report words.txt
  tare gate main/ branch/ -- ./report words.txt
  tare gate before/ after/
  tare gate --skip time --markdown comment.md old/report new/report
"""


def _own_options(function: options.Command) -> options.Command:
    for name, declared in reversed([*own_fields(Gate).items()]):
        function = declared.metadata["decorated"](name)(function)
    return function


@dataclass(frozen=True)
class _Sides:
    """What the command line says of the two: ``words`` follow --."""

    base: str
    head: str
    words: tuple[str, ...]
    stdin: Path | None
    ignore_output: bool
    build: str


def _sides(function: options.Command) -> options.Command:
    """Adds BASE, HEAD and ARG, --input, --ignore-output and --build; gives ``sides``."""

    @functools.wraps(function)
    def packed(**given: Any) -> Any:
        named = {each.name: given.pop(each.name) for each in fields(_Sides)}
        return function(sides=_Sides(**named), **given)

    for decorator in reversed(_SIDES):
        packed = decorator(packed)
    return packed


_SIDES = (
    click.argument("base", metavar="BASE"),
    click.argument("head", metavar="HEAD"),
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARG…]"),
    click.option(
        "-i",
        "--input",
        "stdin",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Standard input of each run.",
    ),
    click.option(
        "--ignore-output",
        is_flag=True,
        help="Do not compare what the program prints (for programs that print times).",
    ),
    click.option(
        "--build",
        default="",
        metavar="COMMAND",
        help="How a commit is built: a command of the shell, run in a checkout of BASE and of "
        "HEAD.",
    ),
)


@click.command(epilog=EPILOG)
@_own_options
@_sides
@click.option(
    "--markdown",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write a comment for a pull request ('-': stdout).",
)
@options.run_options
@options.output_options
def command(sides: _Sides, markdown: Path | None, output: Output, **asked: object) -> Answer:
    """Judge a change: what HEAD needs beside BASE.

    BASE and HEAD are two builds of a program, which run with the same arguments; or folders, or
    commits, and what follows -- is a program that runs in each; or two results folders, which are
    judged by the runs in them. Instructions, objects and bytes are counted and decide first, time
    and memory by runs in turns. Exit code 1 when something got worse or failed.
    """
    told = watcher(output.quiet)
    if _are_results(sides):
        return _of_folders(sides, markdown, output, asked)
    given = {name: value for name, value in asked.items() if value is not None}
    folder = output.folder or default_folder(STUDY, Path((sides.words or (sides.head,))[0]).name)
    with ExitStack() as during:
        commits = _commits(sides)
        places: Mapping[str, Path] = {}
        if commits:
            _require(sides.words)
            during.enter_context(termination_as_interrupt())
            beside = folder.with_name(f"{folder.name}-builds").resolve()
            places = during.enter_context(checked_out(commits, beside, sides.build, told.note))
        programs = [
            _program(str(places.get(name, side)), sides)
            for name, side in ((BASE, sides.base), (HEAD, sides.head))
        ]
        request = Gate(*programs, folder=folder, watcher=told, **given)  # type: ignore[arg-type]
        results = inspect.unwrap(gate)(request)
    return Answer(results, output, markdown, exit_code=1 if is_broken(results) else 0)


def _are_results(sides: _Sides) -> bool:
    return all((Path(side) / RUN_FILE).exists() for side in (sides.base, sides.head))


def _of_folders(
    sides: _Sides, markdown: Path | None, output: Output, asked: Mapping[str, object]
) -> Answer:
    if sides.words or sides.build or sides.stdin:
        raise UsageError(
            "two results folders are judged by the runs in them",
            "nothing is run, so leave out what follows --, --build and --input",
        )
    given = {
        name: value
        for name in ("manager", "threshold", "skip")
        if (value := asked.get(name)) is not None
    }
    folder = output.folder or default_folder(STUDY, Path(sides.head).name)
    results = gate_folders(
        GateOfFolders(Path(sides.base), Path(sides.head), folder, **given)  # type: ignore[arg-type]
    )
    return Answer(results, output, markdown, exit_code=1 if is_broken(results) else 0)


def _commits(sides: _Sides) -> dict[str, str]:
    """Their hashes, where the two are commits; none where they are files or folders."""
    named = {BASE: sides.base, HEAD: sides.head}
    can_be = shutil.which("git") is not None and not any(map(os.path.exists, named.values()))
    if not sides.build and not can_be:
        return {}
    found = {name: commit_of(side) for name, side in named.items()}
    if all(found.values()):
        return found
    if sides.build:
        unknown = next(named[name] for name in named if not found[name])
        raise UsageError(f"{unknown} is no commit of this repository", "--build is for commits")
    return {}


def _require(words: Sequence[str]) -> None:
    if not words:
        raise UsageError(
            "no program follows that is to run in each folder",
            "as in: tare gate main branch --build make -- ./report words.txt",
        )


def _program(side: str, sides: _Sides) -> Program:
    folder = Path(side)
    settings: dict[str, Any] = {"stdin": sides.stdin, "ignore_output": sides.ignore_output}
    if not folder.is_dir():
        return program_from_command([side, *sides.words], **settings)
    if (folder / RUN_FILE).exists():
        raise UsageError(f"{side} is a results folder", "the other must be one, too")
    _require(sides.words)
    return replace(program_from_command(sides.words, **settings), directory=folder.resolve())
