"""Whether a server's memory grows under a long load."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tare.base.units import format_bytes
from tare.report.fields import MANAGER, Field, sizes, table, text, texts
from tare.report.figures.marks import SERIES, Scale, scale_for
from tare.report.figures.percentiles import short_name
from tare.report.figures.profiles import Series, profile_spec
from tare.report.model import Cell, Figure, Table
from tare.studies.serve.details import Served
from tare.studykit.growth import GROWTH, PLATEAU, TONES, Growth, growth_of, of_runs

LONG_SECONDS = 50.0
"""Under load; in less a server is not done with its caches."""
_LAST = 10
"""The last tenth of the looks stands for the end."""
_HOUR = 3600.0
_STEPS = 200


@dataclass(frozen=True)
class Grown:
    """What the starts under a manager showed; times are seconds under load, without what lies
    between loads."""

    manager: str
    times: Sequence[float]
    memory: Sequence[float]
    growth: Growth

    @property
    def last(self) -> float:
        return median(self.memory[-max(1, len(self.memory) // _LAST) :])


def grown(starts: Mapping[str, Sequence[Served]]) -> list[Grown]:
    """Of managers whose loads were long: all starts together, and the looks of the one in the
    middle."""
    found = []
    for manager, served in starts.items():
        looks = [_under_load(one) for one in served]
        looks = [each for each in looks if each[0] and each[0][-1] >= LONG_SECONDS]
        if not looks:
            continue
        growth = of_runs([growth_of(*each) for each in looks])
        looks.sort(key=lambda each: each[1][-1])
        found.append(Grown(manager, *looks[len(looks) // 2], growth))
    return found


def _under_load(served: Served) -> tuple[list[float], list[float]]:
    times: list[float] = []
    memory: list[float] = []
    before = 0.0
    for phase in served.phases:
        if phase.name != "load":
            continue
        for when, number in served.memory:
            if phase.start <= when <= phase.end:
                times.append(before + when - phase.start)
                memory.append(float(number))
        before += phase.end - phase.start
    return times, memory


def growth_findings(found: Sequence[Grown]) -> list[str]:
    sentences = []
    for each in found:
        memory = f"{format_bytes(each.last)} at the end of the load"
        if each.growth.word == GROWTH:
            more = format_bytes((each.growth.slope or 0.0) * _HOUR)
            sentences.append(f"Memory grows under {each.manager}: {more} an hour ({memory}).")
        elif each.growth.word == PLATEAU:
            sentences.append(
                f"Memory reached a plateau under {each.manager}: in the second half of the load it "
                f"gained less than 1% ({memory})."
            )
        else:
            sentences.append(
                f"Whether memory grows under {each.manager} cannot be told: load it for longer "
                f"({memory})."
            )
    return sentences


def growth_table(found: Sequence[Grown], suffix: str, title: str) -> Table:
    fields: list[Field[Grown]] = [
        texts("manager", MANAGER, lambda one: one.manager),
        Field(
            "memory",
            "By the second half of the time under load: growth of more than 1%, a plateau, or "
            "undecided.",
            lambda one: text(one.growth.word, TONES[one.growth.word]),
            numeric=False,
        ),
        sizes("at first", "Resident memory when the load began.", lambda one: one.memory[0]),
        sizes("at last", "The median of the last tenth of the load.", lambda one: one.last),
        Field("in an hour", "Growth, by the slope of the second half; its 95% interval.", _slope),
    ]
    return table(f"table-growth{suffix}", f"{title}Memory over time", found, fields)


def _slope(one: Grown) -> Cell:
    growth = one.growth
    if growth.low is None or growth.high is None:
        return Cell("–")
    bounds = " – ".join(format_bytes(bound * _HOUR) for bound in (growth.low, growth.high))
    return Cell(bounds, growth.slope, TONES[growth.word])


def growth_figure(found: Sequence[Grown]) -> Figure:
    seconds = max(one.times[-1] for one in found)
    step = seconds / _STEPS
    highest = max(max(one.memory) for one in found)
    lines = [
        Series(
            short_name(one.manager),
            SERIES[number % len(SERIES)],
            _over_time(one, step),
            f"{one.manager}: {format_bytes(one.last)} at the end",
        )
        for number, one in enumerate(found)
    ]
    hours = seconds >= _HOUR
    scale = Scale(_HOUR, "h", "s") if hours else Scale(1.0, "s", "s")
    return Figure(
        "memory-over-time",
        "Resident memory over time",
        "Under load, without what lies between loads; one start of each manager, the one in the "
        "middle.",
        profile_spec(
            (scale, scale_for("B", float(highest))),
            ("time", "resident memory"),
            step,
            lines=lines,
        ),
        wide=True,
    )


def _over_time(one: Grown, step: float) -> list[float]:
    """The last look before each moment."""
    places = [max(0, bisect_right(one.times, (number + 1) * step) - 1) for number in range(_STEPS)]
    return [one.memory[place] for place in places]
