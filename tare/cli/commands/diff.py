"""`tare diff`: what changed between two results folders, beyond noise."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tare.answers.diff import diff
from tare.base.errors import UsageError
from tare.base.files import descriptor_of, write_to, writing
from tare.heap_traces.trace import is_trace
from tare.records.results import load
from tare.report.page import write_page
from tare.report.terminal import print_report

EPILOG = """\b
Examples:
  tare diff before/ after/
  tare diff --json - before/ after/
  tare diff --threshold 5 main/ branch/ && echo 'no regression'
"""


@click.command(epilog=EPILOG)
@click.argument("old", type=click.Path(path_type=Path), metavar="OLD")
@click.argument("new", type=click.Path(path_type=Path), metavar="NEW")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1000),
    default=2.0,
    show_default=True,
    metavar="PERCENT",
    help="Changes up to this size never count as a regression, even beyond noise.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the comparison as an HTML page.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write JSON ('-': stdout).",
)
def command(
    old: Path, new: Path, threshold: float, page: Path | None, json_file: Path | None
) -> int:
    """Show what changed from the results folder OLD to NEW, beyond noise.

    What was gained and lost comes first, with the call sites that changed. Exit code 1 when counts,
    time or memory of a program under a manager got worse, for use in continuous integration.
    """
    _refuse_traces(old, new)
    result = diff(load(old), load(new), threshold=threshold / 100)
    if json_file is not None:
        write_to(json_file, result.to_json())
    taken = json_file is not None and descriptor_of(json_file) == 1
    print_report(result.report, sys.stderr if taken else sys.stdout)
    if page is not None:
        with writing(page):
            write_page(result.report, page)
    return 1 if result.regressed else 0


def _refuse_traces(*folders: Path) -> None:
    for folder in folders:
        if is_trace(folder):
            raise UsageError(
                f"{folder} is a heap trace, not a results folder",
                f"analyse each, and compare what that gives: tare drag -o FOLDER {folder}",
            )
