"""What `tare weigh` asks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import click

from tare.studykit.budget import Effort
from tare.studykit.request import Command, Request, baseline_option, managers_option, packed


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

    Within two minutes for a program that runs one second; each section says what it will take and
    what it took.
    """

    ANSWERED_BY: ClassVar[str] = "bill.weigh"
    BRIEF: ClassVar[bool] = True
    EXAMPLES: ClassVar[str] = """\
  tare weigh -- gawk -f report.awk words.txt
  tare weigh --quick -i queries.sql -- sqlite3 my.db
  tare weigh --thorough -m glibc -m snmalloc -- ./render scene.pov
  tare weigh -- java -jar application.jar
"""

    program: Command
    managers: Sequence[str] = managers_option()
    _: KW_ONLY
    baseline: str = baseline_option()
    effort: Effort = packed(Effort.DEFAULT, _effort_options)


REQUESTS = (Weigh,)
