"""`tare minheap`: the least heap in which each collector can do what a recorded program did."""

from __future__ import annotations

from pathlib import Path

import click

from tare import options
from tare.minheap import minheap
from tare.options import Output
from tare.presenting import present
from tare.progress import TerminalWatcher
from tare.runner import Limits
from tare.schedule import DEATHS, How
from tare.units import parse_size

EPILOG = """\b
Examples:
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare minheap gawk.tare
  tare minheap -m immix -m semispace -m 'marksweep(mimalloc, every=64KiB)' gawk.tare
"""


def _size(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    return None if text is None else parse_size(text)


@click.command(epilog=EPILOG)
@click.option(
    "-m",
    "--manager",
    "managers",
    multiple=True,
    metavar="M",
    help="A collector, without heap=, or another manager; repeat it. Default: eight "
    "collectors of MMTk; glibc, mimalloc and tcmalloc; and mark-sweep over the last two.",
)
@click.option(
    "--death",
    type=click.Choice(DEATHS),
    default="free",
    help="When an object loses its root: as the program freed it, when it was found unreachable, "
    "or right after its last use. Default: free.",
)
@click.option(
    "--step",
    callback=_size,
    metavar="SIZE",
    help="How narrow the interval is to be. Default: 1% of the most bytes alive, 16KiB at least.",
)
@click.option("--repeats", default=3, show_default=True, help="Trials at each end of the interval.")
@click.option("--process", type=int, help="Which of the trace. Default: that with most objects.")
@click.option("--no-pointers", is_flag=True, help="Do not replay recorded stores of pointers.")
@options.run_options
@options.output_options
@click.argument("trace", type=click.Path(path_type=Path), metavar="T.tare")
def command(
    trace: Path,
    managers: tuple[str, ...],
    death: str,
    step: int | None,
    repeats: int,
    process: int | None,
    no_pointers: bool,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> int:
    """The least heap in which each collector can do the allocations recorded in T.tare.

    The trace is replayed in heaps of fixed sizes, and the least one is found by bisection: an
    interval, with all its trials. Managers that take no limit are replayed once, for their peak.
    """
    results = minheap(
        trace,
        managers,
        how=How(death, process=process, pointers=not no_pointers),
        step=step,
        repeats=repeats,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return present(results, output)
