"""`tare soak`: whether memory grows when recorded allocations go on and on."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.errors import UsageError
from tare.base.units import parse_duration
from tare.heap_traces.schedule import How
from tare.studykit.options import replay_options
from tare.studykit.request import OfTrace, baseline_option, option, packed, runs_option

RECORDED = "recorded"


def parse_pace(text: str) -> float:
    """How many times as fast as recorded."""
    try:
        factor = 1.0 if text == RECORDED else float(text)
    except ValueError:
        factor = 0.0
    if not 1e-3 <= factor <= 1e6:
        raise UsageError(f"--pace {text}", "give recorded, or how many times as fast, as 10")
    return factor


@dataclass(frozen=True)
class Soak(OfTrace):
    """The allocations recorded in T.tare, again and again: does memory grow, or reach a plateau?

    No program runs. What is alive at the end of a round stays until the next one puts another
    object in its place, so each round begins in the heap that the one before has left: what
    fragmentation does to a service in weeks shows in minutes.

    As one thread and as fast as possible, unless --threads and --pace say otherwise.
    """

    ANSWERED_BY: ClassVar[str] = "question.soak"
    EXAMPLES: ClassVar[str] = """\
  tare trace -o server.tare -- ./server --selftest
  tare soak --for 2min -m glibc -m jemalloc -m mimalloc server.tare
  tare soak --for 1h -n 1 --threads recorded --pace recorded -m jemalloc server.tare
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
    how: How = packed(How(), replay_options("death", "touch", "regions", "no_pointers"))
    pace: float = option(
        0.0,
        parse=parse_pace,
        metavar="PACE",
        help="Between calls wait as the program did: recorded, or 10 for a tenth of it. Default: "
        "as fast as possible.",
    )
    warmup: int = option(0, help="Runs under each manager that are not counted.")


REQUESTS = (Soak,)
