"""`tare export`: results and heap traces in the formats of other tools."""

from __future__ import annotations

from pathlib import Path

import click

from tare.errors import UsageError
from tare.export import FORMATS
from tare.presenting import write_export, write_trace_export
from tare.results import load
from tare.trace_export import TRACE_FORMATS, WEIGHTS, find_trace

EPILOG = """\b
Examples:
  tare export results/ --format hyperfine -o results.json
  tare export results/ --format markdown >> $GITHUB_STEP_SUMMARY
  tare export recorded.tare --format dhat -o dhat.json
  tare export recorded.tare -f collapsed --weight bytes -o stacks.txt
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "-f", "--format", "name", type=click.Choice(sorted({*FORMATS, *TRACE_FORMATS})), required=True
)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path),
    default=Path("-"),
    metavar="FILE",
    help="Where to; default is standard output.",
)
@click.option(
    "--weight",
    type=click.Choice(list(WEIGHTS)),
    help="What collapsed stacks count: bytes held in vain over time (vain, the default), bytes "
    "allocated, or objects.",
)
def command(folder: Path, name: str, file: Path, weight: str | None) -> int:
    """Write the results folder DIR, or the heap trace in it, in another form.

    DIR is a results folder; for collapsed, dhat, pprof and speedscope it is a heap trace, or the
    results of tare drag.
    """
    form = TRACE_FORMATS.get(name)
    if weight is not None and (form is None or not form.weighted):
        raise UsageError(f"--weight has no meaning for {name}", "it is for --format collapsed")
    if form is None:
        write_export(load(folder), name, file)
    else:
        write_trace_export(find_trace(folder), name, file, weight or "vain")
    return 0
