"""`tare trace`: the heap trace of one run of a program."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tare import api, options
from tare.measurement import Status
from tare.program import Program
from tare.progress import TerminalWatcher
from tare.report.terminal import print_report
from tare.report.terminal_text import printable
from tare.runner import Limits
from tare.tracing import Asked

EPILOG = """\b
Examples:
  tare trace -o gawk.tare --last-use -- gawk -f report.awk words.txt
  tare trace --last-use --reachability 64KiB -- ./server --selftest
  tare trace --pointers --no-sites -m mimalloc -- perl job.pl
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="T.tare",
    help="The folder of the trace, which must be new. Default: a new one in tare-results.",
)
@click.option("--force", is_flag=True, help="Replace a heap trace that is there.")
@click.option("--last-use", is_flag=True, help="Record the first and the last use of each object.")
@click.option("--pointers", is_flag=True, help="Record stores of pointers to objects.")
@options.reachability_option
@click.option("--no-sites", is_flag=True, help="Do not record call sites.")
@click.option(
    "-m",
    "--manager",
    metavar="M",
    default="glibc",
    help="The manager that serves the program. Default: glibc.",
)
@options.limit_options
@click.option("--quiet", is_flag=True, help="No progress, no summary.")
@options.program_argument
def command(
    program: Program,
    folder: Path | None,
    force: bool,
    last_use: bool,
    pointers: bool,
    reachability_bytes: int,
    no_sites: bool,
    manager: str,
    limits: Limits,
    quiet: bool,
) -> int:
    """Record every object of PROGRAM: birth, size, call site, free, and when it was used.

    The program runs once, under Valgrind's core, 10 to 30 times slower than by itself. The trace
    is a folder of Parquet files, which Tare, DuckDB, Polars and others read.
    """
    trace = api.trace(
        program,
        manager,
        what=Asked(last_use, not no_sites, pointers, reachability_bytes),
        replace=force,
        limits=limits,
        folder=folder,
        watcher=TerminalWatcher(quiet),
    )
    if not quiet:
        from tare.trace_summary import summary_report

        print_report(summary_report(trace), sys.stdout)
        print(f"\ntrace: {printable(str(trace.folder))}")
    if trace.meta["status"] != Status.OK:
        print(
            f"tare: {printable(program.name)}: {trace.meta['status']}: "
            f"{printable(trace.meta['reason'])}",
            file=sys.stderr,
        )
        return 1
    return 0
