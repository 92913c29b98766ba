"""What `tare gate` asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.units import parse_share
from tare.programs.program import Program
from tare.studykit.request import Request, option, runs_option

DEFAULT_THRESHOLD = 0.01
COUNT, TIME = "count", "time"


@dataclass(frozen=True)
class Gate(Request):
    """``base`` and ``head``: the program before the change and after it, or its words."""

    base: Program | Sequence[str]
    head: Program | Sequence[str]
    manager: str = option(
        "own",
        "-m",
        metavar="M",
        help="The manager that both run under. Default: what each links.",
        asked=False,
    )
    runs: int = runs_option(10, "Rounds for time and memory; BASE runs twice in each.")
    threshold: float = option(
        DEFAULT_THRESHOLD,
        parse=parse_share,
        metavar="1%",
        help="A figure that grew by no more than this is no regression, as 1% or 0.01. Default: "
        "1%.",
    )
    skip: Sequence[str] = option(
        (),
        multiple=True,
        metavar="PART",
        help="Leave out count or time; can be repeated.",
    )
