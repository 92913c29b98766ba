"""`tare count`: instructions of a program inside and outside its memory manager."""

from __future__ import annotations

from pathlib import Path

import click

from tare import api, options
from tare.presenting import present
from tare.program import program_from_command
from tare.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare count -- gawk -f report.awk words.txt
  tare count -m glibc -m mimalloc -m ./libmine.so -- ./server --selftest
  tare count --once -m jemalloc --json out.json -- perl job.pl
"""


@click.command(epilog=EPILOG)
@options.manager_options
@click.option("--once", is_flag=True, help="One run under each manager: do not check repetition.")
@options.run_options
@options.program_options
@options.output_options
@options.program_argument
def command(
    program: tuple[str, ...],
    managers: tuple[str, ...],
    baseline: str,
    once: bool,
    seed: int | None,
    timeout: float | None,
    memory_limit: int | None,
    output_limit: int,
    stdin: Path | None,
    ignore_output: bool,
    folder: Path | None,
    json_file: Path | None,
    csv_file: Path | None,
    no_page: bool,
    quiet: bool,
) -> int:
    """Instructions of PROGRAM inside and outside the memory manager, by operation.

    The program runs under Valgrind's core, 10 to 20 times slower than by itself, with the
    manager as it is: nothing is replaced. Each manager runs twice, to see whether the count repeats
    to the instruction.
    """
    results = api.count(
        program_from_command(program, stdin=stdin, ignore_output=ignore_output),
        managers,
        baseline=baseline,
        repeat=not once,
        seed=seed,
        limits=options.limits(timeout, memory_limit, output_limit),
        folder=folder,
        watcher=TerminalWatcher(quiet),
    )
    return present(results, json_file=json_file, csv_file=csv_file, no_page=no_page, quiet=quiet)
