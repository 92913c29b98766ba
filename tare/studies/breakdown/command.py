"""`tare breakdown`: what storage management takes of a program's instructions, by component."""

from __future__ import annotations

import click

from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.breakdown import question
from tare.studies.breakdown.memory import DEFAULT_MODEL
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare breakdown -- menhir --stdlib /usr/share/menhir grammar.mly
  tare breakdown --json out.json -- ocamllex.opt -o lexer.ml lexer.mll
  tare breakdown -m glibc -m mimalloc -- ./server --selftest
  tare breakdown --memory -- ocamllex.opt -o lexer.ml lexer.mll
  tare breakdown --model host --model decstation-5000-200 -- menhir grammar.mly
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.manager_options
@click.option(
    "--runtime",
    default="",
    metavar="NAME",
    help="The descriptor to go by. Default: that of the runtime in the executable, or malloc.",
)
@click.option(
    "--memory",
    is_flag=True,
    help="Simulate the memory system, too: that of a DECstation 5000/200, unless --model names "
    "another.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FILE",
    help="A memory system to simulate; repeat it. A path needs a slash; host is this machine's.",
)
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    runtime: str,
    memory: bool,
    models: tuple[str, ...],
    baseline: str,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """What storage management takes of the instructions of PROGRAM, by component.

    Allocation, checks, header words, integer tags, the write barrier and the parts of collections
    of an OCaml or Haskell program; malloc, free and realloc of any other. The executable is used as
    it is. The program runs once under Valgrind's core, 10 to 30 times slower than by itself; with
    --memory 20 to 100 times.
    """
    results = question.breakdown(
        program,
        managers,
        runtime=runtime,
        models=models or ((DEFAULT_MODEL,) if memory else ()),
        baseline=baseline,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output)
