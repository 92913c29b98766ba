"""The study behind `tare soak`: one trace again and again, and what becomes of resident memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from tare.base.units import format_bytes
from tare.campaign import rounds
from tare.records import summary
from tare.records.header import Amount
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results, counted, read_records
from tare.report.fields import SERVED, Field, counts, sizes, table, text, texts
from tare.report.figures.marks import INK, SERIES, Scale, scale_for
from tare.report.figures.profiles import Series, profile_spec
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.soak.details import Details, Look, Soaked
from tare.studykit.growth import GROWTH, PLATEAU, TONES, Growth, growth_of, of_runs
from tare.studykit.replays import AskedOfReplay, ReplayRun

STUDY = "soak"
_STEPS = 200
_THOUSAND = 1000
_LAST, _IDLE = "last_resident_bytes", "last_idle_resident_bytes"
_MUCH = 2
"""Times what is alive between rounds, and a tenth of the most: this much memory is told of."""

next_round = partial(rounds.next_round, study=STUDY, observer=STUDY)
summarise = summary.summarise


class AskedOfSoak(AskedOfReplay, frozen=True, kw_only=True):
    pace: Amount = 0.0


class SoakRun(ReplayRun, frozen=True, kw_only=True):
    request: AskedOfSoak


@dataclass(frozen=True)
class _Served:
    """What a manager's good runs showed."""

    manager: str
    soaked: Sequence[Soaked]
    growth: Growth
    last: float
    idle: float

    @property
    def typical(self) -> Soaked:
        """The run whose memory at the end is in the middle."""
        ordered = sorted(self.soaked, key=lambda one: one.looks[-1].at_peak)
        return ordered[len(ordered) // 2]


def section(results: Results) -> Section:
    """Who grows, who reaches a plateau, in sentences, a table and a figure."""
    served = [*_served(results)]
    run = results.run_as(SoakRun)
    return Section(
        identifier=STUDY,
        title="The same trace, again and again",
        findings=[*_findings(served), *_way(run)],
        tables=[_table(served)],
        figures=[_figure(served)] if served else [],
        obtained=Obtained.REPLAYED,
    )


def _way(run: SoakRun) -> list[str]:
    """How the trace was followed, where that is not as fast as possible by one thread."""
    pace, parts = run.request.pace, []
    if run.request.how.threads:
        threads = run.schedule.threads
        parts.append(f"by {threads} thread{'s' if threads > 1 else ''}")
    if pace:
        fast = "" if pace == 1 else f"{pace:g} times "
        parts.append(f"at {fast}the recorded pace")
    return [f"The trace was followed {', '.join(parts)}."] if parts else []


def _served(results: Results) -> Iterator[_Served]:
    good = [
        record
        for record in counted(read_records(results.folder))
        if record.run.study == STUDY and record.outcome.status is Status.OK
    ]
    for manager in results.run.managers:
        mine = [record.outcome for record in good if record.run.manager == manager]
        soaked = [one for each in mine if (one := each.details_as(Details).soak) is not None]
        if soaked:
            growth = of_runs([_growth(one.looks) for one in soaked])
            last, idle = (median(each.values[name] for each in mine) for name in (_LAST, _IDLE))
            yield _Served(manager, soaked, growth, last, idle)


def _growth(looks: Sequence[Look]) -> Growth:
    return growth_of([look.round for look in looks], [look.at_peak for look in looks])


def _findings(served: Sequence[_Served]) -> list[str]:
    found = []
    for each in served:
        alive = each.typical.peak_bytes
        share = f"{each.last / alive:.2f} times what is alive" if alive else "with nothing alive"
        memory = f"{format_bytes(each.last)} at the end, {share}"
        if each.growth.word == GROWTH:
            more = _per_thousand(each.growth.slope)
            found.append(f"{each.manager} grows: {more} more in 1,000 rounds ({memory}).")
        elif each.growth.word == PLATEAU:
            found.append(f"{each.manager} has reached a plateau ({memory}).")
        else:
            found.append(f"{each.manager}: cannot tell, more --for is needed ({memory}).")
    found.sort(key=lambda sentence: "grows:" not in sentence)
    found += [
        f"{each.manager} keeps {format_bytes(each.idle)} between rounds, when "
        f"{format_bytes(each.typical.end_bytes)} are alive."
        for each in served
        if each.idle > max(_MUCH * each.typical.end_bytes, each.typical.peak_bytes / 10)
    ]
    return [
        *found,
        "What is alive at the end of a round stays until the next puts another object in its "
        "place.",
    ]


def _per_thousand(slope: float | None) -> str:
    return format_bytes((slope or 0.0) * _THOUSAND)


def _table(served: Sequence[_Served]) -> Table:
    fields: list[Field[_Served]] = [
        texts("manager", SERVED, lambda one: one.manager),
        Field(
            "memory",
            "By the second half of the rounds: growth of more than 1%, a plateau, or undecided.",
            lambda one: text(one.growth.word, TONES[one.growth.word]),
            numeric=False,
        ),
        counts("rounds", METRICS["soak_rounds"].explanation, lambda one: one.typical.rounds),
        sizes(
            "at first",
            METRICS["first_resident_bytes"].explanation,
            lambda one: one.typical.looks[0].at_peak,
        ),
        sizes("at last", METRICS[_LAST].explanation, lambda one: one.last),
        sizes(
            "alive",
            "The most bytes alive in a round, as asked for.",
            lambda one: one.typical.peak_bytes,
        ),
        sizes("between rounds", METRICS[_IDLE].explanation, lambda one: one.idle),
        sizes(
            "alive then",
            "Bytes alive at the end of a round, as asked for.",
            lambda one: one.typical.end_bytes,
        ),
        Field(
            "in 1,000 rounds", "Growth, by the slope of the second half; its 95% interval.", _slope
        ),
    ]
    return table("table-soak", "Resident memory", served, fields)


def _slope(one: _Served) -> Cell:
    growth = one.growth
    if growth.low is None or growth.high is None:
        return Cell("–")
    bounds = " – ".join(map(_per_thousand, (growth.low, growth.high)))
    return Cell(bounds, growth.slope, TONES[growth.word])


def _figure(served: Sequence[_Served]) -> Figure:
    seconds = max(one.typical.seconds for one in served)
    step = seconds / _STEPS
    highest = max(look.at_peak for one in served for look in one.typical.looks)
    lines = [
        Series(
            one.manager,
            SERIES[number % len(SERIES)],
            _over_time(one.typical, step),
            f"{one.manager}: {format_bytes(one.last)} at the end",
        )
        for number, one in enumerate(served)
    ]
    alive = max(one.typical.peak_bytes for one in served)
    lines.append(Series("alive", INK, [alive] * _STEPS, f"alive: {format_bytes(alive)}"))
    return Figure(
        "soak",
        "Resident memory over time",
        "When most bytes of a round are alive; one run of each manager, the one in the middle. "
        "Managers do different numbers of rounds in the same time.",
        profile_spec(
            (Scale(1.0, "s", "s"), scale_for("B", float(highest))),
            ("time", "resident memory"),
            step,
            lines=lines,
        ),
        wide=True,
    )


def _over_time(soaked: Soaked, step: float) -> list[float]:
    """The last look before each moment; rounds take equally long, near enough."""
    a_round = soaked.seconds / soaked.rounds
    times = [look.round * a_round for look in soaked.looks]
    places = [max(0, bisect_right(times, (number + 1) * step) - 1) for number in range(_STEPS)]
    return [float(soaked.looks[place].at_peak) for place in places]
