"""What a history holds, figure by figure, with the commits at which each changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tare.base.errors import MissingError
from tare.base.libraries import pl
from tare.gating.changes import COUNTED, MEASURED
from tare.history import steps

DEFAULT_METRICS = (*COUNTED, *MEASURED)
_KEY = ("study", "program", "manager", "metric", "unit", "obtained", "machine")


@dataclass(frozen=True)
class Point:
    """A figure of one commit: the median, and the extremes of its runs."""

    commit: str
    committed: str
    summary: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Step:
    """From one commit to ``point``'s the figure went from ``before`` to ``after``. Where it varies
    these are the medians of the commits up to the neighbouring steps."""

    point: Point
    before: float
    after: float


@dataclass(frozen=True)
class Series:
    """``machine`` is the processor, empty for counts, which are the same everywhere."""

    program: str
    manager: str
    metric: str
    unit: str
    obtained: str
    machine: str
    points: Sequence[Point]
    steps: Sequence[Step]

    @property
    def is_counted(self) -> bool:
        return self.metric in COUNTED


@dataclass(frozen=True)
class History:
    """``missing`` says what could not be looked for, and why; or is empty."""

    series: Sequence[Series]
    commits: Sequence[Point]
    """One for each commit, in order; their values say nothing."""
    missing: str = ""


def history(rows: pl.DataFrame, metrics: Sequence[str], threshold: float) -> History:
    """The series of ``metrics``, those that changed first; see ``tare.history.ledger`` for
    ``rows``."""
    chosen = rows.filter(pl.col("metric").is_in(metrics)).with_columns(
        pl.when(pl.col("metric").is_in(COUNTED))
        .then(pl.lit(""))
        .otherwise("machine")
        .alias("machine")
    )
    found: list[Series] = []
    missing = ""
    for key, frame in chosen.group_by(_KEY, maintain_order=True):
        points = _points(frame)
        values = [point.value for point in points]
        _, program, manager, metric, unit, obtained, machine = map(str, key)
        places: list[int] = []
        if metric in COUNTED:
            places = steps.of_counts(values, threshold)
        else:
            try:
                places = steps.of_measurements(values, threshold)
            except MissingError as error:
                missing = f"{error.message}: {error.hint}"
        changed = _steps(points, places, metric)
        found.append(Series(program, manager, metric, unit, obtained, machine, points, changed))
    order = {name: place for place, name in enumerate(metrics)}
    found.sort(key=lambda each: (not each.steps, order[each.metric], each.program, each.manager))
    return History(found, _points(rows), missing)


def _points(frame: pl.DataFrame) -> list[Point]:
    """A point for each commit; what was added for it more than once is taken together."""
    gathered = frame.group_by("commit", maintain_order=True).agg(
        pl.col("committed").first(),
        pl.col("summary").first(),
        pl.col("median").median(),
        pl.col("low").min(),
        pl.col("high").max(),
    )
    return [Point(*row) for row in gathered.iter_rows()]


def _steps(points: Sequence[Point], places: Sequence[int], metric: str) -> list[Step]:
    starts, ends = [0, *places], [*places, len(points)]
    values = [point.value for point in points]
    levels = [median(values[start:end]) for start, end in zip(starts, ends, strict=True)]
    if metric in COUNTED:
        return [Step(points[place], values[place - 1], values[place]) for place in places]
    return [
        Step(points[place], levels[number], levels[number + 1])
        for number, place in enumerate(places)
    ]
