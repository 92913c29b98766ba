"""`tare report`: the tables and the page of a results folder once more."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tare.answers.answers import explore
from tare.answers.building import build_report
from tare.answers.explorer.collecting import is_results
from tare.answers.pages import write_page
from tare.base.errors import UsageError
from tare.cli.presenting import open_in_browser, print_address
from tare.records.results import load
from tare.report.figures.drawing import start_drawing
from tare.report.terminal import print_report
from tare.studykit.options import verbose_option
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare report tare-results/weigh-gawk-20260101-120000-42
  tare report --open papers-results
  tare report --open tare-results              (all results in it, on one page)
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--no-page", is_flag=True, help="Print the tables only; write no page.")
@click.option("--explorer", is_flag=True, help="Also write the explorer of a single program.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@verbose_option
def command(folder: Path, no_page: bool, explorer: bool, opens: bool, verbose: bool) -> int:
    """Print the findings of the results folder DIR again, and write its page, report.html.

    For a bill that is the verdict; --verbose prints its tables, too. For several programs, and
    where DIR has results folders in it, the explorer is written as well: explorer.html filters,
    plots time against space, and leads from a suite to a program to its call sites. DIR may hold
    an interrupted study: what was measured is shown.
    """
    if no_page and (opens or explorer):
        wanted = "--open" if opens else "--explorer"
        raise UsageError(f"{wanted} needs the page", "leave --no-page out")
    pages: list[Path] = []
    has_many = not is_results(folder)
    if no_page or not has_many:
        if not no_page:
            start_drawing()
        results = load(folder)
        report = build_report(results)
        print_report(report, sys.stdout, verbose=verbose)
        has_many = explorer or len(results.run.programs) > 1
        if not no_page:
            pages.append(write_page(results, report))
    if has_many and not no_page:
        pages.append(explore(folder, TerminalWatcher().note))
    if pages:
        print()
    for page in pages:
        print_address("page", page, sys.stdout)
    if opens:
        open_in_browser(pages[-1].resolve().as_uri())
    return 0
