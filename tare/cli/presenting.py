"""The end of every measuring command: table, page, files, and the exit code."""

from __future__ import annotations

import shutil
import sys
import webbrowser
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import TYPE_CHECKING, TextIO

from tare.answers.summaries import summary, worst_status
from tare.base.errors import UsageError
from tare.base.files import descriptor_of, write_to
from tare.base.text import printable
from tare.records.results import Results
from tare.studykit.answer import Answer

if TYPE_CHECKING:
    from tare.heap_traces.trace import Trace
    from tare.report.model import Report


OPENER_SECONDS = 5.0


def present(answer: Answer) -> int:
    """Show and write an answer; its exit code."""
    results, output = answer.results, answer.output
    files = {"json": output.json_file, "csv": output.csv_file, "markdown": answer.markdown}
    for name, file in files.items():
        if file is not None:
            write_export(results, name, file)
    taken = any(file is not None and _is_standard_output(file) for file in files.values())
    stream = sys.stderr if taken else sys.stdout
    if output.page:
        from tare.report.figures.drawing import start_drawing

        start_drawing()
    report = None
    if not output.quiet:
        from tare.answers.building import build_report
        from tare.report.terminal import print_report

        report = build_report(results)
        print_report(report, stream, verbose=output.verbose)
    page = _page(results, report) if output.page else None
    if output.quiet:
        _tell_of_failures(results)
    else:
        print(file=stream)
        print_address("results", results.folder, stream)
        if page is not None:
            print_address("page", page, stream)
        if sentence := _last_sentence(results):
            print(f"\n{printable(sentence)}", file=stream)
    if answer.opens:
        _open(page)
    return int(worst_status(results)) if answer.exit_code is None else answer.exit_code


def _page(results: Results, report: Report | None) -> Path:
    from tare.answers.pages import write_page

    return write_page(results, report)


def _last_sentence(results: Results) -> str:
    """What the command ends with, or ""."""
    if results.run.study != "compare":
        return ""
    from tare.studies.compare import report as compare

    return compare.last_sentence(results)


def _open(page: Path | None) -> None:
    """With the platform's opener; a message where there is none, or where it finds no browser."""
    if page is None:
        print("tare: --open has no effect: with --no-page there is no page", file=sys.stderr)
        return
    opener = shutil.which("xdg-open") or shutil.which("open")
    if opener is not None:
        words = [opener, str(page.resolve())]
        process = Popen(
            words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
        )
        try:
            if process.wait(timeout=OPENER_SECONDS) == 0:
                return
        except TimeoutExpired:
            return  # a browser that is its child
    trouble = "no browser was found" if opener else "xdg-open is not installed"
    print(f"tare: the page could not be opened: {trouble}", file=sys.stderr)


def print_address(what: str, path: Path, stream: TextIO) -> None:
    print(f"{what + ':':8} {printable(str(path))}", file=stream)


def open_in_browser(address: str) -> None:
    if not webbrowser.open(address):
        print("no browser could be started: open the page yourself", file=sys.stderr)


def _tell_of_failures(results: Results) -> None:
    """Who asked for no table still learns why the exit code is 1."""
    from tare.report.comparison import failure_tables

    for table in failure_tables(results):
        for program, manager, status, _, why in sorted(
            [cell.text for cell in line] for line in table.rows
        ):
            print(printable(f"tare: {program} under {manager}: {status}: {why}"), file=sys.stderr)
        print(f"results: {printable(str(results.folder))}", file=sys.stderr)


def write_export(results: Results, name: str, file: Path) -> None:
    """Write ``results`` in the export format ``name`` to ``file``, or standard output for ``-``."""
    from tare.answers.exports.formats import FORMATS

    write_to(file, FORMATS[name].render(results, summary(results)))


def _is_standard_output(file: Path) -> bool:
    return descriptor_of(file) == 1


def write_trace_export(trace: Trace, name: str, file: Path, weight: str) -> None:
    """Write ``trace`` in the form ``name`` of ``tare.answers.exports.traces``; see
    ``write_stacks``."""
    from tare.answers.exports.traces import TRACE_FORMATS
    from tare.heap_traces.residence import reading

    with reading(trace):
        content = TRACE_FORMATS[name].render(trace, weight)
    write_stacks(content, name, file)


def write_stacks(content: bytes, name: str, file: Path) -> None:
    """Write what has the form ``name`` to ``file``, or standard output for ``-``. UsageError when
    that would show bytes on a terminal."""
    if name == "pprof" and _is_standard_output(file) and sys.stdout.isatty():
        raise UsageError("a pprof profile is not text", "name a file with -o")
    write_to(file, content)
