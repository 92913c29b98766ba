"""One line of the table."""

from __future__ import annotations

from dataclasses import dataclass

from tare.base.statistics import Interval


@dataclass(frozen=True)
class Row:
    """``bar`` is what must be reached, empty where nothing was promised; ``met`` is None where the
    measurements cannot tell."""

    what: str
    measured: str
    bar: str = ""
    met: bool | None = True


def ratio_row(what: str, ratio: Interval, most: float, more: str) -> Row:
    """A ratio with its interval, which tells where the bar lies outside of it."""
    met = None if ratio.low <= most < ratio.high else ratio.high <= most
    told = "" if met is not None else "cannot tell: "
    measured = f"{told}{ratio.median:.2f}x ({ratio.low:.2f} to {ratio.high:.2f}; {more})"
    return Row(what, measured, f"at most {most}x", met)
