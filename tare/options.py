"""Options that several commands share, so that each means and does the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tare.runner import DEFAULT_OUTPUT_LIMIT, Limits
from tare.units import parse_size

F = TypeVar("F", bound=Callable[..., Any])
_PATH = click.Path(path_type=Path)


def _size(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_size(value)


def program_argument(function: F) -> F:
    return click.argument(
        "program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM [ARG…]"
    )(function)


def manager_options(function: F) -> F:
    for option in (
        click.option(
            "-m",
            "--manager",
            "managers",
            multiple=True,
            metavar="M",
            help="A manager to measure; repeat it. Default: glibc and the installed ones that "
            "`tare managers` marks with *.",
        ),
        click.option(
            "--baseline", metavar="M", default="", help="What ratios refer to. Default: glibc."
        ),
    ):
        function = option(function)
    return function


def run_options(function: F) -> F:
    for option in (
        click.option("--seed", type=int, help="Seed of the order of runs. Default: a new one."),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0.001),
            metavar="SECONDS",
            help="End a run, with all its processes, after so long.",
        ),
        click.option(
            "--memory-limit",
            metavar="SIZE",
            callback=_size,
            help="End a run whose resident memory goes over this; it counts as out-of-memory.",
        ),
        click.option(
            "--output-limit",
            metavar="SIZE",
            default=f"{DEFAULT_OUTPUT_LIMIT}B",
            callback=_size,
            help="End a run that prints more than this. Default: 1GiB.",
        ),
    ):
        function = option(function)
    return function


def program_options(function: F) -> F:
    for option in (
        click.option(
            "-i", "--input", "stdin", type=_PATH, metavar="FILE", help="Standard input of each run."
        ),
        click.option(
            "--ignore-output",
            is_flag=True,
            help="Do not compare what the program prints (for programs that print times).",
        ),
    ):
        function = option(function)
    return function


def output_options(function: F) -> F:
    for option in (
        click.option(
            "-o",
            "--output",
            "folder",
            type=_PATH,
            metavar="DIR",
            help="The results folder. One that holds an interrupted run of the same is resumed.",
        ),
        click.option(
            "--json", "json_file", type=_PATH, metavar="FILE", help="Also write JSON ('-': stdout)."
        ),
        click.option(
            "--csv", "csv_file", type=_PATH, metavar="FILE", help="Also write every row as CSV."
        ),
        click.option("--no-page", is_flag=True, help="Do not write the HTML page."),
        click.option("--quiet", is_flag=True, help="No progress, no table."),
    ):
        function = option(function)
    return function


def limits(timeout: float | None, memory_limit: int | None, output_limit: int) -> Limits:
    return Limits(timeout, memory_limit, output_limit)
