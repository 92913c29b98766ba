"""`tare memsys`: misses and stall cycles of a program and its manager, simulated."""

from __future__ import annotations

import click

from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.memsys import question
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare memsys -- gawk -f report.awk words.txt
  tare memsys -m glibc -m mimalloc --curves -- ./server --selftest
  tare memsys --model host --model decstation-5000-200 -- perl job.pl
  tare memsys --model ./mine.toml -- ./program
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.manager_options
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FILE",
    help="A memory system; repeat it. A path needs a slash. Default: host, this machine's caches.",
)
@click.option("--curves", is_flag=True, help="Find the misses of caches of all sizes, too.")
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    models: tuple[str, ...],
    curves: bool,
    baseline: str,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Misses and stall cycles of PROGRAM in simulated memory systems, in and outside the manager.

    The program runs under Valgrind's core, 10 to 40 times slower than by itself, once under each
    manager; with --curves several times slower still.
    """
    results = question.memsys(
        program,
        managers,
        models=models,
        curves=curves,
        baseline=baseline,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output)
