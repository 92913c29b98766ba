"""`tare proximity`: are events slower close to a collection, and is it the collection's doing?"""

from __future__ import annotations

import click

from tare import options
from tare.options import Output
from tare.presenting import present
from tare.program import Program
from tare.progress import TerminalWatcher
from tare.runner import Limits

EPILOG = """\b
Examples:
  tare proximity --event org.example.Search.query -- java -jar search.jar
  tare proximity -m 'jvm.serial(period=16MiB)' --event @org.example.Timed -- java -jar app.jar
"""


@click.command(epilog=EPILOG)
@click.option(
    "-e",
    "--event",
    "events",
    multiple=True,
    required=True,
    metavar="METHOD",
    help="A method each of whose calls is an event, like org.example.Search.query, or "
    "@org.example.Timed for all methods with an annotation; repeat it.",
)
@click.option(
    "-m",
    "--manager",
    "managers",
    multiple=True,
    metavar="M",
    help="A collector of a JVM, see tare managers; repeat it. Default: jvm.serial and jvm.g1.",
)
@click.option(
    "-n", "--runs", default=3, show_default=True, help="Pairs of runs for each collector."
)
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    events: tuple[str, ...],
    managers: tuple[str, ...],
    runs: int,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> int:
    """How long events of a Java program take, by how many came since the collection before.

    An event is a call of a method. Each is held against the median of those that do the same. The
    program runs a second time with pauses as long as the collections', to tell what a collection
    does from what any pause does.
    """
    from tare.proximity import proximity

    results = proximity(
        program,
        events,
        managers,
        runs=runs,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return present(results, output)
