"""`tare trace`: the heap trace of one run of a program."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from tare.base.errors import UsageError
from tare.base.text import printable
from tare.base.units import parse_size
from tare.campaign import recording
from tare.observers.asked import Asked
from tare.observers.jvm_trace import DEFAULT_PERIOD
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tare.report.terminal import print_report
from tare.studykit import options
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare trace -o server.tare -- ./server --selftest
  tare trace --sample 512KiB -- ./server --selftest
  tare trace --paused -- ./server        (and then: kill -USR2 PID)
  tare trace -o gawk.tare --last-use -- gawk -f report.awk words.txt
  tare trace --last-use --reachability 64KiB -- sqlite3 my.db .dump
  tare trace --pointers --no-sites -m mimalloc -- perl job.pl
  tare trace --jvm --pointers -- java -cp classes Main
"""
_LARGEST_SAMPLE = 1 << 40


def _sample_interval(_context: click.Context, _option: click.Parameter, text: str | None) -> int:
    if text is None:
        return 0
    size = parse_size(text)
    if not 1 <= size <= _LARGEST_SAMPLE:
        raise UsageError(f"a sample in {text} cannot be", "give 512KiB, say")
    return size


def _signal_number(_context: click.Context, _option: click.Parameter, text: str | None) -> int:
    if text is None:
        return 0
    name = text.upper().removeprefix("SIG")
    try:
        return signal.Signals[f"SIG{name}"]
    except KeyError:
        raise UsageError(f"there is no signal {text}", "give USR2, say") from None


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
@click.option(
    "--last-use",
    is_flag=True,
    help="Record the first and the last use of each object, and how far it was touched.",
)
@click.option("--pointers", is_flag=True, help="Record stores of pointers to objects.")
@click.option(
    "--reachability",
    "reachability_bytes",
    metavar="SIZE",
    callback=lambda _context, _parameter, text: options.mark_interval(text) if text else 0,
    help="Find unreachable objects, each time so much has been allocated.",
)
@click.option(
    "--sample",
    "sample_bytes",
    metavar="SIZE",
    callback=_sample_interval,
    help="Record a sample: one byte in so many, on average, and the object that it is in.",
)
@click.option(
    "--paused",
    is_flag=True,
    help="Record nothing until a signal, USR2 unless --signal names another, or --control says so.",
)
@click.option(
    "--signal",
    "signal_number",
    metavar="NAME",
    callback=_signal_number,
    help="Turn recording on and off by this signal to the program.",
)
@click.option(
    "--control",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Turn recording on and off by the words on and off, written to FILE, a pipe that is made.",
)
@click.option(
    "--jvm",
    is_flag=True,
    help="Record the heap of a Java program, and not its malloc. Deaths are found by collections, "
    "one each 4MiB unless --reachability says otherwise.",
)
@click.option(
    "--last-seen",
    is_flag=True,
    help="With --jvm --pointers: let objects die when a store or a collection last showed them.",
)
@click.option("--no-sites", is_flag=True, help="Do not record call sites.")
@click.option(
    "-m",
    "--manager",
    metavar="M",
    default="glibc",
    help="The manager that serves the program. Default: glibc.",
)
@options.limit_options
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
@options.program_argument
def command(
    program: Program,
    folder: Path | None,
    force: bool,
    last_use: bool,
    pointers: bool,
    reachability_bytes: int,
    sample_bytes: int,
    paused: bool,
    signal_number: int,
    control: Path | None,
    jvm: bool,
    last_seen: bool,
    no_sites: bool,
    manager: str,
    limits: Limits,
    quiet: bool,
) -> int:
    """Record every object of PROGRAM: birth, size, call site, free, and when it was used.

    The program runs once, with a recorder preloaded, at nearly its own speed; with --last-use,
    --pointers or --reachability under Valgrind's core, 10 to 30 times slower. The trace is a folder
    of Parquet files, which Tare, DuckDB, Polars and others read.
    """
    if signal_number in (signal.SIGKILL, signal.SIGSTOP):
        raise UsageError("no program can handle the signals KILL and STOP", "give USR2, say")
    if paused and signal_number == 0 and control is None:
        signal_number = signal.SIGUSR2
    if jvm and reachability_bytes == 0:
        reachability_bytes = DEFAULT_PERIOD
    what = Asked(
        last_use,
        not no_sites,
        pointers,
        reachability_bytes,
        sample_bytes,
        paused,
        signal_number,
        control,
        jvm,
        last_seen,
    )
    trace = recording.trace(
        program,
        manager,
        what=what,
        replace=force,
        limits=limits,
        folder=folder,
        watcher=TerminalWatcher(quiet),
    )
    if not quiet:
        from tare.report.trace_summary import summary_report

        print_report(summary_report(trace), sys.stdout)
        print(f"\ntrace: {printable(str(trace.folder))}")
        if not (what.last_use or jvm):
            print("tare drag asks for last uses: record with --last-use for it")
    if trace.meta["status"] != Status.OK:
        print(
            f"tare: {printable(program.name)}: {trace.meta['status']}: "
            f"{printable(trace.meta['reason'])}",
            file=sys.stderr,
        )
        return 1
    return 0
