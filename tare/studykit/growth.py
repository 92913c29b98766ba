"""Whether memory grows: the slope of resident memory over rounds, or time, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tare.base.libraries import np

GROWTH, PLATEAU, UNDECIDED = "growth", "plateau", "undecided"
FEWEST_LOOKS = 20
TONES = {GROWTH: "bad", PLATEAU: "good", UNDECIDED: "quiet"}
_NOTABLE = 0.01
"""Of the memory: what it must gain for growth, and cannot gain on a plateau, in the second half."""


@dataclass(frozen=True)
class Growth:
    """``slope`` in bytes a round, or a second, with the bounds of its 95% interval, all of the
    second half; none where there were too few looks."""

    word: str
    slope: float | None = None
    low: float | None = None
    high: float | None = None


def growth_of(times: Sequence[float], memory: Sequence[float]) -> Growth:
    """Of looks at the memory at ``times``, which can be rounds. By the slope of Theil and Sen, the
    median of those of all pairs, which a few looks that differ do not move."""
    from scipy.stats import theilslopes  # takes long to load

    across, places = np.unique(np.array(times, dtype=np.float64), return_index=True)
    first = len(across) // 2
    if len(across) - first < FEWEST_LOOKS // 2:
        return Growth(UNDECIDED)
    across, upwards = across[first:], np.array(memory, dtype=np.float64)[places[first:]]
    slope, _, low, high = (float(number) for number in theilslopes(upwards, across, 0.95))
    notable = _NOTABLE * float(np.median(upwards))
    span = float(across[-1] - across[0])
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
