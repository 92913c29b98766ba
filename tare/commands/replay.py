"""`tare replay`: the allocations of a recorded program under any manager."""

from __future__ import annotations

from pathlib import Path

import click

from tare import options
from tare.options import Output
from tare.presenting import present
from tare.progress import TerminalWatcher
from tare.replay import replay
from tare.runner import Limits
from tare.schedule import How

EPILOG = """\b
Examples:
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare replay -m glibc -m mimalloc -m 'delay(glibc, size=1MiB)' gawk.tare
  tare replay --regions-by site -m glibc -m 'regions(glibc, as=reap)' gawk.tare
  tare replay --death last-use -m glibc -m jemalloc used.tare
"""


@click.command(epilog=EPILOG)
@options.manager_options
@click.option("-n", "--runs", default=10, show_default=True, help="Runs under each manager.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@options.replay_options()
@options.run_options
@options.output_options
@options.trace_argument
def command(
    trace: Path,
    managers: tuple[str, ...],
    baseline: str,
    runs: int,
    warmup: int,
    how: How,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> int:
    """The allocations recorded in T.tare, done again under each manager.

    No program runs: the objects of the trace are allocated, touched and freed in their order. So
    all managers do the same work, and the time is theirs. Each replay ends with a digest of what
    then lies in memory, and one that differs from the baseline's counts as wrong output.
    """
    results = replay(
        trace,
        managers,
        baseline=baseline,
        how=how,
        runs=runs,
        warmup=warmup,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return present(results, output)
