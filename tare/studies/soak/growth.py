"""Whether memory grows: the slope of resident memory over rounds, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tare.base.libraries import np
from tare.studies.soak.details import Look

GROWTH, PLATEAU, UNDECIDED = "growth", "plateau", "undecided"
FEWEST_LOOKS = 20
_NOTABLE = 0.01
"""Of the memory: what it must gain for growth, and cannot gain on a plateau, in the second half."""


@dataclass(frozen=True)
class Growth:
    """``slope`` in bytes a round with the bounds of its 95% interval, all of the second half of the
    rounds; none where there were too few."""

    word: str
    slope: float | None = None
    low: float | None = None
    high: float | None = None


def growth_of(looks: Sequence[Look]) -> Growth:
    """By the slope of Theil and Sen, the median of those of all pairs, which a few rounds that
    differ do not move."""
    from scipy.stats import theilslopes  # takes long to load

    half = looks[len(looks) // 2 :]
    if len(half) < FEWEST_LOOKS // 2:
        return Growth(UNDECIDED)
    rounds = np.array([float(look.round) for look in half])
    memory = np.array([float(look.at_peak) for look in half])
    slope, _, low, high = (float(number) for number in theilslopes(memory, rounds, 0.95))
    notable = _NOTABLE * median(memory.tolist())
    span = float(rounds[-1] - rounds[0])
    if low * span > notable:
        return Growth(GROWTH, slope, low, high)
    return Growth(PLATEAU if high * span < notable else UNDECIDED, slope, low, high)


def of_runs(found: Sequence[Growth]) -> Growth:
    """What all runs of a manager agree on, with the widest bounds; else undecided."""
    words = {each.word for each in found}
    known = [each for each in found if each.slope is not None]
    if not known:
        return Growth(UNDECIDED)
    return Growth(
        words.pop() if len(words) == 1 else UNDECIDED,
        median(each.slope for each in known if each.slope is not None),
        min(each.low for each in known if each.low is not None),
        max(each.high for each in known if each.high is not None),
    )
