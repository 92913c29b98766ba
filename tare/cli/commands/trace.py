"""`tare trace`: the heap trace of one run of a program."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tare.base.errors import UsageError
from tare.base.text import printable
from tare.base.units import parse_duration
from tare.observers import attaching
from tare.observers.asked import JVM, Asked, When
from tare.observers.waiting import awaited
from tare.records.metrics import Status
from tare.report.terminal import print_report
from tare.studykit import options
from tare.studykit.attaching import attaching as attach_options
from tare.studykit.attaching import optional_program, refuse_others
from tare.studykit.command import asking
from tare.studykit.recording.question import trace
from tare.studykit.recording.request import Recording
from tare.studykit.watcher import watcher

if TYPE_CHECKING:
    from tare.heap_traces.trace import Trace

_QUIET = click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")


_FOR = click.option(
    "--for",
    "seconds",
    metavar="TIME",
    callback=lambda _context, _parameter, text: parse_duration(text) if text else None,
    help="With --attach: how long, 60s say. Without, until Ctrl-C.",
)


def _attached(pid: int, when: When, given: Mapping[str, Any]) -> int:
    from tare.base.interrupts import termination_as_interrupt
    from tare.heap_traces.trace import open_trace
    from tare.observers import tracing
    from tare.records.results import default_folder

    what: Asked = given["what"]
    if what != Asked(sites=what.sites, sample_bytes=what.sample_bytes):
        raise UsageError(
            "with --attach births and frees are recorded",
            "of the options that say what is recorded, give --sample and --no-sites only",
        )
    refuse_others({"seconds", "sample_bytes", "no_sites", "replace"})
    target = attaching.target_of(pid)
    name = default_folder("trace", target.name)
    folder: Path = given["folder"] or name.with_name(f"{name.name}.tare")
    tracing.refuse_occupied(folder, replace_trace=given["replace"])
    note = watcher(given["quiet"]).note
    with termination_as_interrupt(), awaited(target, when, note):
        attaching.trace_of(target, folder, what, given["seconds"], note)
    return _shown(open_trace(folder), quiet=given["quiet"])


_ATTACHING = attach_options(
    _attached,
    "Record a process that runs already, instead of PROGRAM: put the recorder into it, and take it "
    "out at the end.",
    _FOR,
)


@asking([Recording], common=[options.limit_options, _ATTACHING, _QUIET])
def command(request: Recording, quiet: bool) -> int:
    return _shown(inspect.unwrap(trace)(request), quiet=quiet)


optional_program(command)


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
