"""`tare soak`: whether memory grows when recorded allocations go on and on."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.units import parse_duration
from tare.studykit.request import OfTrace, baseline_option, option, runs_option


@dataclass(frozen=True)
class Soak(OfTrace):
    """The allocations recorded in T.tare, again and again: does memory grow, or reach a plateau?

    No program runs. What is alive at the end of a round stays until the next one puts another
    object in its place, so each round begins in the heap that the one before has left: what
    fragmentation does to a service in weeks shows in minutes.
    """

    ANSWERED_BY: ClassVar[str] = "question.soak"
    EXAMPLES: ClassVar[str] = """\
  tare trace -o server.tare -- ./server --selftest
  tare soak --for 2min -m glibc -m jemalloc -m mimalloc server.tare
"""

    _: KW_ONLY
    baseline: str = baseline_option()
    seconds: float = option(
        30.0,
        "--for",
        parse=parse_duration,
        metavar="TIME",
        help="How long each manager follows the trace; default: 30s.",
    )
    runs: int = runs_option(2, "Runs under each manager; twice as many under the baseline.")
    warmup: int = option(0, help="Runs under each manager that are not counted.")


REQUESTS = (Soak,)
