"""`tare lbo`: what collectors cost at least, by the size of the heap."""

from __future__ import annotations

from typing import Any

import click

from tare.base.errors import UsageError
from tare.heap_traces.schedule import How
from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.lbo.question import DEFAULT_HEAPS, lbo, lbo_replayed
from tare.studies.lbo.report import failed
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare lbo -- java -cp classes Main
  tare lbo -m jvm.g1 -m jvm.parallel --heaps 2,4 --least-heap 64MiB -- java -jar app.jar
  tare lbo -m immix -m genimmix -m glibc gawk.tare
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.option(
    "-m",
    "--manager",
    "managers",
    multiple=True,
    metavar="M",
    help="A collector, without heap=, or another manager; repeat it. Default: those of the JVM, "
    "or settings of Go, Node, CPython or OCaml for a program of these; of a trace, immix, "
    "genimmix, semispace and glibc.",
)
@options.heaps_option("the least heap; of a trace, of the most bytes alive", DEFAULT_HEAPS)
@click.option(
    "--least-heap",
    callback=options.size,
    metavar="SIZE",
    help="What heaps are multiples of. Default: the least heap of the runtime's collector "
    "that needs least, sought first.",
)
@click.option("-n", "--runs", default=6, show_default=True, help="Runs in each heap.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@options.replay_options("touch", "regions", "threads")
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    heaps: tuple[float, ...],
    least_heap: int | None,
    runs: int,
    warmup: int,
    how: How,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """The lower-bound overhead of collectors for PROGRAM, or for a recorded T.tare.

    Each collector runs in heaps of several sizes. The least cost of any run without its pauses is
    the distilled baseline, and what a collector costs beyond it is the least that it can be said to
    cost. A heap that is too small is an answer, and shown as such.
    """
    given: dict[str, Any] = {
        "heaps": heaps,
        "runs": runs,
        "warmup": warmup,
        "seed": seed,
        "limits": limits,
        "folder": output.folder,
        "watcher": TerminalWatcher(output.quiet),
    }
    trace = options.trace_of(program)
    if trace is not None:
        if least_heap is not None:
            raise UsageError("--least-heap is for a program that runs")
        results = lbo_replayed(trace, managers, how=how, **given)
    elif how != How():
        raise UsageError("--death, --process and --no-pointers are for a recorded T.tare")
    else:
        results = lbo(program, managers, least_heap=least_heap, **given)
    return Answer(results, output, exit_code=int(failed(results)))
