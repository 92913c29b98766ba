"""`tare replay`: recorded allocations, done again under each manager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.heap_traces.schedule import How
from tare.studykit import options
from tare.studykit.request import (
    OfTrace,
    baseline_option,
    option,
    packed,
    runs_option,
    warmup_option,
)


@dataclass(frozen=True)
class Replay(OfTrace):
    """The allocations recorded in T.tare, done again under each manager.

    No program runs: the objects of the trace are allocated, touched and freed in their order. So
    all managers do the same work, and the time is theirs. Each replay ends with a digest of what
    then lies in memory, and one that differs from the baseline's counts as wrong output.
    """

    ANSWERED_BY: ClassVar[str] = "question.replay"
    EXAMPLES: ClassVar[str] = """\
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare replay -m glibc -m mimalloc -m 'delay(glibc, size=1MiB)' gawk.tare
  tare replay --regions-by site -m glibc -m 'regions(glibc, as=reap)' gawk.tare
  tare replay --death last-use -m glibc -m jemalloc used.tare
  tare replay --cache -m glibc -m 'marksweep(glibc, every=1MiB)' gawk.tare
"""

    _: KW_ONLY
    baseline: str = baseline_option()
    runs: int = runs_option(10, "Runs under each manager.")
    warmup: int = warmup_option()
    how: How = packed(How(), options.replay_options())
    cache: bool = option(
        False,
        help="Simulate the caches under the replay, once for each manager, and measure no time.",
    )
    models: Sequence[str] = option(
        (),
        "--model",
        multiple=True,
        metavar="MODEL",
        help="With --cache: a memory system, as for tare memsys; can be repeated. Default: host.",
    )


REQUESTS = (Replay,)
