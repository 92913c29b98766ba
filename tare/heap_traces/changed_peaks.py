"""The exact peaks of one curve of bytes held, changed in many ways: each change is taken by itself.

A change is a set of points: from a time on, so many bytes more or fewer are held. Between two
points of a change the curve is as it was but for a constant, so its peak there is the old curve's
plus that constant: each change costs a pass over the curve, not one over the objects.
"""

from __future__ import annotations

from typing import Any

from tare.base.libraries import NDArray, np
from tare.heap_traces.peak import MOST_WAITING, PeakSweep, Sizes, Times, Waiting

_POINT = [("time", "<u8"), ("bytes", "<i8"), ("change", "<u4")]


class ChangedPeaks:
    """``peaks`` are those of ``changes`` changes, by their numbers. Takes objects as ``PeakSweep``
    does, batch by batch; the points of a batch are put before its objects are added."""

    def __init__(self, last_births: Times, changes: int, most_waiting: int = MOST_WAITING) -> None:
        self.peaks = np.zeros(changes, np.int64)
        self._added = np.zeros(changes, np.int64)
        self._last_births = last_births
        self._sweep = PeakSweep(last_births, most_waiting)
        self._points = Waiting(len(last_births), most_waiting, _POINT)
        self._batch = 0

    def put(self, change: NDArray[Any], times: Times, sizes: Sizes) -> None:
        """From each of ``times`` on, so many bytes more are held under the change of that number.
        What changes at the time of a birth has changed by then."""
        due = np.maximum(np.searchsorted(self._last_births, times, side="left"), self._batch)
        rows = np.empty(len(due), _POINT)
        rows["time"], rows["bytes"], rows["change"] = times, sizes, change
        matters = due < len(self._last_births)
        self._points.put(due[matters], rows[matters])

    def add(self, births: Times, ends: Times, sizes: Sizes) -> None:
        """As ``PeakSweep.add``."""
        held = self._sweep.add(births, ends, sizes)
        at, added = self._points_by_birth(births)
        whole = int(held.max())
        for change in range(len(self.peaks)):
            mine = slice(*np.searchsorted(at, [change * len(births), (change + 1) * len(births)]))
            levels = self._added[change] + np.cumsum(added[mine])
            if not len(levels):
                highest = whole + self._added[change]
            else:
                starts = at[mine] - change * len(births)
                parts = np.maximum.reduceat(held, starts) + levels
                highest = int(parts.max())
                if starts[0] > 0:
                    before = int(held[: starts[0]].max()) + self._added[change]
                    highest = max(highest, before)
                self._added[change] = levels[-1]
            self.peaks[change] = max(self.peaks[change], highest)
        self._batch += 1

    def _points_by_birth(self, births: Times) -> tuple[NDArray[np.int64], Sizes]:
        """The points of the batch, ascending: the number of a change times the births, plus the
        first birth that is not before the point; and the bytes of all that are there."""
        at, added = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for part in self._points.of(self._batch):
            place = np.searchsorted(births, part["time"], side="left")
            keys = np.concatenate([at, part["change"].astype(np.int64) * len(births) + place])
            at, inverse = np.unique(keys, return_inverse=True)
            sums = np.zeros(len(at), np.int64)
            np.add.at(sums, inverse, np.concatenate([added, part["bytes"]]))
            added = sums
        return at, added

    def __enter__(self) -> ChangedPeaks:
        return self

    def __exit__(self, *_: object) -> None:
        self._sweep.close()
        self._points.close()
