"""`tare count`: instructions of a program inside and outside its memory manager."""

from __future__ import annotations

from pathlib import Path

import click

from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.count import question
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare count -- gawk -f report.awk words.txt
  tare count -m glibc -m mimalloc -m ./libmine.so -- ./server --selftest
  tare count --sites -- ./server --selftest
  tare count --events parse.events -- ./server --selftest
  tare count --once -m jemalloc --json out.json -- perl job.pl
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.manager_options
@click.option(
    "--events",
    "events_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Count also what FILE names: places that are reached, and phases.",
)
@click.option(
    "--sites", is_flag=True, help="Tell the operations apart by the calls that led to them."
)
@click.option("--once", is_flag=True, help="One run under each manager: do not check repetition.")
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    baseline: str,
    events_file: Path | None,
    sites: bool,
    once: bool,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Instructions of PROGRAM inside and outside the memory manager, by operation.

    The program runs under Valgrind's core, 10 to 20 times slower than by itself, with the
    manager as it is: nothing is replaced. Each manager runs twice, to see whether the count repeats
    to the instruction.
    """
    results = question.count(
        program,
        managers,
        baseline=baseline,
        repeat=not once,
        events=events_file,
        sites=sites,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output)
