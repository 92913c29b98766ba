"""`tare tradeoff`: what a collector costs a recorded program in time, by the size of its heap."""

from __future__ import annotations

from pathlib import Path

import click

from tare.heap_traces.schedule import How
from tare.records.runs import Limits
from tare.studies.tradeoff.question import DEFAULT_HEAPS, tradeoff
from tare.studies.tradeoff.report import failed
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare tradeoff gawk.tare
  tare tradeoff -m immix -m genimmix -m glibc --heaps 1.5,2,3,4 gawk.tare
"""


@click.command(epilog=EPILOG)
@click.option(
    "-m",
    "--manager",
    "managers",
    multiple=True,
    metavar="M",
    help="A collector, without heap=, or another manager; repeat it. Default: the collectors of "
    "MMTk, glibc and mimalloc.",
)
@click.option(
    "--baseline",
    default="",
    metavar="M",
    help="The manager that others are held against; no collector. Default: glibc if it takes part.",
)
@options.heaps_option("the most bytes alive", DEFAULT_HEAPS)
@click.option("-n", "--runs", default=6, show_default=True, help="Runs in each heap.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@options.replay_options("regions", "threads")
@options.run_options
@options.output_options
@options.trace_argument
def command(
    trace: Path,
    managers: tuple[str, ...],
    baseline: str,
    heaps: tuple[float, ...],
    runs: int,
    warmup: int,
    how: How,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """What the allocations recorded in T.tare cost under each collector, by the size of its heap.

    The trace is replayed under each collector in heaps of several sizes, and under managers with
    malloc and free: how much time a collector takes for how much space, and from which heap on it
    costs no more than malloc and free.
    """
    results = tradeoff(
        trace,
        managers,
        heaps=heaps,
        baseline=baseline,
        how=how,
        runs=runs,
        warmup=warmup,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output, exit_code=int(failed(results)))
