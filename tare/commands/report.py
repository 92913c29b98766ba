"""`tare report`: the tables and the page of a results folder."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tare import api
from tare.report.build import build_report
from tare.report.terminal import print_report
from tare.report.terminal_text import printable
from tare.results import load

EPILOG = """\b
Examples:
  tare report tare-results/weigh-gawk-20260101-120000-42
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--no-page", is_flag=True, help="Only print the tables.")
def command(folder: Path, no_page: bool) -> int:
    """Print the tables of the results folder DIR again and write its page, report.html.

    Works on a folder whose study was interrupted: it shows what was measured.
    """
    results = load(folder)
    print_report(build_report(results), sys.stdout)
    if not no_page:
        print(f"\npage:    {printable(str(api.write_page(results)))}")
    return 0
