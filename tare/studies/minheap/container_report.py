"""The study behind `tare minheap --container -- PROGRAM`: the least memory limit of a container for
a program under each manager, and the time near it.

A run is the whole search for one manager; its record holds every trial, and what was timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from tare.base.units import format_bytes, format_percent, format_ratio
from tare.records import summary
from tare.records.evidence import Judged, judge_apart
from tare.records.header import Asked, Header
from tare.records.metrics import Obtained, Status
from tare.records.results import Results, read_records
from tare.records.runs import Number, Record
from tare.report.fields import MANAGER, NOTHING, Field, Row, numbers, ratios, sizes, table, texts
from tare.report.figures.curves import Mark, curves_spec
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.minheap.details import Details, Near, Timed
from tare.studies.minheap.replayed_report import trials_row

STUDY = "minheap-container"
OBSERVER = "minheap-container"
TITLE = "The least memory limit of a container"
LOW, HIGH = "container_low_bytes", "container_high_bytes"
NO_LIMIT, NO_QUOTA = 0.0, -1.0
"""In place of a multiple of the least limit: runs in a container without one, and in none."""
MULTIPLES = (1.0, 1.25, 1.5, 2.0)
"""Limits near the least one at which the program is timed."""
RUNS = 6
"""With each of them, and without a limit; fewer give no interval."""
_TONES = {"higher": "bad", "lower": "good"}

summarise = partial(summary.summarise_range, first_metric=HIGH)


class AskedOfContainer(Asked, frozen=True, kw_only=True):
    slow: float
    quota: float | None = None


class ContainerRun(Header, frozen=True, kw_only=True):
    request: AskedOfContainer
    cgroup_version: Number


@dataclass(frozen=True)
class _Found:
    """What the search for one manager showed."""

    record: Record
    near: dict[float, Near]
    seed: int

    @property
    def manager(self) -> str:
        return self.record.run.manager

    @property
    def least(self) -> float:
        return float(self.record.outcome.values[HIGH])

    def limits(self) -> list[float]:
        return [multiple for multiple in self.near if multiple > 0]

    def judged(self, multiple: float, value: Callable[[Timed], float]) -> Judged:
        """The ratio of times with a limit to those without."""
        mine, base = (
            [value(one) for one in self.near[each].timed] for each in (multiple, NO_LIMIT)
        )
        return judge_apart(mine, base, self.seed)

    def memory(self, multiple: float) -> float | None:
        timed = self.near[multiple].timed if multiple in self.near else ()
        return median(one.resident_bytes for one in timed) if timed else None


def section(results: Results) -> Section:
    """Findings, tables and the figure of the searches in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    run = results.run_as(ContainerRun)
    found = sorted(_found(records, run.seed), key=lambda each: each.least)
    figure = _figure(found)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=[*_findings(run, found)],
        tables=[_table(run, found), _near_table(found), _trials_table(records)],
        figures=[figure] if figure is not None else [],
        obtained=Obtained.EXECUTED,
    )


def _found(records: Sequence[Record], seed: int) -> Iterator[_Found]:
    for record in records:
        if record.outcome.status is Status.OK:
            near = record.outcome.details_as(Details).near
            yield _Found(record, {each.multiple: each for each in near}, seed)


def _wall(timed: Timed) -> float:
    return timed.wall_seconds


def _processor(timed: Timed) -> float:
    return timed.processor_seconds


def _findings(run: ContainerRun, found: Sequence[_Found]) -> Iterator[str]:
    if found:
        best, most = found[0], found[-1]
        more = f"; {most.manager} needs {format_bytes(most.least)}" if most is not best else ""
        yield (
            f"The least memory limit is that of {best.manager}: {format_bytes(best.least)}{more}."
        )
    for each in found:
        yield _slowdown(each)
    asked = run.request
    if asked.quota is not None:
        yield (
            f"The container has the time of {asked.quota:g} processors, and the program sees "
            f"{run.machine.cores}."
        )
    yield (
        "A limit is large enough if the program succeeds in it and takes at most "
        f"{asked.slow:g} times its processor time in much memory. There is no swap; a limit also "
        "counts what the kernel keeps for the program, and files, which it can drop."
    )


def _slowdown(each: _Found) -> str:
    """How much slower a program is at the least limit, and from which on it is not."""
    limits = sorted(each.limits())
    slower = [m for m in limits if each.judged(m, _wall).word == "higher" or each.near[m].killed]
    if not slower:
        return f"{each.manager}: not seen to be slower at its least limit than without one."
    first, at_least = each.near[limits[0]], each.judged(limits[0], _wall)
    parts = []
    if at_least.word == "higher" and at_least.ratio is not None:
        parts.append(f"{format_percent(at_least.ratio.median - 1)} slower")
    if first.killed:
        parts.append(f"{first.killed} of {RUNS} runs killed")
    how = f"at its least limit {', '.join(parts)}; " if parts else ""
    free = [m for m in limits if m > max(slower)]
    rest = f"no difference seen from {free[0]:g} times that on" if free else "slower at all limits"
    return f"{each.manager}: {how}{rest}."


def _table(run: ContainerRun, found: Sequence[_Found]) -> Table:
    least = min((each.least for each in found), default=1.0)
    quota = run.request.quota is not None
    between = "The least limit lies between these: the program never fitted up to the first."
    peak = "Peak resident memory in a container without a limit on memory; the median."

    def interval(each: _Found) -> str:
        low, high = (each.record.outcome.values[name] for name in (LOW, HIGH))
        return f"{format_bytes(low)} – {format_bytes(high)}"

    fields: list[Field[_Found]] = [
        texts("manager", MANAGER, lambda each: each.manager),
        sizes(
            "least limit", "From this limit on the program always fitted.", lambda each: each.least
        ),
        texts("interval", between, interval),
        ratios(
            "over the least",
            "The least limit divided by the smallest one.",
            lambda each: each.least / least,
        ),
        sizes("memory without limit", peak, lambda each: each.memory(NO_LIMIT)),
        sizes(
            "without quota",
            "The same, with all processors.",
            lambda each: each.memory(NO_QUOTA),
            shown=quota,
        ),
    ]
    return table("table-minheap-container", "Least limits", found, fields)


def _near_table(found: Sequence[_Found]) -> Table:
    """How much longer runs take, by their limit."""

    def field(multiple: float) -> Field[_Found]:
        title = "at the least" if multiple == 1 else f"{multiple:g} times"
        help = (
            f"Wall time with a limit of {multiple:g} times the least one, divided by that without "
            "a limit; its 95% interval."
        )
        return Field(title, help, lambda each: _ratio_cell(each, multiple, _wall))

    multiples = sorted({multiple for each in found for multiple in each.limits()})
    fields: list[Field[_Found]] = [
        texts("manager", MANAGER, lambda each: each.manager),
        *map(field, multiples),
        numbers(
            "ended early",
            "Runs at these limits that were killed or failed; they are not among the times.",
            lambda each: sum(near.killed + near.failed for near in each.near.values()),
        ),
        Field(
            "processor time",
            "At the least limit, divided by that without a limit; its 95% interval.",
            lambda each: _ratio_cell(each, 1.0, _processor),
            essential=False,
        ),
    ]
    notes = ["coloured: a difference beyond noise."]
    return table("table-minheap-container-near", "Time near the least limit", found, fields, notes)


def _ratio_cell(each: _Found, multiple: float, value: Callable[[Timed], float]) -> Cell:
    judged = each.judged(multiple, value)
    if judged.ratio is None:
        return NOTHING
    ratio = judged.ratio
    words = f"{format_ratio(ratio.median)} ({format_ratio(ratio.low)} – {format_ratio(ratio.high)})"
    return Cell(words, ratio.median, _TONES.get(judged.word, ""))


def _trials_table(records: Sequence[Record]) -> Table:
    fields: list[Field[Row]] = [
        texts("manager", MANAGER, "manager"),
        numbers("fitted", "Runs that succeeded.", "ok"),
        numbers("killed", "Runs that the kernel killed at the limit.", "out-of-memory"),
        numbers("too slow", "Runs that took too much processor time.", "timeout"),
        numbers("failed otherwise", "Runs that ended badly, but were not killed.", "failed"),
    ]
    return table("table-minheap-container-trials", "The trials", map(trials_row, records), fields)


def _figure(found: Sequence[_Found]) -> Figure | None:
    marks = [
        Mark(each.manager, multiple, _row(judged), is_curve=True)
        for each in found
        for multiple in sorted(each.limits())
        if (judged := each.judged(multiple, _wall)).ratio is not None
    ]
    titles = ("memory limit, as a multiple of the least", "relative to no limit")
    spec = curves_spec([("wall time", marks)], None, titles, of="the least limit")
    if spec is None:
        return None
    return Figure(
        "minheap-container",
        "Wall time near the least limit",
        "Against the memory limit; bars are 95% intervals. Filled: a difference beyond noise.",
        spec,
    )


def _row(judged: Judged) -> Row:
    assert judged.ratio is not None
    return {
        "ratio": judged.ratio.median,
        "ratio_low": judged.ratio.low,
        "ratio_high": judged.ratio.high,
        "verdict": judged.word,
    }
