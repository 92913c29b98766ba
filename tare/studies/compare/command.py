"""`tare compare`: time and memory of a program under each manager."""

from __future__ import annotations

import click

from tare.campaign.cluster import Cluster
from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.compare import question
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare compare -- gawk -f report.awk words.txt
  tare compare -m glibc -m mimalloc -m ./libmine.so -n 20 -- ./server --selftest
  tare compare -m jemalloc -m 'bdwgc(free=honoured)' -i input.sql -- sqlite3 my.db
  tare compare --precision 1% --json out.json -- perl job.pl
"""


def _fraction(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> float | None:
    if value is None:
        return None
    try:
        number = float(value.removesuffix("%"))
    except ValueError:
        raise click.BadParameter("write it like 1% or 0.01") from None
    return number / 100 if value.endswith("%") else number


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.manager_options
@click.option("-n", "--runs", default=10, show_default=True, help="Runs under each manager.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@click.option(
    "--precision",
    callback=_fraction,
    metavar="1%",
    help="Measure on until the interval of each ratio of wall times is so narrow.",
)
@click.option("--most-runs", default=100, show_default=True, help="The cap for --precision.")
@options.scheduler_option
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    baseline: str,
    runs: int,
    warmup: int,
    precision: float | None,
    most_runs: int,
    scheduler: str,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Time and memory of PROGRAM under each manager, compared with intervals.

    The managers take turns in a random order. A figure counts only when the running process showed
    that the manager served its memory, and when its output is the same as under the baseline.
    """
    results = question.compare(
        program,
        managers,
        baseline=baseline,
        runs=runs,
        warmup=warmup,
        seed=seed,
        precision=precision,
        most_runs=most_runs,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
        cluster=Cluster(scheduler) if scheduler else None,
    )
    return Answer(results, output)
