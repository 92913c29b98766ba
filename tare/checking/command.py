"""`tare check`: whether programs keep the limits in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tare.checking.limits import is_broken, judged
from tare.checking.question import check
from tare.records.runs import Limits
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare check limits.toml
  tare check limits.toml --markdown $GITHUB_STEP_SUMMARY
  tare check limits.toml -p report -n 20 --strict
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("-p", "--program", "only", multiple=True, metavar="P", help="Only this program.")
@click.option("-n", "--runs", default=10, show_default=True, help="Runs for time and memory.")
@click.option("--warmup", default=1, show_default=True, help="Runs that are not counted.")
@click.option("--strict", is_flag=True, help="A limit that lies within the noise fails, too.")
@click.option(
    "--markdown",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write a table for a pull request ('-': stdout).",
)
@options.run_options
@options.output_options
def command(
    file: Path,
    only: tuple[str, ...],
    runs: int,
    warmup: int,
    strict: bool,
    markdown: Path | None,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Whether the programs of FILE keep their limits: exit code 1 when one is not kept.

    FILE is a suite whose programs have limits of time, memory, pauses, and of instructions and
    bytes that memory management costs. Only what has a limit is measured.
    """
    results = check(
        file,
        only,
        runs=runs,
        warmup=warmup,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    broken = is_broken(judged(results), strict=strict)
    return Answer(results, output, markdown, exit_code=1 if broken else None)
