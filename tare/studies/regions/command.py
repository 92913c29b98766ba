"""`tare regions`: what a program's regions are worth to it."""

from __future__ import annotations

import click

from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.regions import question
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare regions -- svnadmin dump -q repository
  tare regions -m glibc -m mimalloc -n 20 -- svnlook tree repository
  tare regions --no-drag -- ldbsearch -H directory.ldb
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.allocators_option
@click.option("-n", "--runs", default=10, show_default=True, help="Runs of each.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@click.option("--no-drag", is_flag=True, help="Do not look for what the regions hold in vain.")
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    runs: int,
    warmup: int,
    no_drag: bool,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Time and memory of PROGRAM with its regions, and with other things in their place.

    A program that allocates from APR's pools, talloc or glibc's obstacks runs unchanged, with their
    objects served by malloc one by one, by plain regions, or by reaps, which are regions whose
    objects can also be freed singly.
    """
    results = question.regions(
        program,
        managers,
        runs=runs,
        warmup=warmup,
        drag=not no_drag,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output)
