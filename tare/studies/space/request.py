"""`tare space`: where resident memory goes, and whose objects keep it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.studykit.request import AgainstBaseline, OfTraces, option


@dataclass(frozen=True)
class Space(AgainstBaseline):
    """Where the memory of PROGRAM goes: what its resident pages are for, at the peak and over time.

    PROGRAM runs once under each manager with the recorder before it, near its own speed. Traces
    T.tare… that --keep-trace kept are analysed again, and nothing is run.
    """

    ANSWERED_BY: ClassVar[str] = "question.space"
    EXAMPLES: ClassVar[str] = """\
  tare space -- gawk -f report.awk words.txt
  tare space -m glibc -m 'delay(glibc, size=1MiB)' -- perl job.pl
  tare space --keep-trace -o results -- ./server --selftest
  tare space --attach 4711 --when-resident 2GiB
  tare space --scheduler tcp://head:8786 /shared/*.tare
"""

    _: KW_ONLY
    keep_trace: bool = option(
        False,
        help="Keep the heap traces, with the snapshots of resident memory, in the results folder.",
    )


@dataclass(frozen=True)
class SpaceOfTraces(OfTraces):
    """As ``Space``, of traces that it kept."""

    ANSWERED_BY: ClassVar[str] = "question.space_of_traces"
    RECORDED_BY: ClassVar[str] = "tare space --keep-trace"


REQUESTS = (Space, SpaceOfTraces)
OF_PROCESS = "space_of_process"
OF_PROCESS_HELP = "Look at a process that runs already, instead of PROGRAM, and let it run on."
