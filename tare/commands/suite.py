"""`tare suite`: a study over many programs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tare import api, options
from tare.options import Output
from tare.presenting import present
from tare.progress import TerminalWatcher
from tare.runner import Limits
from tare.suite import load_suite, missing, shipped_suites

EPILOG = """\b
Examples:
  tare suite list
  tare suite run quick
  tare suite run papers -o papers-results      (type it again to resume)
  tare suite run my-programs.toml -m glibc -m mimalloc -n 20
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """Run a study over the programs of a suite, resumably."""


@command.command(name="list")
def list_suites() -> int:
    """Suites that come with Tare, and their programs."""
    for name in shipped_suites():
        suite = load_suite(name)
        print(f"{suite.name}: {suite.description}")
        for program in suite.programs:
            lack = missing(program)
            state = f"  (missing: {', '.join([*lack.packages, *lack.files])})" if lack else ""
            print(f"    {program.name:24} {program.description}{state}")
    return 0


@command.command()
@click.argument("suite_name", metavar="NAME|FILE")
def packages(suite_name: str) -> int:
    """Debian packages that the suite's programs need, on one line."""
    suite = load_suite(suite_name)
    print(" ".join(sorted({name for program in suite.programs for name in program.packages})))
    return 0


@command.command()
@click.argument("suite_name", metavar="NAME|FILE")
@click.option("-p", "--program", "only", multiple=True, metavar="P", help="Only this program.")
@options.manager_options
@click.option("-n", "--runs", default=6, show_default=True, help="Runs under each manager.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@options.run_options
@options.output_options
def run(
    suite_name: str,
    only: tuple[str, ...],
    managers: tuple[str, ...],
    baseline: str,
    runs: int,
    warmup: int,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> int:
    """Compare managers over all programs of a suite.

    Programs whose packages are not installed are skipped and named. A folder given with -o is
    resumed where it was interrupted.
    """
    programs = api.suite_programs(
        suite_name, only, lambda line: print(line, file=sys.stderr, flush=True)
    )
    results = api.compare(
        programs,
        managers,
        baseline=baseline,
        runs=runs,
        warmup=warmup,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
        label=f"suite-{Path(suite_name).stem}",
    )
    return present(results, output)
