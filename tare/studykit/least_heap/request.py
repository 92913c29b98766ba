"""What is asked where a minimum heap is sought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.units import parse_size
from tare.studykit.request import OfProgram, Request, managers_option, option

SLOW = 4.0
"""A trial that takes so many times the processor time of the first that fitted does not fit."""
MANAGERS_HELP = (
    "A collector, without heap=, or for a trace or a container another manager; can be repeated. "
    "Default: five collectors of the JVM, or go.limit or node.v8; for a trace, eight collectors of "
    "MMTk, glibc, mimalloc, tcmalloc, and mark-sweep over the last two; for a container, those of "
    "`tare compare`."
)


@dataclass(frozen=True, kw_only=True)
class Narrowed(Request):
    """What is asked of a program and of a trace."""

    step: int | None = option(
        None,
        parse=parse_size,
        metavar="SIZE",
        help="Width of the interval, at least a page (4KiB). Default: 1MiB; for a trace, 1% of "
        "the most bytes alive, at least 16KiB; for a container, 1% of peak memory, at least "
        "256KiB.",
    )
    repeats: int = option(3, help="Trials at each end of the interval.")


@dataclass(frozen=True)
class MinheapExecuted(Narrowed, OfProgram):
    """The minimum heap of a program under each collector of its runtime."""

    ANSWERED_BY: ClassVar[str] = "question.minheap_executed"

    managers: Sequence[str] = managers_option(help=MANAGERS_HELP)
    _: KW_ONLY
    slow: float = option(
        SLOW,
        type=float,
        metavar="TIMES",
        help="A heap counts as too small if the program takes this many times its processor time "
        f"in a large heap. Default: {SLOW:g}.",
    )
