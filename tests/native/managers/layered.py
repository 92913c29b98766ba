"""C source text under a layer over each allocator, for the tests of the layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tare.memory_managers.catalogue import load_recipes, object_path
from tare.memory_managers.manager import OWN, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

Compile = Callable[..., Path]
INNERS = [
    recipe.name
    for recipe in load_recipes().values()
    if recipe.kind == "system" or (recipe.kind == "malloc" and object_path(recipe) is not None)
]


def output_alone(program: Program, folder: Path, known: dict[str, str | None]) -> str | None:
    """The digest of what a program prints under its own allocator. It runs once for all tests that
    have the same ``known``, where its name stands for what it does."""
    if program.name not in known:
        outcome = run_once(program, resolve(OWN), Limits(), folder)
        assert outcome.status is Status.OK, (program.name, outcome.reason, outcome.error_tail)
        known[program.name] = outcome.output_sha256
    return known[program.name]


def source_runner(
    folder: Path, compile_c: Compile, prelude: str, always: Sequence[str]
) -> Callable[..., Outcome]:
    """A function that runs source text, after the prelude, under a manager."""

    def run(
        source: str,
        manager: str,
        *arguments: str,
        flags: Sequence[str] = (),
        seconds: float | None = None,
    ) -> Outcome:
        path = compile_c(prelude + source, *always, *flags)
        program = Program("t", (str(path), *arguments))
        return run_once(program, resolve(manager), Limits(timeout_seconds=seconds), folder)

    return run
