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
from tare.schedule import DEATHS, REGIONS, TOUCHES, How

EPILOG = """\b
Examples:
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare replay -m glibc -m mimalloc -m 'delay(glibc, size=1MiB)' gawk.tare
  tare replay --regions-by site -m glibc -m 'regions(glibc, as=reap)' gawk.tare
  tare replay --death last-use -m glibc -m jemalloc used.tare
"""


@click.command(epilog=EPILOG)
@options.manager_options
@click.option(
    "--death",
    type=click.Choice(DEATHS),
    default="free",
    help="When objects are given back: as the program freed them, when they were found "
    "unreachable, or right after their last use. Default: free.",
)
@click.option(
    "--touch",
    type=click.Choice(TOUCHES),
    default="birth",
    help="What is touched of an object: all its lines at its birth, all at its first and its last "
    "use as recorded, or only its first line. Default: birth.",
)
@click.option(
    "--regions-by",
    "regions",
    type=click.Choice(REGIONS),
    default="trace",
    help="Under regions(M, as=…): whether objects have the regions that were recorded, or one for "
    "each call site. Default: trace.",
)
@click.option("--process", type=int, help="Which of the trace. Default: that with most objects.")
@click.option("--no-pointers", is_flag=True, help="Do not replay recorded stores of pointers.")
@click.option("-n", "--runs", default=10, show_default=True, help="Runs under each manager.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@options.run_options
@options.output_options
@click.argument("trace", type=click.Path(path_type=Path), metavar="T.tare")
def command(
    trace: Path,
    managers: tuple[str, ...],
    baseline: str,
    death: str,
    touch: str,
    regions: str,
    process: int | None,
    no_pointers: bool,
    runs: int,
    warmup: int,
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
        how=How(death, touch, process, pointers=not no_pointers, regions=regions),
        runs=runs,
        warmup=warmup,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return present(results, output)
