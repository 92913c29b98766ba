"""What the bytes held at each time are held for: use, lag, drag or nothing at all."""

from __future__ import annotations

from tare.base.libraries import NDArray, np, pl

CLASSES = ("use", "lag", "drag", "void")
"""In the order in which figures stack them: what is needed first."""
PROFILE_STEPS = 240


class Profile:
    """Mean bytes of each class over equal steps of a clock, exact: objects are taken as intervals,
    and the area to the left of each edge is kept as sums over their ends."""

    def __init__(self, end: int) -> None:
        self._width = max(end, 1) / PROFILE_STEPS
        shape = (2, PROFILE_STEPS + 1)
        self._sums = {name: np.zeros(shape) for name in (*CLASSES, "unreachable")}

    def add(self, batch: pl.DataFrame) -> None:
        at = {name: self._at_moment(batch, name) for name in ("birth", "first", "last", "end")}
        never = batch.filter("void")
        born_void, ended_void = (self._at_moment(never, name) for name in ("birth", "end"))
        reachable_to_end = batch["on_gone"].equals(batch["on_end"])
        gone = at["end"] if reachable_to_end else self._at_moment(batch, "gone")
        self._sums["lag"] += at["birth"] - at["first"]
        self._sums["use"] += at["first"] - at["last"]
        # What is never used has its last moment at its birth, and is void from there on.
        self._sums["drag"] += (at["last"] - born_void) - (at["end"] - ended_void)
        self._sums["void"] += born_void - ended_void
        self._sums["unreachable"] += at["birth"] - gone

    def _at_moment(self, batch: pl.DataFrame, name: str) -> NDArray[np.float64]:
        """By step, the sizes of the objects that have the moment in it; and sizes times moments."""
        times = batch[f"on_{name}"].to_numpy().astype(np.float64)
        sizes = batch["size"].to_numpy().astype(np.float64)
        steps = np.minimum(times / self._width, PROFILE_STEPS).astype(np.int64)
        return np.stack(
            [
                np.bincount(steps, weights=weights, minlength=PROFILE_STEPS + 1)
                for weights in (sizes, sizes * times)
            ]
        )

    def means(self) -> dict[str, list[float]]:
        """By class, and for the objects that are still reachable, the mean of each step."""
        edges = np.arange(PROFILE_STEPS + 1) * self._width
        found = {}
        for name, (sizes, moments_) in self._sums.items():
            # The area left of an edge: each interval that began before it, up to the edge.
            area = edges * _before(sizes) - _before(moments_)
            found[name] = [round(max(float(v), 0.0), 1) for v in np.diff(area) / self._width]
        return found


def _before(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(sums)[:-1]))
