"""`tare history`: a project's figures over its commits."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tare.base.errors import UsageError
from tare.base.files import descriptor_of, write_to, writing
from tare.base.units import parse_share
from tare.history import ledger
from tare.history.report import document, report
from tare.history.series import DEFAULT_METRICS, history
from tare.programs.checkouts import described
from tare.records.results import load
from tare.report.page import write_page
from tare.report.terminal import print_report

EPILOG = """\b
Examples:
  tare history past/ tare-results/gate-report/
  tare history past/ --page history.html
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.argument("results", nargs=-1, type=click.Path(path_type=Path), metavar="[RESULTS…]")
@click.option(
    "--commit",
    default="HEAD",
    metavar="COMMIT",
    help="Of which commit RESULTS are. Default: HEAD.",
)
@click.option(
    "--threshold",
    default="1%",
    metavar="SHARE",
    help="Smaller changes are not told, as 1% or 0.01. Default: 1%.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write an HTML page.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write all of it as JSON ('-': stdout, instead of the table).",
)
def command(
    folder: Path,
    results: Sequence[Path],
    commit: str,
    threshold: str,
    page: Path | None,
    json_file: Path | None,
) -> None:
    """Keep figures of each commit in FOLDER, and show which commit changed one.

    RESULTS are results folders, of gate, count, compare or weigh. Their medians are added to
    FOLDER, which can lie on a branch of its own.
    """
    share = parse_share(threshold)
    if not 0 <= share <= 1:
        raise UsageError(f"a threshold of {threshold}: give a share from 0% to 100%")
    if results:
        measured = [load(each) for each in results]
        of = described(commit)
        for each in measured:
            ledger.add(each, of, folder)
    from tare.studykit.progress import TerminalWatcher  # what draws takes long to load

    found = history(ledger.read(folder, TerminalWatcher().note), DEFAULT_METRICS, share)
    if not found.series:
        raise UsageError(f"{folder} has none of the figures that are looked at")
    shown = report(found, folder, share)
    if page is not None:
        with writing(page, what_is_kept=""):
            write_page(shown, page)
    if json_file is not None:
        write_to(json_file, json.dumps(document(found, share), indent=2) + "\n")
    if json_file is None or descriptor_of(json_file) != 1:
        print_report(shown, sys.stdout)
