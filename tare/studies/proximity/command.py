"""`tare proximity`: are events slower close to a collection, and is it the collection's doing?"""

from __future__ import annotations

import click

from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.proximity.question import proximity
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare proximity --event org.example.Search.query -- java -jar search.jar
  tare proximity -m jvm.serial --collections 100,1000 -e @org.example.Timed -- java -jar app.jar
  tare proximity -m 'marksweep(jemalloc, every=1MiB)' -- ./load-test   # includes tare/events.h
"""


def _numbers(_context: click.Context, _option: click.Parameter, text: str | None) -> list[int]:
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise click.BadParameter("give numbers like 10,100,1000")
    return [int(part) for part in parts]


@click.command(epilog=EPILOG)
@click.option(
    "-e",
    "--event",
    "events",
    multiple=True,
    metavar="METHOD",
    help="A method of a Java program each of whose calls is an event, like "
    "org.example.Search.query, or @org.example.Timed for all methods with an annotation; repeat "
    "it. Other programs tell their events themselves, by tare/events.h.",
)
@click.option(
    "-m",
    "--manager",
    "managers",
    multiple=True,
    metavar="M",
    help="A collector of a JVM, or marksweep(ALLOCATOR, every=1MiB) for other programs; repeat it. "
    "Default: jvm.serial and jvm.g1 with --event, marksweep(glibc) without.",
)
@click.option(
    "--collections",
    metavar="N,N…",
    callback=_numbers,
    help="Choose how often to collect, so that there are so many collections after the warm-up; "
    "each number is measured by itself, like 10,100,1000.",
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
    collections: list[int],
    runs: int,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """How long events of a program take, by how many came since the collection before.

    An event is a call of a method of a Java program, or what another program tells itself, like
    the requests of a server. Each is held against the median of those that do the same. The
    program runs a second time with pauses as long as the collections', to tell what a collection
    does from what any pause does.
    """
    results = proximity(
        program,
        events,
        managers,
        collections=collections,
        runs=runs,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output)
