"""The command `tare`: finds the command's module, and turns errors into messages and exit codes."""

from __future__ import annotations

import gc
import importlib
import io
import os
import pkgutil
import shlex
import sys
from functools import cache
from importlib.machinery import FileFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import tare.cli.commands
import tare.studies
from tare.base.errors import InterruptedStudy, TareError
from tare.base.native import kits_folder
from tare.base.text import printable
from tare.base.version import __version__
from tare.studykit.answer import Answer

EXIT_INTERRUPTED = 130
_MORE_OBJECTS = 10_000
"""How many are made before garbage is looked for; 700 by default."""


GROUPS = {
    "Start here": ("weigh", "compare", "serve", "tune", "report", "explore", "managers", "doctor"),
    "Find the code": ("drag", "space", "count", "memsys", "trace", "import"),
    "Compare and keep watch": (
        "soak",
        "diff",
        "gate",
        "history",
        "check",
        "suite",
        "replay",
        "tradeoff",
        "export",
    ),
}
LAST_GROUP = "Research"
"""Of commands that are in none."""


class Commands(click.Group):
    """The modules of ``tare.cli.commands``, the studies that have a ``request``, the bill, the
    check, the gate and the history; loaded when named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted({*_requested(), *_written()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if package := _requested().get(cmd_name):
            from tare.studykit.command import command_of  # --version needs none

            return command_of(package)
        if module := _written().get(cmd_name):
            command: click.Command = importlib.import_module(module).command
            return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        modules = {**_written(), **{name: f"{at}.request" for name, at in _requested().items()}}
        grouped = {name for group in GROUPS.values() for name in group}
        rest = [name for name in names if name not in grouped]
        longest = max(map(len, names))
        for title, group in {**GROUPS, LAST_GROUP: rest}.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:{longest}}", _summary(name, modules[name])) for name in group]
                )


def _summary(command: str, module: str) -> str:
    """What the first line of the module says of its command; read, for loading all takes long."""
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    with Path(found.origin).open(encoding="utf-8") as text:
        return text.readline().partition(f"`tare {command}`: ")[2].strip().strip('."')


@cache
def _requested() -> dict[str, str]:
    """By its name, the package of each command that is made of a module ``request``."""
    folders = [
        Path(module.module_finder.path, module.name)
        for module in pkgutil.iter_modules(tare.studies.__path__)
        if isinstance(module.module_finder, FileFinder)
    ]
    studies = [folder.name for folder in folders if (folder / "request.py").is_file()]
    return {"weigh": "tare.weighing", **{name: f"tare.studies.{name}" for name in studies}}


@cache
def _written() -> dict[str, str]:
    """By its name, the module of each other command."""
    alone = [module.name for module in pkgutil.iter_modules(tare.cli.commands.__path__)]
    return {
        "check": "tare.checking.command",
        "gate": "tare.gating.command",
        "history": "tare.history.command",
        **{name: f"tare.cli.commands.{name}" for name in alone},
    }


def _show_kits(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(kits_folder())
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tare")
@click.option(
    "--kits",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_kits,
    help="Show the folder of the kits for CMake, benchmarks and pytest, and exit.",
)
def tare_group() -> None:
    """Weighs what memory management costs a program, under any manager.

    \b
    tare weigh -- gawk -f report.awk words      the whole bill, on one page
    tare compare -m jemalloc -m mimalloc -- sqlite3 my.db .dump
    tare managers                               what can serve a program's memory

    Exit codes: 0 done; 1 a measured program failed or a comparison shows a regression; 2 wrong
    usage; 3 something needed is not installed; 4 Tare could not go on (a full disk, say), with
    what was measured kept; 130 interrupted.
    """


class _NoPandas:
    """Hides pandas, which no command uses and pyarrow would load where it is installed."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console script."""
    sys.meta_path.insert(0, _NoPandas())
    # What is loaded stays: to look for garbage in it takes a tenth of a short command.
    gc.set_threshold(_MORE_OBJECTS)
    sys.exit(_written_out(run(arguments)))


def run(arguments: list[str] | None = None) -> int:
    """Run one command; its exit code. Never lets a stack trace out for what users can cause."""
    _open_standard_streams()
    output = sys.stdout
    try:
        result: Any = tare_group.main(args=arguments, prog_name="tare", standalone_mode=False)
        if isinstance(result, Answer):
            from tare.cli.presenting import present

            return present(result)
        return result if isinstance(result, int) else 0
    except TareError as error:
        _complain(error.message, error.hint)
        return error.exit_code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt) as stopped:
        # click turns every KeyboardInterrupt into its Abort and keeps it as the cause.
        _tell_of_interruption(stopped.__cause__ or stopped)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _end_of_reading()
    except SystemExit as leaving:
        # rich and click say 1 of it, which is that of a program that failed; click puts something
        # else in the place of standard output before.
        if isinstance(leaving.__context__, BrokenPipeError) or sys.stdout is not output:
            return _end_of_reading()
        raise
    except OSError as error:
        return _trouble(error)


def _trouble(error: OSError) -> int:
    where = f"{error.filename}: " if error.filename else ""
    _complain(f"{where}{error.strerror or error}", "")
    return 4


def _written_out(code: int) -> int:
    """The exit code, once all that was printed is written: the interpreter's end would complain
    in words of its own."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _end_of_reading()
    except OSError as error:
        code = code or _trouble(error)
        _write_no_further(1)
    return code


def _end_of_reading() -> int:
    """Who read our output has enough."""
    _write_no_further(1, 2)
    return 0


def _write_no_further(*streams: int) -> None:
    """Not even at exit."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _open_standard_streams() -> None:
    """A stream that whoever started us closed leads nowhere, so that no file of ours takes its
    number; and what its encoding lacks is written by number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one. Programs that we start have it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _tell_of_interruption(stopped: BaseException) -> None:
    if isinstance(stopped, InterruptedStudy):
        _complain(
            f"interrupted; the finished runs are in {stopped.folder}",
            f"to resume: the same command with -o {shlex.quote(str(stopped.folder))}",
        )
    else:
        _complain("interrupted", "")


def _complain(message: str, hint: str) -> None:
    print(f"tare: {printable(message)}", file=sys.stderr)
    if hint:
        print(f"      {printable(hint)}", file=sys.stderr)


if __name__ == "__main__":
    main()
