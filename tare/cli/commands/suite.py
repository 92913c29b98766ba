"""`tare suite`: a study over many programs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from tare.base.errors import UsageError
from tare.campaign.cluster import Cluster
from tare.observers import java_suites
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.programs.runnable import suite_programs
from tare.programs.suite import load_suite, missing, package_to_install, shipped_suites
from tare.records.results import default_folder
from tare.records.runs import Limits
from tare.studies import over_programs
from tare.studies.compare.question import compare
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher
from tare.weighing import java_bill

EPILOG = """\b
Examples:
  tare suite list
  tare suite run quick
  tare suite run papers -o papers-results      (type it again to resume)
  tare suite run my-programs.toml -m glibc -m mimalloc -n 20
  tare suite run quick --study count -m glibc -m jemalloc
  tare suite run quick --study count --sites -o counted      (then: tare report --open counted)
  tare suite run storage --study breakdown --model decstation-5000-200
  tare suite run dacapo --jar dacapo-23.11-chopin.jar -p fop -p h2
  tare suite run papers --scheduler tcp://head:8786 -o papers-results
"""
DEFAULT_ITERATIONS = 5
_OTHERS = over_programs()
COMPARE = "compare"
_TIMES_AS_LONG = 100
"""How much of a program's time limit, which is for a run by itself, a run that is watched has."""
_OF_COMPARE = ("runs", "warmup", "jar", "iterations", "scheduler")


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
    packages = {name for program in suite.programs for name in program.packages}
    print(" ".join(sorted(map(package_to_install, packages))))
    return 0


@command.command()
@click.argument("suite_name", metavar="NAME|FILE")
@click.option("-p", "--program", "only", multiple=True, metavar="P", help="Only this program.")
@click.option(
    "--study",
    type=click.Choice([COMPARE, *_OTHERS]),
    default=COMPARE,
    help="What to do with each program: the command of that name. Default: compare.",
)
@options.manager_options
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FILE",
    help="With --study breakdown or memsys: a memory system to simulate; repeat it.",
)
@click.option(
    "--sites",
    is_flag=True,
    help="With --study count: tell the operations apart by the calls that led to them.",
)
@click.option("-n", "--runs", default=6, show_default=True, help="Runs under each manager.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@click.option(
    "--jar",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Your jar of the suite dacapo or renaissance.",
)
@click.option(
    "--iterations",
    type=int,
    metavar="N",
    help="Iterations in each run, for a suite with --jar. Default: 5.",
)
@options.scheduler_option
@options.run_options
@options.output_options
def run(
    suite_name: str,
    only: tuple[str, ...],
    study: str,
    jar: Path | None,
    iterations: int | None,
    managers: tuple[str, ...],
    models: tuple[str, ...],
    sites: bool,
    baseline: str,
    runs: int,
    warmup: int,
    scheduler: str,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """Compare managers over all programs of a suite, or do another study of each.

    Programs whose packages are not installed are skipped and named. A folder given with -o is
    resumed where it was interrupted.
    """
    given = {name: value for name, value in (("models", models), ("sites", sites)) if value}
    for name in given:
        takers = {each: it.options[name] for each, it in _OTHERS.items() if name in it.options}
        if study not in takers:
            raise UsageError(
                f"{next(iter(takers.values()))} is not for --study {study}",
                f"it is for {' and '.join(takers)}",
            )
    if study != COMPARE:
        _refuse_options_of_compare(study)
        other = _OTHERS[study]
        results = other.question(
            [_with_patience(program) for program in _of_suite(suite_name, only)],
            managers or other.managers,
            baseline=baseline,
            seed=seed,
            limits=limits,
            folder=output.folder or default_folder(study, _label(suite_name)),
            watcher=TerminalWatcher(output.quiet),
            **given,
        )
        return Answer(results, output)
    observe: Observe | None = None
    if suite_name in java_suites.HARNESSES or jar is not None or iterations is not None:
        programs, observe = _of_jar(suite_name, only, jar, iterations)
        if not managers and not baseline:
            managers = tuple(java_bill.default_managers(programs[0]))
    else:
        programs = _of_suite(suite_name, only)
    results = compare(
        programs,
        managers,
        baseline=baseline,
        runs=runs,
        warmup=warmup,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
        label=_label(suite_name),
        observe=observe,
        cluster=Cluster(scheduler, suite="" if observe else suite_name) if scheduler else None,
        canary=True,
    )
    return Answer(results, output)


def _label(suite_name: str) -> str:
    return f"suite-{Path(suite_name).stem}"


def _of_suite(suite_name: str, only: tuple[str, ...]) -> list[Program]:
    return suite_programs(suite_name, only, lambda line: print(line, file=sys.stderr, flush=True))


def _with_patience(program: Program) -> Program:
    if program.timeout_seconds is None:
        return program
    return replace(program, timeout_seconds=program.timeout_seconds * _TIMES_AS_LONG)


def _refuse_options_of_compare(study: str) -> None:
    context = click.get_current_context()
    for name in _OF_COMPARE:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"--{name} is not for --study {study}",
                f"leave it out, or measure time and memory: --study {COMPARE}",
            )


def _of_jar(
    suite_name: str, only: tuple[str, ...], jar: Path | None, iterations: int | None
) -> tuple[list[Program], Observe]:
    if suite_name not in java_suites.HARNESSES:
        raise UsageError(
            f"--jar and --iterations are not for the suite {suite_name}",
            f"they are for {' and '.join(java_suites.HARNESSES)}",
        )
    if jar is None:
        raise UsageError(f"{suite_name} does not come with Tare", "name your jar of it: --jar PATH")
    wanted = DEFAULT_ITERATIONS if iterations is None else iterations
    programs = java_suites.programs(suite_name, jar, only, wanted)
    return programs, java_suites.observe(suite_name)
