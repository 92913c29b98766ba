"""`tare suite`: a study over many programs."""

from __future__ import annotations

import sys

import click

from tare import api, options
from tare.errors import MissingError
from tare.options import Output
from tare.presenting import present
from tare.program import Program
from tare.progress import TerminalWatcher
from tare.runner import Limits
from tare.suite import Suite, as_program, load_suite, missing, prepare, shipped_suites

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
    suite = load_suite(suite_name)
    programs = _ready_programs(suite, only, output.quiet)
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
        label=f"suite-{suite.name}",
    )
    return present(results, output)


def _ready_programs(suite: Suite, only: tuple[str, ...], quiet: bool) -> list[Program]:
    """The programs that can run here, their inputs made; the others are named on stderr."""
    names = {program.name for program in suite.programs}
    if unknown := sorted(set(only) - names):
        raise click.BadParameter(f"{suite.name} has no program {', '.join(unknown)}")
    ready = []
    needed: set[str] = set()
    for program in suite.programs:
        if only and program.name not in only:
            continue
        if lack := missing(program):
            needed.update(lack.packages)
            print(
                f"SKIPPED {program.name}: not installed: "
                f"{', '.join([*lack.packages, *lack.files])}",
                file=sys.stderr,
            )
            continue
        prepare(program, lambda line: None if quiet else print(line, file=sys.stderr))
        ready.append(as_program(program))
    mend = f"apt-get install {' '.join(sorted(needed))}" if needed else ""
    if needed:
        print(f"to run them too: {mend}", file=sys.stderr)
    if not ready:
        raise MissingError(f"no program of the suite {suite.name} can run here", mend)
    return ready
