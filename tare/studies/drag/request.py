"""`tare drag`: memory that is held without being used, by call site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

import click

from tare.studykit import options
from tare.studykit.request import (
    AgainstBaseline,
    OfTraces,
    Request,
    managers_option,
    option,
)


def _clock() -> str:
    clock: str = option(
        "bytes",
        type=click.Choice(["bytes", "instructions"]),
        help="The unit of time: bytes allocated, or instructions executed. Default: bytes.",
    )
    return clock


@dataclass(frozen=True)
class How:
    """``clock`` is one of ``tare.heap_traces.residence.CLOCKS``; ``reachability_bytes`` is how many
    bytes are allocated between two marks, 0 for none; ``discard`` removes the trace after its
    analysis."""

    clock: str = "bytes"
    reachability_bytes: int = 0
    discard: bool = False


@dataclass(frozen=True)
class Drag(AgainstBaseline):
    """Unused memory that PROGRAM, or recorded traces T.tare…, hold: lag, drag and void.

    PROGRAM is recorded under Valgrind's core, 10 to 30 times slower than alone, under glibc unless
    -m names others. The trace is kept in the results folder.
    """

    ANSWERED_BY: ClassVar[str] = "question.drag"
    EXAMPLES: ClassVar[str] = """\
  tare drag -- gawk -f report.awk words.txt
  tare drag --reachability 64KiB -o results -- ./server --selftest
  tare drag recorded.tare
  tare drag --scheduler tcp://head:8786 /shared/*.tare
  tare export -f dhat -o dhat.json recorded.tare
"""

    managers: Sequence[str] = managers_option(
        ("glibc",), "A manager to record under; can be repeated. Default: glibc."
    )
    _: KW_ONLY
    clock: str = _clock()
    reachability_bytes: int = option(
        0,
        "--reachability",
        parse=options.mark_interval,
        metavar="SIZE",
        help="Find unreachable objects: mark the reachable ones each time SIZE bytes have been "
        "allocated. Default: do not.",
    )
    discard_trace: bool = option(False, help="Do not keep the heap trace.", asked=False)
    how: How | None = None
    """The three before in one, in place of them."""


@dataclass(frozen=True)
class DragOfTrace(Request):
    """As ``Drag``, of a heap trace that is there already."""

    ANSWERED_BY: ClassVar[str] = "question.drag_of_trace"

    trace: Path | str
    _: KW_ONLY
    clock: str = _clock()


@dataclass(frozen=True)
class DragOfTraces(OfTraces):
    """As ``DragOfTrace``, of several, each by itself."""

    ANSWERED_BY: ClassVar[str] = "question.drag_of_traces"

    _: KW_ONLY
    clock: str = _clock()


REQUESTS = (Drag, DragOfTrace, DragOfTraces)
