"""`tare frequency`: what collecting more or less often does to a program."""

from __future__ import annotations

from typing import Any

import click

from tare.base.errors import UsageError
from tare.heap_traces.schedule import How
from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.frequency import question
from tare.studies.frequency.executed import frequency_executed, serves
from tare.studies.frequency.replayed import frequency_replayed
from tare.studies.frequency.report import MOST_RECLAIM
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher
from tare.studykit.sweeps import MOST_VALUES, sizes_of

EPILOG = """\b
Examples:
  tare frequency -- gawk -f report.awk words.txt
  tare frequency -m mimalloc -m tcmalloc --every 1MiB,8MiB,32MiB -- perl job.pl
  tare frequency --every 8MiB --reclaim 1,2,4,8,16 -n 20 -- lua script.lua
  tare frequency -m immix -m semispace recorded.tare
  tare frequency -m jvm.serial --every 8MiB,32MiB --full 64MiB -- java -cp classes Main
"""


def _periods(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    return () if value is None else sizes_of(value)


def _numbers(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    if value is None:
        return ()
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not parts or len(parts) > MOST_VALUES or not all(part.isdecimal() for part in parts):
        raise UsageError(f"'{value}' is no list of numbers", "write it like 1,4,16")
    numbers = tuple(sorted({int(part) for part in parts}))
    if numbers[-1] > MOST_RECLAIM:
        raise UsageError(f"reclaiming at each {numbers[-1]}th collection", "give fewer")
    return numbers


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.option(
    "-m",
    "--manager",
    "managers",
    multiple=True,
    metavar="M",
    help="An allocator to put the collector over; for a trace, a collector; for a java command, "
    "jvm.serial or jvm.parallel. Repeat it. Default: glibc; for a trace, immix and genimmix.",
)
@click.option(
    "--every",
    "periods",
    callback=_periods,
    metavar="SIZE,SIZE…",
    help="Bytes allocated between two collections. Default: 256KiB,1MiB,4MiB,16MiB; for a trace "
    "8MiB,16MiB,32MiB,64MiB, or less where it allocates little; under a JVM 4MiB,8MiB,16MiB,32MiB.",
)
@click.option(
    "--full",
    callback=_periods,
    metavar="SIZE,SIZE…",
    help="Under a JVM: bytes allocated between two full collections, multiples of the others. "
    "Default: 64MiB; never always takes part.",
)
@click.option(
    "--reclaim",
    callback=_numbers,
    metavar="N,N…",
    help="Free at each Nth collection only, and trace at the others. Default: 1,4,16; 1 and 0, "
    "which never frees, always take part. For a trace: 1,4, and 1 always takes part.",
)
@click.option("-n", "--runs", default=12, show_default=True, help="Runs with each setting.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@options.replay_options("touch", "regions", "threads")
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    periods: tuple[int, ...],
    full: tuple[int, ...],
    reclaim: tuple[int, ...],
    runs: int,
    warmup: int,
    how: How,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """How PROGRAM, or a recorded T.tare, fares when a collector traces and reclaims more or less
    often.

    A conservative mark-sweep collector is put over each allocator, and the program's own frees have
    no effect. What is compared is mutator time: wall time without the collections. Traces that
    reclaim nothing are shown apart from reclamation. Runs that free nothing hold all that the
    program ever allocates: without --memory-limit, half of the machine's memory is the limit.

    A T.tare is replayed instead, under collectors of MMTk that know all pointers, in a heap so
    large that nothing but the period makes them collect it.

    Under jvm.serial or jvm.parallel the JVM's own collector does young and full collections at the
    periods given.
    """
    given: dict[str, Any] = {
        "periods": periods,
        "runs": runs,
        "warmup": warmup,
        "seed": seed,
        "limits": limits,
        "folder": output.folder,
        "watcher": TerminalWatcher(output.quiet),
    }
    trace = options.trace_of(program)
    executed = trace is None and serves(managers)
    if full and not executed:
        raise UsageError("--full is for a java command, with -m jvm.serial or jvm.parallel")
    if trace is not None:
        results = frequency_replayed(trace, managers, how=how, reclaim=reclaim, **given)
    elif how != How():
        raise UsageError("--death, --process and --no-pointers are for a recorded T.tare")
    elif executed:
        if reclaim:
            raise UsageError("--reclaim is for a mark-sweep collector over an allocator")
        results = frequency_executed(program, managers, full=full, **given)
    else:
        results = question.frequency(program, managers, reclaim=reclaim, **given)
    return Answer(results, output)
