"""What `tare history` shows: the commits that changed a figure, newest first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.base.text import listed, shortened, visible
from tare.base.units import format_percent, format_value
from tare.gating.report import figure_title
from tare.history.series import History, Point, Series, Step
from tare.history.steps import FEWEST
from tare.report.fields import NOTHING, Field, numbers, table, texts
from tare.report.figures.marks import (
    MUTED,
    SERIES,
    TIMES,
    Spec,
    layer,
    measure,
    params,
    ratio_axis,
)
from tare.report.model import Cell, Figure, Report, Section, Table

TITLE = "History"
_SHORT = 9
"""Characters of a commit's name that are shown."""
_MOST_COMMITS = 8
"""With changes, in words."""
_MOST_WORDS = 6
_MOST_FIGURES = 12
_MOST_POINTS = 150
"""Of a line: the newest commits."""
_LONGEST_SUMMARY = 60


def report(history: History, folder: Path, threshold: float) -> Report:
    first, last = history.commits[0], history.commits[-1]
    section = Section(
        identifier="history",
        title="What changed, and at which commit",
        findings=findings(history, threshold),
        tables=[_table(history.series)],
        figures=_figures(history.series),
    )
    facts = [
        ("Folder", str(folder)),
        ("Commits", f"{len(history.commits)}, {_named(first)} to {_named(last)}"),
        ("Threshold", format_percent(threshold)),
    ]
    return Report(TITLE, folder.resolve().name, facts, sections=[section])


def findings(history: History, threshold: float) -> list[str]:
    """In words, the newest change first."""
    programs = {each.program for each in history.series}
    by_commit: dict[str, list[tuple[Series, Step]]] = {}
    for point in reversed(history.commits):
        found = [
            (each, step)
            for each in history.series
            for step in each.steps
            if step.point.commit == point.commit
        ]
        if found:
            by_commit[_told(point)] = sorted(found, key=lambda pair: -abs(_change(pair[1])))
    sentences = [
        f"{commit}: {listed(_words(found, several=len(programs) > 1))}."
        for commit, found in list(by_commit.items())[:_MOST_COMMITS]
    ]
    if len(by_commit) > _MOST_COMMITS:
        sentences.append(f"{len(by_commit) - _MOST_COMMITS} older commits changed figures, too.")
    if not sentences:
        sentences.append(f"No commit changed a figure by more than {format_percent(threshold)}.")
    few = [each for each in history.series if not each.is_counted and len(each.points) < 2 * FEWEST]
    if few:
        sentences.append(
            f"Times and peaks need {2 * FEWEST} commits on one kind of processor; "
            f"some have {min(len(each.points) for each in few)}."
        )
    if history.missing:
        sentences.append(f"Cannot tell: {history.missing}.")
    return sentences


def _words(found: Sequence[tuple[Series, Step]], *, several: bool) -> list[str]:
    """What one commit changed; what is the same under several managers once."""
    alike: dict[tuple[str, str, str], list[tuple[Series, Step]]] = {}
    for each, step in found:
        key = (each.program, each.metric, _change_text(step))
        alike.setdefault(key, []).append((each, step))
    words = []
    for (program, metric, change), pairs in list(alike.items())[:_MOST_WORDS]:
        each, step = pairs[0]
        before, after = (format_value(value, each.unit) for value in (step.before, step.after))
        of = f" of {visible(program)}" if several else ""
        under = each.manager if len(pairs) == 1 else f"{len(pairs)} managers"
        words.append(f"{figure_title(metric)}{of} {change} ({before} → {after}, {under})")
    return words


def _change(step: Step) -> float:
    return step.after / step.before - 1 if step.before else float("inf")


def _change_text(step: Step) -> str:
    return f"{_change(step):+.1%}" if step.before else "from nothing"


def _named(point: Point) -> str:
    return visible(point.commit[:_SHORT])


def _told(point: Point) -> str:
    """A commit as a reader finds it again."""
    summary = f" {visible(shortened(point.summary, _LONGEST_SUMMARY))}" if point.summary else ""
    return f"{_named(point)}{summary} ({point.committed[:10]})"


def _table(series: Sequence[Series]) -> Table:
    programs = {each.program for each in series}
    machines = {each.machine for each in series if each.machine}
    fields: list[Field[Series]] = [
        texts("figure", "", lambda row: figure_title(row.metric)),
        texts("program", "The measured program.", lambda row: row.program,
              shown=len(programs) > 1),
        texts("manager", "What served its memory.", lambda row: row.manager),
        texts("processor", "Empty for counts, which are the same everywhere.",
              lambda row: row.machine, essential=False, shown=len(machines) > 1),
        numbers("commits", "With this figure.", lambda row: len(row.points)),
        Field("first", "At the oldest commit.", lambda row: _cell(row, row.points[0].value)),
        Field("last", "At the newest commit.", lambda row: _cell(row, row.points[-1].value)),
        Field("last/first", "Below 1 is less than at first.", _ratio),
        texts("last change", "The commit at which it changed last.", _last_change),
        texts("obtained", "How.", lambda row: row.obtained, essential=False),
    ]  # fmt: skip
    return table("table-history", "Figures over the commits", series, fields)


def _cell(row: Series, value: float) -> Cell:
    return Cell(format_value(value, row.unit), value)


def _ratio(row: Series) -> Cell:
    first, last = row.points[0].value, row.points[-1].value
    if not first:
        return NOTHING
    tone = "quiet" if not row.steps else "bad" if last > first else "good"
    return Cell(f"{last / first:.3f}", last / first, tone)


def _last_change(row: Series) -> str:
    if not row.steps:
        return "none"
    step = row.steps[-1]
    return f"{_named(step.point)} {_change_text(step)}"


def _figures(series: Sequence[Series]) -> list[Figure]:
    """One for each figure of each program, with a line for each manager and processor."""
    together: dict[tuple[str, str], list[Series]] = {}
    for each in series:
        if len(each.points) > 1 and each.points[0].value:
            together.setdefault((each.program, each.metric), []).append(each)
    drawn = list(together.items())[:_MOST_FIGURES]
    return [_figure(number, *key, lines) for number, (key, lines) in enumerate(drawn)]


def _figure(number: int, program: str, metric: str, lines: Sequence[Series]) -> Figure:
    lines = [
        replace(each, points=each.points[-_MOST_POINTS:])
        for each in sorted(lines, key=lambda each: each.manager)[: len(SERIES)]
    ]
    names = [_line_name(each, lines) for each in lines]
    dates = {point.commit: point.committed for each in lines for point in each.points}
    places = {name: place for place, name in enumerate(sorted(dates, key=dates.__getitem__))}
    steps = sorted(
        places.keys() & {step.point.commit for each in lines for step in each.steps},
        key=lambda name: places[name],
    )
    drawn = [
        {
            "name": name,
            "place": places[point.commit],
            **{key: getattr(point, key) / each.points[0].value for key in ("value", "low", "high")},
            "tip": f"{name}, {_told(point)}: {format_value(point.value, each.unit)}",
        }
        for name, each in zip(names, lines, strict=True)
        for point in each.points
    ]
    labels = [visible(commit[:_SHORT]) for commit in places]
    x: Spec = {
        "scale": {"zero": False, "nice": False, "padding": 12},
        "axis": {
            "title": "commit, by date",
            "grid": False,
            "tickMinStep": 1,
            "tickCount": {"expr": "narrow ? 3 : 5"},
            "labelExpr": f"{json.dumps(labels)}[datum.value]",
        },
    }
    y = ratio_axis([1.0, *(row["low"] for row in drawn), *(row["high"] for row in drawn)], "")
    y["axis"]["title"] = f"{TIMES} the first commit here"
    at = {"x": measure("place", x), "y": measure("value", y)}
    colours: Spec = {
        "field": "name",
        "type": "nominal",
        "scale": {"domain": names, "range": list(SERIES[: len(names)])},
        "legend": {"title": None, "columns": {"expr": "narrow ? 2 : 5"}, "symbolType": "circle"},
    }
    layers = [
        layer(
            {"type": "rule", "color": MUTED, "strokeDash": [2, 2], "aria": False},
            [{"place": places[commit]} for commit in steps],
            x=at["x"],
        ),
        layer(
            {"type": "rule", "strokeWidth": 2, "opacity": 0.35, "aria": False},
            drawn,
            x=at["x"],
            y=measure("low", y),
            y2={"field": "high"},
            color=colours,
        ),
        layer({"type": "line", "strokeWidth": 1.5, "aria": False}, drawn, **at, color=colours),
        layer({"type": "circle", "size": 36, "opacity": 1}, drawn, **at, color=colours),
    ]
    told = (
        f"Changed at {listed([visible(commit[:_SHORT]) for commit in steps])}: dashed lines."
        if steps
        else "None of these changed it for good."
    )
    return Figure(
        f"figure-history-{number}",
        f"{figure_title(metric).capitalize()} of {visible(shortened(program, 40))}",
        f"Medians, with the extremes of a commit's runs, of {_MOST_POINTS} commits at most. {told}",
        {"params": params(), "height": 200, "layer": layers},
        essential=bool(steps) or number == 0,
    )


def _line_name(each: Series, lines: Sequence[Series]) -> str:
    machines = {line.machine for line in lines}
    name = each.manager if len(machines) == 1 else f"{each.manager}, {each.machine}"
    return visible(shortened(name, 40))


def document(history: History, threshold: float) -> dict[str, Any]:
    """What ``--json`` has: ``steps`` newest first, and all points of each series."""

    def step(each: Series, one: Step) -> dict[str, Any]:
        return {
            "commit": one.point.commit,
            "committed": one.point.committed,
            "program": each.program,
            "manager": each.manager,
            "metric": each.metric,
            "machine": each.machine,
            "before": one.before,
            "after": one.after,
        }

    changes = [step(each, one) for each in history.series for one in each.steps]
    return {
        "schema": 1,
        "threshold": threshold,
        "steps": sorted(changes, key=lambda one: str(one["committed"]), reverse=True),
        "series": [
            {
                "program": each.program,
                "manager": each.manager,
                "metric": each.metric,
                "unit": each.unit,
                "obtained": each.obtained,
                "machine": each.machine,
                "points": [
                    {"commit": point.commit, "committed": point.committed, "value": point.value}
                    for point in each.points
                ],
            }
            for each in history.series
        ],
        "missing": history.missing,
    }
