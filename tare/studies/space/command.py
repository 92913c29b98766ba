"""`tare space`: where a program's resident memory goes, under each manager."""

from __future__ import annotations

import click

from tare.base.errors import UsageError
from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studies.space import question
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare space -- gawk -f report.awk words.txt
  tare space -m glibc -m 'delay(glibc, size=1MiB)' -- perl job.pl
  tare space --keep-trace -o results -- ./server --selftest
  tare space --scheduler tcp://head:8786 /shared/*.tare
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.manager_options
@click.option("--keep-trace", is_flag=True, help="Keep the heap traces in the results folder.")
@options.scheduler_option
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    baseline: str,
    keep_trace: bool,
    scheduler: str,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Where the memory of PROGRAM goes: what its resident pages are for, at the peak and over time.

    PROGRAM runs once under each manager with the recorder before it, near its own speed. Traces
    T.tare… that --keep-trace kept are analysed again, and nothing is run.
    """
    traces = options.traces_of(program)
    if traces:
        if managers or baseline or keep_trace:
            raise UsageError(
                f"{traces[0]} is recorded: its program does not run again",
                "leave out what is for a run: -m, --baseline, --keep-trace",
            )
        results = question.space_of_traces(
            traces,
            scheduler=scheduler,
            folder=output.folder,
            watcher=TerminalWatcher(output.quiet),
        )
        return Answer(results, output)
    if scheduler:
        raise UsageError("--scheduler is for traces", "record with tare space --keep-trace first")
    results = question.space(
        program,
        managers,
        baseline=baseline,
        keep_trace=keep_trace,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output)
