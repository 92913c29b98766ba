"""Options that several commands share, so that each means and does the same everywhere.

Each decorator adds options to a command and hands them on packed into one argument.
"""

from __future__ import annotations

import functools
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tare.base.errors import UsageError
from tare.base.units import parse_size
from tare.heap_traces.schedule import DEATHS, REGIONS, TOUCHES, How
from tare.heap_traces.trace import META_FILE
from tare.programs.program import Program, program_from_command
from tare.records.conditions import AS_IS, HUGE_PAGES, Conditions, conditions_of
from tare.records.runs import DEFAULT_OUTPUT_LIMIT, LEAST_COVERAGE, Limits
from tare.studykit.answer import Output

Command = Callable[..., Any]
_PATH = click.Path(path_type=Path)
TRACE_SUFFIX = ".tare"
LEAST_MARK_INTERVAL = 256
MANAGERS_HELP = (
    "A manager to measure; can be repeated. Default: glibc and the installed ones that `tare "
    "managers` marks with *."
)
ALLOCATORS_HELP = MANAGERS_HELP.replace("A manager", "An allocator", 1)
SCHEDULER_HELP = (
    "Address of the scheduler of a Dask cluster whose workers do the runs, as tcp://HOST:8786."
)
BASELINE_HELP = (
    "The manager that ratios refer to; it is measured, too. Default: glibc if it is one of the "
    "managers or there is only one, else the first."
)


def size(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """A callback for an option that is a size."""
    return None if value is None else parse_size(value)


def signal_number(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int:
    """A callback for an option that is a signal's name; 0 where it is not given."""
    if value is None:
        return 0
    name = value.upper().removeprefix("SIG")
    try:
        number = signal.Signals[f"SIG{name}"]
    except KeyError:
        raise UsageError(f"there is no signal {value}", "give USR2, say") from None
    if number in (signal.SIGKILL, signal.SIGSTOP):
        raise UsageError("no program can handle the signals KILL and STOP", "give USR2, say")
    return number


def _add(function: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function


def program_argument(function: Command) -> Command:
    """Adds PROGRAM, --input and --ignore-output; gives ``program``, a Program."""

    @functools.wraps(function)
    def packed(
        program: tuple[str, ...], stdin: Path | None, ignore_output: bool, **others: Any
    ) -> Any:
        chosen = program_from_command(program, stdin=stdin, ignore_output=ignore_output)
        return function(program=chosen, **others)

    return _add(
        packed,
        click.option(
            "-i", "--input", "stdin", type=_PATH, metavar="FILE", help="Standard input of each run."
        ),
        click.option(
            "--ignore-output",
            is_flag=True,
            help="Do not compare what the program prints (for programs that print times).",
        ),
        click.argument(
            "program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM [ARG…]"
        ),
    )


def mark_interval(text: str) -> int:
    """Bytes allocated between two marks."""
    size = parse_size(text)
    if size < LEAST_MARK_INTERVAL:
        raise UsageError(f"a mark every {size} bytes would take too long", "give 64KiB, say")
    return size


def replay_options(*left_out: str) -> Callable[[Command], Command]:
    """Adds what of a heap trace is replayed; gives ``how``, a schedule.How. ``left_out`` are the
    names of parameters that the command is not to have."""
    options = {
        "death": click.option(
            "--death",
            type=click.Choice(DEATHS),
            default="free",
            help="When an object dies, or loses its root: when the program freed it, when it was "
            "found unreachable, or right after its last use. Default: free.",
        ),
        "touch": click.option(
            "--touch",
            type=click.Choice(TOUCHES),
            default="birth",
            help="Which cache lines of an object are touched: all at its birth, all at its "
            "recorded first and last use, or only the first. Default: birth.",
        ),
        "regions": click.option(
            "--regions-by",
            "regions",
            type=click.Choice(REGIONS),
            default="trace",
            help="Under regions(M, as=…): whether objects have the regions that were recorded, or "
            "one for each call site. Default: trace.",
        ),
        "threads": click.option(
            "--threads",
            type=click.Choice(["one", "recorded"]),
            default="one",
            help="Replay all events in one thread, or those of each recorded thread in its own. "
            "Default: one.",
        ),
        "process": click.option(
            "--process",
            type=int,
            help="Which process of the trace to replay. Default: the one with most objects.",
        ),
        "no_pointers": click.option(
            "--no-pointers", is_flag=True, help="Do not replay recorded stores of pointers."
        ),
    }
    taken = {name: option for name, option in options.items() if name not in left_out}

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def packed(**given: Any) -> Any:
            chosen = {name: given.pop(name) for name in taken}
            pointers = not chosen.pop("no_pointers", False)
            threads = chosen.pop("threads", "one") == "recorded"
            how = How(**chosen, pointers=pointers, threads=threads)
            return function(how=how, **given)

        return _add(packed, *taken.values())

    return decorate


def traces_of(program: Program) -> list[Path]:
    """The traces that a command line names in place of a program; none, or one, or several."""
    paths = [Path(word) for word in program.argv]
    if len(paths) > 1 and not _is_command(program.argv[0]) and all(map(Path.is_dir, paths)):
        if program.stdin:
            raise UsageError("the programs of traces do not run again", "leave out -i")
        return paths
    path = trace_of(program)
    return [path] if path is not None else []


def trace_of(program: Program) -> Path | None:
    """The trace that a command line names in place of a program: a folder, which cannot be one."""
    path = Path(program.argv[0])
    if _is_command(program.argv[0]):
        return None
    if not path.is_dir():
        if path.name.endswith(TRACE_SUFFIX) and not path.exists():
            raise UsageError(f"{path} does not exist", "tare trace -o NAME.tare -- PROGRAM records")
        return None
    if len(program.argv) > 1:
        raise UsageError(
            f"{path} is a folder, and {program.argv[1]} follows it",
            "options come first, and the trace last",
        )
    if program.stdin:
        raise UsageError(f"{path} is recorded: its program does not run again", "leave out -i")
    return path


def _is_command(word: str) -> bool:
    """Whether it is a program on the PATH, and no trace beside it has the same name."""
    is_bare = "/" not in word and not word.endswith(TRACE_SUFFIX)
    return is_bare and shutil.which(word) is not None and not (Path(word) / META_FILE).exists()


def trace_argument(function: Command) -> Command:
    """Adds T.tare; gives ``trace``."""
    return click.argument("trace", type=_PATH, metavar="T.tare")(function)


def run_options(function: Command) -> Command:
    """Adds the seed and the bounds of a run; gives ``seed`` and ``limits``."""
    return _add(
        limit_options(function),
        click.option("--seed", type=int, help="Seed of the order of runs. Default: a new one."),
    )


def limit_options(function: Command) -> Command:
    """Adds the bounds of a run; gives ``limits``."""

    @functools.wraps(function)
    def packed(
        timeout: float | None,
        memory_limit: int | None,
        output_limit: int,
        least_coverage: float,
        conditions: Conditions,
        **others: Any,
    ) -> Any:
        limits = Limits(timeout, memory_limit, output_limit, least_coverage, conditions)
        return function(limits=limits, **others)

    return _add(
        _condition_options(packed),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0.001),
            metavar="SECONDS",
            help="End a run, with all its processes, after this time.",
        ),
        click.option(
            "--memory-limit",
            metavar="SIZE",
            callback=size,
            help="End a run whose resident memory goes over this; it counts as out-of-memory.",
        ),
        click.option(
            "--output-limit",
            metavar="SIZE",
            default=f"{DEFAULT_OUTPUT_LIMIT}B",
            callback=size,
            help="End a run that prints more than this. Default: 1GiB.",
        ),
        click.option(
            "--least-coverage",
            type=click.FloatRange(0, 1),
            metavar="SHARE",
            default=LEAST_COVERAGE,
            help="Share of its memory that a run must have from the manager. With less it counts "
            "as not-covered: the program's own allocator or heap serves the rest. 0 accepts all "
            f"runs. Default: {LEAST_COVERAGE}.",
        ),
    )


def _condition_options(function: Command) -> Command:
    """Adds what of the machine a run may use; gives ``conditions``."""

    @functools.wraps(function)
    def packed(
        cpus: str | None, memory_nodes: str | None, hugepages: str | None, **others: Any
    ) -> Any:
        given = {"cpus": cpus, "memory-nodes": memory_nodes, "hugepages": hugepages}
        chosen = conditions_of({name: value for name, value in given.items() if value is not None})
        return function(conditions=chosen, **others)

    return _add(
        packed,
        click.option(
            "--cpus",
            metavar="LIST",
            help="Bind each run, with all its processes, to these processors: 0, 0-1 or 0,2-3. "
            "machine(M, cpus=LIST) does it for one manager.",
        ),
        click.option(
            "--memory-nodes",
            metavar="LIST",
            help="Take the memory of each run from these nodes of a machine that has several.",
        ),
        click.option(
            "--hugepages",
            type=click.Choice(HUGE_PAGES),
            help="Transparent huge pages in a run: never, on request (madvise), always, or as the "
            "machine is set. machine(M, hugepages=never) does it for one manager. Default: "
            f"{AS_IS}.",
        ),
    )


def verbose_option(function: Command) -> Command:
    """Adds --verbose; gives ``verbose``."""
    return click.option(
        "-v", "--verbose", is_flag=True, help="Print all tables, with all of their rows."
    )(function)


def output_options(function: Command, *, brief: bool = False) -> Command:
    """Adds where results go; gives ``output``, an Output. Of a command that is ``brief`` the
    terminal has tables only where they are asked for."""

    @functools.wraps(function)
    def packed(
        folder: Path | None,
        json_file: Path | None,
        csv_file: Path | None,
        no_page: bool,
        quiet: bool,
        **others: Any,
    ) -> Any:
        verbose = others.pop("verbose", False)
        for file in (json_file, csv_file):
            if file is not None and not file.parent.is_dir():
                raise UsageError(f"the folder {file.parent} for {file.name} does not exist")
            if file is not None and file.is_dir():
                raise UsageError(f"{file} is a folder", "name a file in it")
        output = Output(folder, json_file, csv_file, not no_page, quiet, verbose)
        return function(output=output, **others)

    return _add(
        packed,
        click.option(
            "-o",
            "--output",
            "folder",
            type=_PATH,
            metavar="DIR",
            help="The results folder. If it has an interrupted run of the same, that is resumed.",
        ),
        click.option(
            "--json", "json_file", type=_PATH, metavar="FILE", help="Also write JSON ('-': stdout)."
        ),
        click.option(
            "--csv", "csv_file", type=_PATH, metavar="FILE", help="Also write every row as CSV."
        ),
        click.option("--no-page", is_flag=True, help="Do not write the HTML page."),
        click.option("-q", "--quiet", is_flag=True, help="Print no progress and no tables."),
        *([verbose_option] if brief else []),
    )
