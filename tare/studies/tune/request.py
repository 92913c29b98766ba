"""`tare tune`: the allocator and options that take least time and memory."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.units import parse_duration, parse_share
from tare.studykit.request import Command, OfProgram, baseline_option, option, scheduler_option

DEFAULT_SECONDS = 900.0


@dataclass(frozen=True)
class Tune(OfProgram):
    """The best manager and options for PROGRAM: least time, least memory, and what lies between.

    Managers and their options are tried, the promising ones again, and the best are confirmed in
    fresh runs against the baseline. At most three settings are the answer, each with what to set
    or to link. With --memory-limit only settings that stay below it can be one.
    """

    ANSWERED_BY: ClassVar[str] = "question.tune"
    EXAMPLES: ClassVar[str] = """\
  tare tune -- gawk -f report.awk words.txt
  tare tune --time 5min -m glibc -m jemalloc -- ./server --selftest
  tare tune --slower-by 2% --memory-limit 500MiB -- ./render scene.pov
  tare tune -m 'jemalloc(arenas=2)' --json - -- python3 job.py
"""

    program: Command
    _: KW_ONLY
    baseline: str = baseline_option()
    seconds: float = option(
        DEFAULT_SECONDS,
        "--time",
        parse=parse_duration,
        metavar="15min",
        help="Time limit for all runs, as 90s, 5min or 1h30min; short programs take less. "
        "Default: 15min.",
    )
    slower_by: float | None = option(
        None,
        parse=parse_share,
        metavar="2%",
        help="Leave out settings that are slower than the baseline by more than this, as 2% or "
        "0.02.",
    )
    scheduler: str = scheduler_option()


REQUESTS = (Tune,)
