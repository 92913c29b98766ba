"""What `tare trace` asks."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import click

from tare.base.errors import UsageError
from tare.base.units import parse_size
from tare.observers.asked import Asked
from tare.observers.jvm_trace import DEFAULT_PERIOD
from tare.studykit import options
from tare.studykit.request import Asking, Command, option, packed

_LARGEST_SAMPLE = 1 << 40


def _sample_interval(_context: click.Context, _option: click.Parameter, text: str | None) -> int:
    if text is None:
        return 0
    size = parse_size(text)
    if not 1 <= size <= _LARGEST_SAMPLE:
        raise UsageError(f"--sample {text} is out of range", "give 512KiB, say")
    return size


_OPTIONS = (
    click.option(
        "--last-use",
        is_flag=True,
        help="Record the first and the last use of each object, and how far it was touched.",
    ),
    click.option("--pointers", is_flag=True, help="Record stores of pointers to objects."),
    click.option(
        "--reachability",
        "reachability_bytes",
        metavar="SIZE",
        callback=lambda _context, _parameter, text: options.mark_interval(text) if text else 0,
        help="Find unreachable objects each time this much has been allocated.",
    ),
    click.option(
        "--sample",
        "sample_bytes",
        metavar="SIZE",
        callback=_sample_interval,
        help="Record a sample: the mean interval in bytes between two recorded objects.",
    ),
    click.option(
        "--paused",
        is_flag=True,
        help="Start with recording off: a signal, USR2 unless --signal names another, or --control "
        "turns it on.",
    ),
    click.option(
        "--signal",
        "signal_number",
        metavar="NAME",
        callback=options.signal_number,
        help="Turn recording on and off when the program gets this signal.",
    ),
    click.option(
        "--control",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Make FILE a named pipe: the words on and off, written to it, turn recording on and "
        "off.",
    ),
    click.option(
        "--jvm",
        is_flag=True,
        help="Record the Java heap of a program instead of its malloc. Deaths are found by "
        "collections, one per 4MiB allocated unless --reachability gives another size.",
    ),
    click.option(
        "--last-seen",
        is_flag=True,
        help="With --jvm --pointers: date an object's death to when a store or a collection last "
        "showed it.",
    ),
    click.option("--no-sites", is_flag=True, help="Do not record call sites."),
)


def _asked_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what is recorded, and when; gives ``what``, an Asked."""
    names = {each.name for each in fields(Asked)}

    @functools.wraps(function)
    def chosen(**given: Any) -> Any:
        asked = {name: given.pop(name) for name in names & given.keys()}
        if asked["paused"] and asked["signal_number"] == 0 and asked["control"] is None:
            asked["signal_number"] = signal.SIGUSR2
        if asked["jvm"] and asked["reachability_bytes"] == 0:
            asked["reachability_bytes"] = DEFAULT_PERIOD
        what = Asked(**asked, sites=not given.pop("no_sites"))
        return function(what=what, **given)

    for each in reversed(_OPTIONS):
        chosen = each(chosen)
    return chosen


@dataclass(frozen=True)
class Recording(Asking):
    """Record every object of PROGRAM: birth, size, call site, free, and when it was used.

    The program runs once with a preloaded recorder, at nearly full speed. With --last-use,
    --pointers or --reachability it runs under Valgrind's core, 10 to 30 times slower. The trace is
    a folder of Parquet files, which Tare, DuckDB, Polars and others read.
    """

    EXAMPLES: ClassVar[str] = """\
  tare trace -o server.tare -- ./server --selftest
  tare trace --sample 512KiB -- ./server --selftest
  tare trace --paused -- ./server        (and then: kill -USR2 PID)
  tare trace -o gawk.tare --last-use -- gawk -f report.awk words.txt
  tare trace --last-use --reachability 64KiB -- sqlite3 my.db .dump
  tare trace --pointers --no-sites -m mimalloc -- perl job.pl
  tare trace --jvm --pointers -- java -cp classes Main
"""

    program: Command
    manager: str = option(
        "glibc",
        "-m",
        metavar="M",
        help="The manager that serves the program. Default: glibc.",
        last=True,
    )
    _: KW_ONLY
    folder: Path | str | None = option(
        None,
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="T.tare",
        help="New folder for the trace. Default: one in tare-results.",
    )
    replace: bool = option(False, "--force", help="Replace an existing heap trace.")
    what: Asked | None = packed(None, _asked_options)
