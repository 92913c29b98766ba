"""`tare suite`: a study over many programs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tare.base.errors import UsageError
from tare.campaign.cluster import Cluster
from tare.cli.request import COMPARE, OTHERS, SERVE, RunSuite
from tare.observers import java_suites
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.programs.runnable import suite_programs
from tare.programs.suite import load_suite, missing, package_to_install, shipped_suites
from tare.records.results import Results
from tare.studies.compare.question import compare
from tare.studykit.answer import Answer, Output
from tare.studykit.command import asking
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
_TIMES_AS_LONG = 100
"""How much of a program's time limit, which is for a run by itself, a run that is watched has."""
_OF_COMPARE = ("runs", "warmup", "jar", "iterations", "scheduler")


@click.group(epilog=EPILOG)
def command() -> None:
    """Run a study over the programs of a suite; interrupted studies can be resumed."""


@command.command(name="list")
def list_suites() -> int:
    """List the suites that come with Tare, and their programs."""
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
    """Print the Debian packages that the suite's programs need, on one line."""
    suite = load_suite(suite_name)
    packages = {name for program in suite.programs for name in program.packages}
    print(" ".join(sorted(map(package_to_install, packages))))
    return 0


@asking([RunSuite])
def run(request: RunSuite, output: Output) -> Answer:
    request = _of_services(request)
    given = _given_to_others(request)
    if request.study == COMPARE:
        return Answer(_compared(request), output)
    _refuse_options_of_compare(request.study)
    other = OTHERS[request.study]
    programs = [_with_patience(program) for program in _of_suite(request)]
    results = other.question(
        programs,
        request.managers or other.managers,
        baseline=request.baseline,
        seed=request.seed,
        limits=request.limits,
        folder=request.folder_or_new(request.study, _label(request)),
        watcher=request.watcher,
        **given,
    )
    return Answer(results, output)


command.add_command(run, "run")


def _of_services(request: RunSuite) -> RunSuite:
    """A suite of servers is for the study that puts them under load, and for no other."""
    if request.suite in java_suites.HARNESSES:
        return request
    suite = load_suite(request.suite)
    are = {program.name: program.service is not None for program in suite.programs}
    chosen = {are[name] for name in request.only or are if name in are}
    if True not in chosen:
        return request
    if False in chosen or request.study not in (COMPARE, SERVE):
        raise UsageError(
            f"the suite {suite.name} has servers, which only --study {SERVE} puts under load",
            "choose programs with -p, or leave --study out",
        )
    return replace(request, study=SERVE)


def _given_to_others(request: RunSuite) -> dict[str, Any]:
    """What only some studies take. UsageError where the one asked for does not."""
    pairs = (("models", request.models), ("sites", request.sites))
    given: dict[str, Any] = {name: value for name, value in pairs if value}
    for name in given:
        takers = {each: it.options[name] for each, it in OTHERS.items() if name in it.options}
        if request.study not in takers:
            raise UsageError(
                f"{next(iter(takers.values()))} does not apply to --study {request.study}",
                f"it applies to {' and '.join(takers)}",
            )
    if request.study in OTHERS and "runs" in OTHERS[request.study].options and _is_given("runs"):
        given["runs"] = request.runs
    return given


def _compared(request: RunSuite) -> Results:
    observe: Observe | None = None
    managers = request.managers
    named = request.suite in java_suites.HARNESSES
    if named or request.jar is not None or request.iterations is not None:
        programs, observe = _of_jar(request)
        if not managers and not request.baseline:
            managers = java_bill.default_managers(programs[0])
    else:
        programs = _of_suite(request)
    suite = "" if observe else request.suite
    return compare(
        programs,
        managers,
        baseline=request.baseline,
        runs=request.runs,
        warmup=request.warmup,
        seed=request.seed,
        limits=request.limits,
        folder=request.folder,
        watcher=request.watcher,
        label=_label(request),
        observe=observe,
        cluster=Cluster(request.scheduler, suite=suite) if request.scheduler else None,
        canary=True,
    )


def _label(request: RunSuite) -> str:
    return f"suite-{Path(request.suite).stem}"


def _of_suite(request: RunSuite) -> list[Program]:
    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return suite_programs(request.suite, request.only, tell)


def _with_patience(program: Program) -> Program:
    if program.timeout_seconds is None:
        return program
    return replace(program, timeout_seconds=program.timeout_seconds * _TIMES_AS_LONG)


def _refuse_options_of_compare(study: str) -> None:
    for name in _OF_COMPARE:
        if name not in OTHERS[study].options and _is_given(name):
            raise UsageError(
                f"--{name} does not apply to --study {study}",
                f"leave it out, or measure time and memory: --study {COMPARE}",
            )


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _of_jar(request: RunSuite) -> tuple[list[Program], Observe]:
    if request.suite not in java_suites.HARNESSES:
        raise UsageError(
            f"--jar and --iterations do not apply to the suite {request.suite}",
            f"they apply to {' and '.join(java_suites.HARNESSES)}",
        )
    if request.jar is None:
        raise UsageError(
            f"{request.suite} does not come with Tare", "give the path of your copy: --jar PATH"
        )
    wanted = DEFAULT_ITERATIONS if request.iterations is None else request.iterations
    programs = java_suites.programs(request.suite, request.jar, request.only, wanted)
    return programs, java_suites.observe(request.suite)
