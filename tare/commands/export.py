"""`tare export`: results in the formats of other tools."""

from __future__ import annotations

from pathlib import Path

import click

from tare.export import FORMATS
from tare.presenting import write_export
from tare.results import load

EPILOG = """\b
Examples:
  tare export results/ --format hyperfine -o results.json
  tare export results/ --format markdown >> $GITHUB_STEP_SUMMARY
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("-f", "--format", "name", type=click.Choice(sorted(FORMATS)), required=True)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path),
    default=Path("-"),
    metavar="FILE",
    help="Where to; default is standard output.",
)
def command(folder: Path, name: str, file: Path) -> int:
    """Write the results folder DIR in another form."""
    write_export(load(folder), name, file)
    return 0
