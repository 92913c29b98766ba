"""`tare trace`: the heap trace of one run of a program."""

from __future__ import annotations

import inspect
import sys

import click

from tare.base.text import printable
from tare.records.metrics import Status
from tare.report.terminal import print_report
from tare.studykit import options
from tare.studykit.command import asking
from tare.studykit.recording.question import trace
from tare.studykit.recording.request import Recording

_QUIET = click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")


@asking([Recording], common=[options.limit_options, _QUIET])
def command(request: Recording, quiet: bool) -> int:
    found = inspect.unwrap(trace)(request)
    if not quiet:
        from tare.report.trace_summary import summary_report

        print_report(summary_report(found), sys.stdout)
        print(f"\ntrace: {printable(str(found.folder))}")
        if request.what is None or not (request.what.last_use or request.what.jvm):
            print("tare drag needs last uses, which --last-use records")
    if found.meta["status"] != Status.OK:
        name, status = printable(found.meta["program"]["name"]), found.meta["status"]
        print(f"tare: {name}: {status}: {printable(found.meta['reason'])}", file=sys.stderr)
        return 1
    return 0
