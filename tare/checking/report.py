"""The study behind `tare check`: whether programs keep the limits that their file sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.text import markdown_code
from tare.base.units import format_percent
from tare.campaign import planning, rounds
from tare.checking.limits import (
    KEPT,
    NO_FIGURE,
    OVER,
    UNSETTLED,
    VERDICTS,
    Judged,
    judged,
    shown,
    title_of,
)
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.report.fields import Field, table, text, texts
from tare.report.model import Cell, Section, Table
from tare.studies import over_programs
from tare.studies.compare import report as compare

STUDY = "check"
TITLE = "Limits"
_TONES = {KEPT: "good", OVER: "bad", NO_FIGURE: "bad", UNSETTLED: "quiet"}


@dataclass(frozen=True)
class Checked:
    """A program, what it runs under, and the studies that measure what its limits are about."""

    program: str
    manager: str
    studies: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """``runs`` and ``warmup`` are of what is measured in time and memory; a count needs one run."""

    checked: tuple[Checked, ...]
    runs: int
    warmup: int
    seed: int


def next_round(plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next, given those that are done; empty when the study is complete."""
    for each in plan.checked:
        for study in each.studies:
            if runs := _runs(plan, each, study, records):
                return runs
    return []


def _runs(plan: Plan, each: Checked, study: str, records: Sequence[Record]) -> list[Run]:
    one = (each.program,), (each.manager,)
    if study == compare.STUDY:
        return compare.next_round(_timed(plan, each), records)
    return planning.next_round(planning.Plan(*one), records, study, over_programs()[study].observer)


def _timed(plan: Plan, each: Checked) -> rounds.Plan:
    """Nothing is compared, so no manager runs twice a round as a baseline does."""
    return rounds.Plan((each.program,), (each.manager,), "", plan.runs, plan.warmup, plan.seed)


def planned_runs(plan: Plan) -> int:
    """How many runs the plan takes when nothing fails."""
    return sum(
        rounds.planned_runs(_timed(plan, each)) if study == compare.STUDY else 1
        for each in plan.checked
        for study in each.studies
    )


def section(results: Results) -> Section:
    """What was asked, what was measured, and the verdicts."""
    rows = judged(results)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings(rows),
        tables=[_table(rows)],
    )


def findings(rows: Sequence[Judged]) -> list[str]:
    """In words, what matters first."""

    def named(row: Judged) -> str:
        return f"{row.program}: {title_of(row.metric)}"

    broken = [row for row in rows if row.verdict == OVER]
    silent = [row for row in rows if row.verdict == NO_FIGURE]
    unsettled = [row for row in rows if row.verdict == UNSETTLED]
    sentences = [
        f"{named(row)} is {shown(row.metric, row.median)}, more than {shown(row.metric, row.most)}."
        for row in broken
    ]
    sentences += [f"{named(row)}: no run gave a figure." for row in silent]
    sentences += [
        f"{named(row)} is {shown(row.metric, row.low)} to {shown(row.metric, row.high)}: more runs "
        f"are needed to tell whether it is within {shown(row.metric, row.most)}."
        for row in unsettled
    ]
    kept = sum(row.verdict == KEPT for row in rows)
    whole = f"{kept} of {len(rows)} limits are kept." if len(rows) != 1 else "The limit is kept."
    return [whole, *sentences] if kept else [*sentences, "No limit is kept."]


def _table(rows: Sequence[Judged]) -> Table:
    several = len({row.manager for row in rows}) > 1
    fields: list[Field[Judged]] = [
        texts("program", "", lambda row: row.program),
        texts("manager", "", lambda row: row.manager, essential=several),
        texts("metric", "", lambda row: row.metric),
        Field("limit", "The largest value allowed.", lambda row: _cell(row, row.most)),
        Field("measured", "The median of the runs.", lambda row: _cell(row, row.median)),
        Field(
            "interval",
            "95% interval; with few runs, the extremes.",
            lambda row: Cell(_interval(row), row.low),
            essential=False,
        ),
        Field(
            "of the limit",
            "The measured value as a percentage of the limit.",
            lambda row: Cell(*_part(row)),
            essential=False,
        ),
        Field("verdict", "", lambda row: text(row.verdict, _TONES[row.verdict]), numeric=False),
    ]
    present = {row.verdict for row in rows}
    notes = [f"{word}: {what}" for word, what in VERDICTS.items() if word in present]
    return table("table-limits", "Limits, and what was measured", rows, fields, notes)


def _cell(row: Judged, value: float | None) -> Cell:
    return Cell(shown(row.metric, value), value)


def _interval(row: Judged) -> str:
    if row.low is None or row.low == row.high:
        return ""
    return f"{shown(row.metric, row.low)} to {shown(row.metric, row.high)}"


def _part(row: Judged) -> tuple[str, float | None]:
    if row.median is None or row.most <= 0:
        return "", None
    return format_percent(row.median / row.most), row.median / row.most


def to_markdown(results: Results) -> str:
    """The table for a pull request: one line that says it all, and a row for each limit."""
    rows = judged(results)
    lines = [f"**{findings(rows)[0]}**", ""]
    lines.append("| program | metric | limit | measured | of the limit | |")
    lines.append("| --- | --- | ---: | ---: | ---: | --- |")
    for row in rows:
        word = row.verdict if row.verdict == KEPT else f"**{row.verdict}**"
        where = markdown_code(row.program)
        metric = markdown_code(row.metric)
        most, measured = shown(row.metric, row.most), shown(row.metric, row.median)
        lines.append(f"| {where} | {metric} | {most} | {measured} | {_part(row)[0]} | {word} |")
    return "\n".join(lines) + "\n"
