"""What `tare weigh` asks."""

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
        help="Within 20 seconds for a program that runs one: fewer managers, wider intervals.",
    )
    thorough = click.option(
        "--thorough",
        "effort",
        flag_value=Effort.THOROUGH.value,
        help="As long as it takes to know each ratio of times within 1%.",
    )
    return quick(thorough(chosen))


@dataclass(frozen=True)
class Weigh(Request):
    """What memory management costs PROGRAM, and what to change: every section on one page.

    Within two minutes; each section says what it will take and what it took. The sections are
    time, space, drag, count, breakdown, collectors and, for researchers, delay.
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
        help="What the bill may take, as 90s, 5min or 1h30min. Default: 105s.",
    )
    only: Sequence[str] = option(
        (), parse=words, metavar="S,S…", help="These sections alone: drag,space, say."
    )
    skip: Sequence[str] = option((), parse=words, metavar="S,S…", help="All sections but these.")
    runs: int | None = option(
        None,
        "-n",
        "--runs",
        type=int,
        metavar="N",
        help="Runs under each manager, whatever time they take. Default: as many as fit.",
    )
    open: bool = option(False, asked=False, help="Open the page in a browser when it is written.")


REQUESTS = (Weigh,)
