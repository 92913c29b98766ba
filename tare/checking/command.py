"""`tare check`: whether programs keep the limits in a file."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from pathlib import Path

import click

from tare.checking.limits import is_broken, judged
from tare.checking.question import check
from tare.checking.request import Check
from tare.studykit.answer import Answer, Output
from tare.studykit.command import asking

_STRICT = click.option(
    "--strict", is_flag=True, help="Also fail when a limit lies within the interval of the runs."
)
_MARKDOWN = click.option(
    "--markdown",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write a Markdown table for a pull request ('-': stdout).",
)


@asking([Check], _STRICT, _MARKDOWN)
def command(request: Check, output: Output, strict: bool, markdown: Path | None) -> Answer:
    told = replace(request, report=lambda line: print(line, file=sys.stderr, flush=True))
    results = inspect.unwrap(check)(told)
    broken = is_broken(judged(results), strict=strict)
    return Answer(results, output, markdown, exit_code=1 if broken else None)
