"""`tare delay`: what it does to a program when its frees are held back and done in bulk."""

from __future__ import annotations

import click

from tare.memory_managers.layers import delay as layer
from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.delay import question
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher
from tare.studykit.sweeps import sizes_of

EPILOG = """\b
Examples:
  tare delay -- gawk -f report.awk words.txt
  tare delay -m mimalloc --sizes 64KiB,1MiB,16MiB -n 20 -- perl job.pl
  tare delay -m tcmalloc --scope global --buffer 2MiB -- ./server --selftest
"""


def _sizes(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    return () if value is None else sizes_of(value)


def _choice(name: str) -> click.Choice[str]:
    (found,) = (option for option in layer.RECIPE.options if option.name == name)
    return click.Choice(list(found.choices))


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.allocators_option
@click.option(
    "--sizes",
    callback=_sizes,
    metavar="SIZE,SIZE…",
    help="Bytes to hold back. Default: 1B,4KiB,64KiB,512KiB,1MiB,2MiB; 1B always takes part.",
)
@click.option(
    "--scope",
    type=_choice("scope"),
    default="thread",
    help="Whose bytes count: each thread's own, or all together. Default: thread.",
)
@click.option(
    "--buffer",
    type=_choice("buffer"),
    default="grow",
    help="A thread's list of objects: as long as needed, or so many bytes. Default: grow.",
)
@click.option(
    "--order",
    type=_choice("order"),
    default="fifo",
    help="Which object is released first: the oldest or the youngest. Default: fifo.",
)
@click.option("-n", "--runs", default=10, show_default=True, help="Runs with each size.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@click.option("--no-live", is_flag=True, help="Do not count how much memory lives in the program.")
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    sizes: tuple[int, ...],
    scope: str,
    buffer: str,
    order: str,
    runs: int,
    warmup: int,
    no_live: bool,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Time, memory and pauses of PROGRAM when its frees are held back and done in bulk.

    A collector gives memory back late. `tare delay` holds back the frees of a program that was
    written for malloc, by several amounts, under each manager, and compares each with no delay. It
    also shows what the layer itself costs that holds them back.
    """
    results = question.delay(
        program,
        managers,
        sizes=sizes,
        scope=scope,
        buffer=buffer,
        order=order,
        runs=runs,
        warmup=warmup,
        live=not no_live,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output)
