"""`tare diff`: what changed between two results folders, beyond noise."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tare.answers.diff import diff
from tare.base.files import writing
from tare.records.results import load
from tare.report.page import write_page
from tare.report.terminal import print_report

EPILOG = """\b
Examples:
  tare diff before/ after/
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
def command(old: Path, new: Path, threshold: float, page: Path | None) -> int:
    """Show what changed from the results folder OLD to NEW, beyond noise.

    Exit code 1 when time or memory of a program under a manager got worse, for use in continuous
    integration.
    """
    result = diff(load(old), load(new), threshold=threshold / 100)
    print_report(result.report, sys.stdout)
    if page is not None:
        with writing(page):
            write_page(result.report, page)
    return 1 if result.regressed else 0
