"""`tare minheap`: the least heap in which each collector can do what a program does or did."""

from __future__ import annotations

from typing import Any

import click

from tare.base.errors import UsageError
from tare.heap_traces.schedule import How
from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.minheap.question import minheap
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.least_heap.executed import SLOW, minheap_executed
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare minheap gawk.tare
  tare minheap -m immix -m semispace -m 'marksweep(mimalloc, every=64KiB)' gawk.tare
  tare minheap -m jvm.serial -m jvm.g1 -- java -cp classes Main
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.option(
    "-m",
    "--manager",
    "managers",
    multiple=True,
    metavar="M",
    help="A collector, without heap=, or, of a trace, another manager; repeat it. Default: five "
    "collectors of the JVM, or go.limit or node.v8 for a program of these; of a trace, eight "
    "collectors of MMTk; glibc, mimalloc and tcmalloc; and mark-sweep over the last two.",
)
@click.option(
    "--step",
    callback=options.size,
    metavar="SIZE",
    help="How narrow the interval is to be. Default: 1MiB; of a trace, 1% of the most bytes "
    "alive, 16KiB at least.",
)
@click.option("--repeats", default=3, show_default=True, help="Trials at each end of the interval.")
@click.option(
    "--slow",
    type=float,
    metavar="TIMES",
    help="A program that takes so many times the processor time of a large heap does not fit. "
    f"Default: {SLOW:g}.",
)
@options.replay_options("touch", "regions", "threads")
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    step: int | None,
    repeats: int,
    slow: float | None,
    how: How,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """The least heap in which each collector of its runtime can run PROGRAM, or in which each
    collector can do the allocations recorded in T.tare.

    The program runs, or the trace is replayed, in heaps of fixed sizes, and the least one is found
    by bisection: an interval, with all its trials. For a trace, managers that take no limit are
    replayed once, for their peak.
    """
    given: dict[str, Any] = {
        "step": step,
        "repeats": repeats,
        "seed": seed,
        "limits": limits,
        "folder": output.folder,
        "watcher": TerminalWatcher(output.quiet),
    }
    trace = options.trace_of(program)
    if trace is not None:
        if slow is not None:
            raise UsageError("--slow is for a program that runs")
        results = minheap(trace, managers, how=how, **given)
    elif how != How():
        raise UsageError("--death, --process and --no-pointers are for a recorded T.tare")
    else:
        results = minheap_executed(program, managers, slow=slow or SLOW, **given)
    return Answer(results, output)
