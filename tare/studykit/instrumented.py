"""What is shared where the instrument watches the runs: whether it is built, how long a run takes,
and why there was none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tare.base.errors import MissingError
from tare.base.units import format_duration
from tare.observers import instrument
from tare.records.results import Results
from tare.records.runs import Record
from tare.report.comparison import TIME
from tare.studykit.budget import bill_seconds

START_SECONDS = 0.7
"""What Valgrind's core takes to start and to translate what every program executes once."""
SLOWDOWN = 16.0
"""Of typical programs; the first run shows what it is for this one."""


def run_seconds(pilot_seconds: float) -> float:
    """What one counted run will take, judged by the pilot run."""
    return START_SECONDS + SLOWDOWN * pilot_seconds


def is_built() -> bool:
    """Whether this Tare has the instrument."""
    try:
        instrument.launcher()
    except MissingError:
        return False
    return True


def too_long(
    timed: Sequence[Record],
    baseline: str,
    run_seconds: Callable[[float], float],
    seconds_allowed: float,
    run: str,
) -> str:
    """Why ``run`` of a program is left out, which takes ``run_seconds`` of its wall time, judged by
    its good timed runs; "" where it is not: where it takes so long as is allowed, or as these."""
    alone = [each.outcome.values[TIME] for each in timed if each.run.manager == baseline]
    if not alone:
        return f"the program gave no good run under {baseline}"
    expected = run_seconds(min(alone))
    if expected <= max(seconds_allowed, sum(each.outcome.values[TIME] for each in timed)):
        return ""
    return f"{run} would take about {format_duration(expected)}"


def left_out(
    results: Results, doing: str, does: str, command: str, seconds: float, slowdown: float
) -> str:
    """Why a section that runs the program under the instrument ran nothing: ``doing`` one run takes
    ``seconds``."""
    if not is_built():
        return (
            "Left out: the instrument is not built. It needs Debian's package valgrind "
            "(apt-get install valgrind) and a new build of Tare."
        )
    return (
        f"Left out: {doing} one run takes about {format_duration(seconds)} "
        f"(Valgrind's core is about {slowdown:.0f} times slower), more than is left of the bill's "
        f"{format_duration(bill_seconds(results.run))}. "
        f"`tare {command}` {does} without a limit, and so does `tare weigh --thorough`."
    )
