"""Where a figure changed for good, from one commit to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from tare.base.errors import MissingError
from tare.base.libraries import np

PENALTY = 8.0
"""What a step must explain: so many times the variance, and the logarithm of the commits' number.
With it a figure that only varies shows one in fewer than 1% of histories of 50 commits."""
FEWEST = 3
"""Commits on either side of a step in measurements that vary."""
_TO_SIGMA = 1.4826


def of_counts(values: Sequence[float], threshold: float) -> list[int]:
    """The places at which a count is further than ``threshold`` from that of the last step: counts
    do not vary, so that one commit shows it, and what creeps is seen, too."""
    found: list[int] = []
    reference = values[0] if values else 0.0
    for place, value in enumerate(values):
        if _is_beyond(reference, value, threshold):
            found.append(place)
            reference = value
    return found


def of_measurements(values: Sequence[float], threshold: float) -> list[int]:
    """The places at which the level of a figure that varies changes by more than ``threshold``
    (PELT on logarithms, with the noise that neighbours show). MissingError without the library."""
    if len(values) < 2 * FEWEST or min(values) <= 0:
        return []
    try:
        import ruptures
    except ImportError:
        raise MissingError(
            "steps in times and peaks are found by ruptures, which is not installed",
            "pip install 'tare[history]'",
        ) from None
    logarithms = np.log(np.asarray(values, dtype=float))
    noise = max(_TO_SIGMA * median(abs(np.diff(logarithms))) / math.sqrt(2), threshold / 10)
    search = ruptures.KernelCPD(kernel="linear", min_size=FEWEST).fit(logarithms.reshape(-1, 1))
    ends = search.predict(pen=PENALTY * noise**2 * math.log(len(values)))
    starts = [0, *ends[:-1]]
    levels = [median(logarithms[a:b]) for a, b in zip(starts, ends, strict=True)]
    return [
        place
        for place, before, after in zip(starts[1:], levels, levels[1:], strict=False)
        if abs(after - before) > math.log1p(threshold)
    ]


def _is_beyond(before: float, after: float, threshold: float) -> bool:
    low, high = sorted((before, after))
    return high > low * (1 + threshold)
