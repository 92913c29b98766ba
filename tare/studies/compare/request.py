"""`tare compare`: time and memory under each manager, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.units import parse_share
from tare.campaign.cluster import Cluster
from tare.observers.protocol import Observe
from tare.studykit.request import (
    AgainstBaseline,
    metrics_option,
    option,
    runs_option,
    scheduler_option,
    warmup_option,
)


@dataclass(frozen=True)
class Compare(AgainstBaseline):
    """Time and memory of PROGRAM under each manager, compared with intervals.

    The managers take turns in a random order. A figure counts only when the running process showed
    that the manager served its memory, and when its output is the same as under the baseline.
    """

    ANSWERED_BY: ClassVar[str] = "question.compare"
    EXAMPLES: ClassVar[str] = """\
  tare compare -- gawk -f report.awk words.txt
  tare compare -m glibc -m mimalloc -m ./libmine.so -n 20 -- ./server --selftest
  tare compare -m jemalloc -m 'bdwgc(free=honoured)' -i input.sql -- sqlite3 my.db
  tare compare --latency -m jemalloc -m mimalloc -- ./server --selftest
  tare compare --precision 1% --json out.json -- perl job.pl
"""

    _: KW_ONLY
    runs: int = runs_option(10, "Runs under each manager; twice as many under the baseline.")
    warmup: int = warmup_option()
    precision: float | None = option(
        None,
        parse=parse_share,
        metavar="1%",
        help="Repeat until the 95% interval of each ratio of wall times is this narrow, as 1% or "
        "0.01.",
    )
    most_runs: int = option(100, help="Most runs under each manager with --precision.")
    latency: bool = option(
        False,
        help="Also time each call of malloc and free, in up to 6 further runs under each manager.",
    )
    metrics: Sequence[str] = metrics_option("what the program prints")
    scheduler: str = scheduler_option()
    cluster: Cluster | None = None
    observe: Observe | None = None
    canary: bool = False
    label: str = ""


REQUESTS = (Compare,)
