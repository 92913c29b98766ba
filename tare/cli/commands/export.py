"""`tare export`: results and heap traces in the formats of other tools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from tare.answers.exports.formats import FORMATS
from tare.answers.exports.traces import TRACE_FORMATS, WEIGHTS, find_trace
from tare.base.errors import UsageError
from tare.cli.presenting import write_export, write_stacks, write_trace_export
from tare.records.results import load
from tare.studies.count import export as count_export

EPILOG = """\b
Examples:
  tare export results/ --format hyperfine -o results.json
  tare export results/ --format markdown >> $GITHUB_STEP_SUMMARY
  tare export recorded.tare --format dhat -o dhat.json
  tare export counts/ --format speedscope -o manager.json
  tare export recorded.tare -f collapsed --weight bytes -o stacks.txt
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "-f",
    "--format",
    "name",
    type=click.Choice(sorted({*FORMATS, *TRACE_FORMATS})),
    required=True,
    help="The format to write.",
)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path),
    default=Path("-"),
    metavar="FILE",
    help="The file to write. Default: standard output.",
)
@click.option(
    "--weight",
    type=click.Choice(list(dict.fromkeys((*WEIGHTS, *count_export.KINDS)))),
    help="What collapsed stacks count. For a heap trace: unused bytes over time (vain, the "
    "default where uses were recorded), bytes allocated, or objects. For tare count: instructions "
    "(the default), calls, or bytes requested.",
)
def command(folder: Path, name: str, file: Path, weight: str | None) -> int:
    """Write the results folder DIR, or the heap trace in it, in another format.

    DIR is a results folder. For collapsed, dhat, pprof and speedscope it is a heap trace, the
    results of tare drag or (except for dhat) those of tare count --sites.
    """
    form = TRACE_FORMATS.get(name)
    if weight is not None and (form is None or not form.weighted):
        raise UsageError(f"--weight does not apply to {name}", "use it with --format collapsed")
    if form is None:
        write_export(load(folder), name, file)
    elif count_export.is_count(folder):
        weight = _one_of(count_export.KINDS, weight)
        write_stacks(count_export.render(folder, name, weight), name, file)
    else:
        trace = find_trace(folder)
        knows_uses = "last_use" in trace.meta["observed"]
        weight = weight or ("vain" if knows_uses else "bytes")
        write_trace_export(trace, name, file, _one_of(WEIGHTS, weight))
    return 0


def _one_of(weights: Iterable[str], wanted: str | None) -> str:
    """``wanted``, or else the first of ``weights``."""
    known = tuple(weights)
    if wanted is not None and wanted not in known:
        raise UsageError(
            f"--weight {wanted} is not in these results", f"choose one of {', '.join(known)}"
        )
    return wanted or known[0]
