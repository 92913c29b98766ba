"""One line of the table."""

from __future__ import annotations

from dataclasses import dataclass

from bench import pace
from tare.base.statistics import Interval
from tare.base.units import format_seconds


@dataclass(frozen=True)
class Row:
    """``what`` is the same in each run. ``bar`` is what must be reached, empty where nothing was
    promised; ``met`` is None where the measurements cannot tell. ``low`` is the least it may really
    be, in the unit of the bar; of seconds, on a machine of the pace that the bars are for."""

    what: str
    measured: str
    bar: str = ""
    met: bool | None = True
    low: float | None = None


def ratio_row(what: str, ratio: Interval, most: float, more: str) -> Row:
    """A ratio with its interval, which tells where the bar lies outside of it."""
    met, told = judged(ratio, most)
    measured = f"{told}{ratio.median:.2f}x ({ratio.low:.2f} to {ratio.high:.2f}; {more})"
    return Row(what, measured, f"at most {most:.3g}x", met, ratio.low)


def seconds_row(what: str, seconds: Interval, most: float, more: str = "") -> Row:
    """As ``ratio_row``, of seconds. A slower machine than those that the bars were set on keeps a
    bar, or cannot tell; it misses one by what its pace does not explain."""
    met, told = judged(seconds, most)
    slower = pace.slowness()
    if met is False and seconds.low <= most * slower:
        met, told = None, f"cannot tell, for this machine takes {slower:.1f}x as long: "
    bar = f"at most {format_seconds(most)}"
    return Row(what, told + in_seconds(seconds, more), bar, met, seconds.low / slower)


def in_seconds(found: Interval, more: str = "") -> str:
    median, low, high = map(format_seconds, (found.median, found.low, found.high))
    return f"{median} ({low} to {high}{'; ' if more else ''}{more})"


def judged(found: Interval, most: float) -> tuple[bool | None, str]:
    """Whether the bar is kept, None for "cannot tell", and what stands before the figure."""
    met = None if found.low <= most < found.high else found.high <= most
    return met, "" if met is not None else "cannot tell: "
