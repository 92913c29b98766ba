"""`tare trace`: the heap trace of one run of a program."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tare.base.errors import UsageError
from tare.base.text import printable
from tare.base.units import parse_duration
from tare.observers.asked import JVM, Asked
from tare.records.metrics import Status
from tare.report.terminal import print_report
from tare.studykit import options
from tare.studykit.command import asking
from tare.studykit.recording.question import trace
from tare.studykit.recording.request import Recording

if TYPE_CHECKING:
    from tare.heap_traces.trace import Trace

_QUIET = click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")


_ATTACH = (
    click.option(
        "--attach",
        type=click.IntRange(min=1),
        metavar="PID",
        help="Record a process that runs already, instead of PROGRAM: put the recorder into it, "
        "and take it out at the end.",
    ),
    click.option(
        "--for",
        "seconds",
        metavar="TIME",
        callback=lambda _context, _parameter, text: parse_duration(text) if text else None,
        help="With --attach: how long, 60s say. Without, until Ctrl-C.",
    ),
)


def _attaching(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --attach and --for, which another question answers than that of a PROGRAM."""

    @functools.wraps(function)
    def chosen(attach: int | None, seconds: float | None, **given: Any) -> int:
        if attach is not None:
            return _attached(attach, seconds, given)
        if seconds is not None:
            raise UsageError("--for goes with --attach PID")
        if not given["program"]:
            raise click.MissingParameter(param_hint="'-- PROGRAM [ARG…]'", param_type="argument")
        return function(**given)

    for each in reversed(_ATTACH):
        chosen = each(chosen)
    return chosen


def _attached(pid: int, seconds: float | None, given: Mapping[str, Any]) -> int:
    from tare.base.interrupts import termination_as_interrupt
    from tare.heap_traces.trace import open_trace
    from tare.observers import attaching, tracing
    from tare.records.results import default_folder
    from tare.studykit.progress import TerminalWatcher

    what: Asked = given["what"]
    if given["program"] or given["stdin"]:
        raise UsageError("--attach is instead of a PROGRAM", "leave out the one or the other")
    if what != Asked(sites=what.sites, sample_bytes=what.sample_bytes):
        raise UsageError(
            "with --attach births and frees are recorded",
            "of the options that say what is recorded, give --sample and --no-sites only",
        )
    target = attaching.target_of(pid)
    name = default_folder("trace", target.name)
    folder: Path = given["folder"] or name.with_name(f"{name.name}.tare")
    tracing.refuse_occupied(folder, replace_trace=given["replace"])
    note = TerminalWatcher(given["quiet"]).note
    with termination_as_interrupt():
        attaching.trace_of(target, folder, what, seconds, note)
    return _shown(open_trace(folder), quiet=given["quiet"])


@asking([Recording], common=[options.limit_options, _attaching, _QUIET])
def command(request: Recording, quiet: bool) -> int:
    return _shown(inspect.unwrap(trace)(request), quiet=quiet)


# With --attach there is none.
next(each for each in command.params if each.name == "program").required = False


def _shown(found: Trace, *, quiet: bool) -> int:
    if not quiet:
        from tare.report.trace_summary import summary_report

        print_report(summary_report(found), sys.stdout)
        print(f"\ntrace: {printable(str(found.folder))}")
        if "last_use" not in found.meta["observed"] and found.meta["observer"] != JVM:
            print("tare drag needs last uses, which --last-use records")
    if found.meta["status"] != Status.OK:
        name, status = printable(found.meta["program"]["name"]), found.meta["status"]
        print(f"tare: {name}: {status}: {printable(found.meta['reason'])}", file=sys.stderr)
        return 1
    return 0
