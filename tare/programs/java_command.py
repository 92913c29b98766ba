"""The options of a program that is a `java …` command, or that starts one: read and added to."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tare.programs.program import Program

VARIABLE = "JDK_JAVA_OPTIONS"
"""Holds options for every `java` command (of Java 9 and later) below a process."""
_VARIABLES = (VARIABLE, "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_MOST_OF_A_FILE = 1 << 16
_TAKE_A_WORD = frozenset(
    "-cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules "
    "--limit-modules --add-reads --add-exports --add-opens --source --enable-native-access "
    "--patch-module -d --describe-module".split()
)
_ENDS_OPTIONS = frozenset({"-jar", "-m", "--module"})


def is_java(program: Program) -> bool:
    """Whether the command itself is a JVM's launcher."""
    return Path(program.argv[0]).name == "java"


def options_of(program: Program) -> list[str]:
    """The options that the JVMs of the program get anyway, as far as its command and environment
    tell."""
    environment = {**os.environ, **program.environment}
    words = [word for name in _VARIABLES for word in _split(environment.get(name, ""))]
    if is_java(program):
        words += _before_the_program(program.argv[1:], program.directory or Path.cwd())
    return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote without its end; the JVM will complain of it
        return text.split()


def _before_the_program(words: Sequence[str], folder: Path) -> Iterator[str]:
    """The options among ``words``; those after the class, the module or the jar are its own."""
    rest = iter(words)
    for word in rest:
        if word.startswith("@") and not word.startswith("@@"):
            yield from _options_in_file(folder / word[1:])
        elif word in _ENDS_OPTIONS or not word.startswith("-"):
            return
        else:
            yield word
            if word in _TAKE_A_WORD:
                next(rest, None)


def without(program: Program, unwanted: Callable[[str], bool]) -> Program:
    """The program without the options of its command and of the variables that JVMs read which are
    ``unwanted``. Those in files that the command names with @ stay."""
    environment = {**os.environ, **program.environment}
    changed = {}
    for name in _VARIABLES:
        words = _split(environment.get(name, ""))
        kept = [word for word in words if not unwanted(word)]
        if len(kept) < len(words):
            changed[name] = " ".join(map(_quoted, kept))
    argv = program.argv
    if is_java(program):
        argv = (argv[0], *_wanted(argv[1:], unwanted))
    return replace(program, argv=argv, environment={**program.environment, **changed})


def _wanted(words: Sequence[str], unwanted: Callable[[str], bool]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _ENDS_OPTIONS or not word.startswith(("-", "@")):
            yield word
            yield from rest
        elif not unwanted(word):
            yield word
            if word in _TAKE_A_WORD:
                yield from itertools.islice(rest, 1)


def _options_in_file(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return _split(file.read(_MOST_OF_A_FILE).decode(errors="replace"))
    except OSError:
        return []


def with_options(program: Program, options: Sequence[str]) -> Program:
    """The program with options for its JVM: behind the `java` of its command, or in the variable
    that every `java` reads where the command is something else."""
    if is_java(program):
        return replace(program, argv=(program.argv[0], *options, *program.argv[1:]))
    before = program.environment.get(VARIABLE, os.environ.get(VARIABLE, ""))
    value = " ".join([*([before] if before else []), *map(_quoted, options)])
    return replace(program, environment={**program.environment, VARIABLE: value})


def _quoted(word: str) -> str:
    """As the launcher of Java reads it: it knows quotes, and no escapes."""
    if not re.search(r"[\s\"']", word):
        return word
    return f"'{word}'" if '"' in word else f'"{word}"'
