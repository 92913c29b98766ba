"""`tare drag`: what a program holds in memory in vain, and which call sites are to blame."""

from __future__ import annotations

import click

from tare.base.errors import UsageError
from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.drag import question
from tare.studies.drag.observe import How
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

DEFAULT_MANAGERS = ("glibc",)

EPILOG = """\b
Examples:
  tare drag -- gawk -f report.awk words.txt
  tare drag --reachability 64KiB -o results -- ./server --selftest
  tare drag recorded.tare
  tare drag --scheduler tcp://head:8786 /shared/*.tare
  tare export -f dhat -o dhat.json recorded.tare
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.manager_options
@click.option(
    "--clock",
    type=click.Choice(["bytes", "instructions"]),
    default="bytes",
    help="What time is measured in: bytes allocated, or instructions. Default: bytes.",
)
@options.reachability_option
@click.option("--discard-trace", is_flag=True, help="Do not keep the heap trace.")
@options.scheduler_option
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    baseline: str,
    clock: str,
    reachability_bytes: int,
    discard_trace: bool,
    scheduler: str,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """What PROGRAM, or recorded traces T.tare…, hold in memory in vain: lag, drag and void.

    PROGRAM is recorded under Valgrind's core, 10 to 30 times slower than by itself, under glibc
    unless -m names others. The trace is kept in the results folder.
    """
    traces = options.traces_of(program)
    if not traces:
        if scheduler:
            raise UsageError("--scheduler is for traces", "record with tare trace first")
        results = question.drag(
            program,
            managers or DEFAULT_MANAGERS,
            baseline=baseline,
            how=How(clock, reachability_bytes, discard_trace),
            seed=seed,
            limits=limits,
            folder=output.folder,
            watcher=TerminalWatcher(output.quiet),
        )
    else:
        if managers or baseline or reachability_bytes or discard_trace or program.stdin:
            raise UsageError(
                f"{traces[0]} is recorded: its program does not run again",
                "leave out what is for a run: -m, --baseline, --reachability, --discard-trace, -i",
            )
        watcher = TerminalWatcher(output.quiet)
        if len(traces) == 1 and not scheduler:
            results = question.drag_of_trace(
                traces[0], clock=clock, folder=output.folder, watcher=watcher
            )
        else:
            results = question.drag_of_traces(
                traces, clock=clock, scheduler=scheduler, folder=output.folder, watcher=watcher
            )
    return Answer(results, output)
