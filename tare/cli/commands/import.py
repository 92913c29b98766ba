"""`tare import`: heap traces and results from what other tools recorded."""
# ruff: noqa: N999 - the module of a command has its name

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tare.base.errors import UsageError
from tare.base.text import printable
from tare.report.terminal import print_report
from tare.studykit.answer import Answer, Output
from tare.studykit.watcher import watcher

if TYPE_CHECKING:
    from tare.heap_traces.trace import Trace
    from tare.report.model import Report

EPILOG = """\b
Examples:
  tare import heaptrack.gawk.4711.zst
  tare import heaptrack.gawk.4711.raw.zst -o gawk.tare
  tare import mtrace.log -o program.tare
  tare import dhat.out.4711
  tare import jeprof.4711.0.heap --statistics malloc_stats.json
  tare import running-ng-logs/host-2026-11-22/ -o results
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="New folder for the trace or the results. Default: the file's name with .tare, or a new "
    "folder in tare-results.",
)
@click.option(
    "--statistics",
    type=click.Path(path_type=Path),
    metavar="JSON",
    help="Statistics of jemalloc, of the moment of its heap profile FILE: which call sites "
    "keep partly empty slabs is estimated.",
)
@click.option("--force", is_flag=True, help="Replace an existing heap trace.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")
def command(
    file: Path, folder: Path | None, statistics: Path | None, force: bool, quiet: bool
) -> int | Answer:
    """Convert FILE, recorded by heaptrack or glibc's mtrace, into a heap trace; or convert a heap
    profile or an account of the heap that a running program wrote, a profile of DHAT, a folder of
    running-ng's logs, or DaCapo's files of latencies into results.

    The kind of file is recognised by its content. Compressed files are read directly.
    """
    from tare.importing import import_recording
    from tare.importing.runs import format_of, import_runs

    if (runs := format_of(file)) is not None:
        if force:
            raise UsageError("--force replaces heap traces only", "name another folder with -o")
        results = import_runs(file, runs, folder, watcher(quiet).note, statistics)
        output = Output(folder, None, None, page=True, quiet=quiet)
        missing = results.run.imported is not None and results.run.imported.missing
        return Answer(results, output, exit_code=1 if missing else None)
    if statistics is not None and file.exists():
        raise UsageError(f"{file} is no heap profile that statistics go with")
    target = folder or Path(f"{file.name}.tare")
    trace = import_recording(file, target, replace=force, note=watcher(quiet).note)
    if not quiet:
        print_report(_report(trace), sys.stdout)
        print(f"\ntrace: {printable(str(trace.folder))}")
    if not trace.meta["complete"]:
        print(f"tare: not complete: {printable(trace.meta['reason'])}", file=sys.stderr)
        return 1
    return 0


def _report(trace: Trace) -> Report:
    from tare.report.trace_summary import summary_report

    report = summary_report(trace)
    section, *others = report.sections
    section = replace(section, findings=[*section.findings, *trace.meta["notes"]])
    title = f"tare import: {trace.meta['program']['name']}"
    subtitle = f"recorded by {trace.meta['observer']}"
    return replace(report, title=title, subtitle=subtitle, sections=[section, *others])
