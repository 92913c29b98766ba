"""`tare weigh`: what memory management costs a program, and what to change."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import click

from tare.base.units import parse_duration
from tare.studykit.budget import Effort
from tare.studykit.request import (
    Command,
    Request,
    baseline_option,
    managers_option,
    option,
    packed,
)


def words(text: str) -> tuple[str, ...]:
    """Of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _effort_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --quick and --thorough; gives ``effort``."""

    @functools.wraps(function)
    def chosen(effort: str | None, **others: Any) -> Any:
        return function(effort=Effort(effort) if effort else Effort.DEFAULT, **others)

    quick = click.option(
        "--quick",
        "effort",
        flag_value=Effort.QUICK.value,
        help="Take 20 seconds for a program that runs for one: fewer managers, wider intervals.",
    )
    thorough = click.option(
        "--thorough",
        "effort",
        flag_value=Effort.THOROUGH.value,
        help="Repeat until each ratio of times is known within 1%, however long that takes.",
    )
    return quick(thorough(chosen))


@dataclass(frozen=True)
class Weigh(Request):
    """What memory management costs PROGRAM, and what to change: every section on one page.

    It takes up to two minutes; each section shows its expected and its actual time. The sections
    are time, space, drag, count, breakdown, collectors and, for researchers, delay and
    latency.
    """

    ANSWERED_BY: ClassVar[str] = "bill.weigh"
    BRIEF: ClassVar[bool] = True
    EXAMPLES: ClassVar[str] = """\
  tare weigh -- gawk -f report.awk words.txt
  tare weigh --quick -i queries.sql -- sqlite3 my.db
  tare weigh --time 5min --only drag,space --open -- ./server --selftest
  tare weigh --thorough -m glibc -m snmalloc -- ./render scene.pov
  tare weigh -- java -jar application.jar
"""

    program: Command
    managers: Sequence[str] = managers_option()
    _: KW_ONLY
    baseline: str = baseline_option()
    effort: Effort = packed(Effort.DEFAULT, _effort_options)
    seconds: float | None = option(
        None,
        "--time",
        parse=parse_duration,
        metavar="5min",
        help="Time limit for the bill, as 90s, 5min or 1h30min. Default: 105s.",
    )
    only: Sequence[str] = option(
        (),
        parse=words,
        multiple=True,
        metavar="S,S…",
        help="Measure only these sections, as drag,space; can be repeated.",
    )
    skip: Sequence[str] = option(
        (),
        parse=words,
        multiple=True,
        metavar="S,S…",
        help="Leave out these sections; can be repeated.",
    )
    runs: int | None = option(
        None,
        "-n",
        "--runs",
        type=int,
        metavar="N",
        help="Runs under each manager, regardless of time. Default: as many as fit.",
    )
    open: bool = option(False, asked=False, help="Open the page in a browser when it is written.")


REQUESTS = (Weigh,)
