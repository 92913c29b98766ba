"""What the explorer's page holds as data: names once, and columns of numbers that refer to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tare.answers.explorer.collecting import Collection, Summarised
from tare.base.libraries import pl
from tare.base.text import shortened, visible
from tare.base.version import __version__
from tare.campaign import drift
from tare.records.metrics import METRICS
from tare.records.results import PAGE_FILE
from tare.report.call_trees import CallTree
from tare.report.figures.marks import rounded

LONGEST_NAME = 200
LONGEST_TROUBLE = 300
MOST_TROUBLES = 20
_ROW_NUMBERS = ("median", "low", "high", "ratio", "ratio_low", "ratio_high")


@dataclass(frozen=True)
class Detail:
    """How much of a collection a page holds: whether the value of each run, how many nodes of each
    call tree, and how many rows of the summaries."""

    runs: bool
    nodes: int
    rows: int


@dataclass
class _Names:
    """Numbers for names, in the order in which they come."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def shown(self) -> list[str]:
        return [shortened(visible(name), LONGEST_NAME) for name in self.numbers]


def document(collection: Collection, detail: Detail) -> dict[str, Any]:
    """The page's data. ``rows`` has a list for each column; ``cuts`` says what is left out."""
    programs, managers, metrics = _Names(), _Names(), _Names()
    rows: list[tuple[Any, ...]] = []
    failures: list[tuple[int, int, int, str, int]] = []
    trees: list[dict[str, Any]] = []
    for number, member in enumerate(collection.members):
        values = _values(member.results.measurements) if detail.runs else {}
        for manager in _in_order(member):
            managers.number(manager)
        for row in member.summary.iter_rows(named=True):
            key = row["program"], row["manager"], row["metric"]
            rows.append(
                (
                    number,
                    programs.number(row["program"]),
                    managers.number(row["manager"]),
                    metrics.number(row["metric"]),
                    row["runs"],
                    *(_number(row[name]) for name in _ROW_NUMBERS),
                    row["verdict"],
                    values.get(key, []),
                )
            )
        for program, manager, status, count in _failures(member.results.measurements):
            place = programs.number(program), managers.number(manager)
            failures.append((number, *place, status, count))
        for tree in member.trees:
            place = programs.number(tree.program), managers.number(tree.manager)
            trees.append(_tree(number, *place, tree.largest(detail.nodes)))
    kept = rows[: detail.rows]
    columns = ("result", "program", "manager", "metric", "runs", *_ROW_NUMBERS, "verdict", "values")
    return {
        "tare": __version__,
        "folder": visible(collection.folder.resolve().name),
        "results": [_described(member, collection) for member in collection.members],
        "programs": programs.shown(),
        "managers": managers.shown(),
        "metrics": [_metric(name) for name in metrics.numbers],
        "rows": {
            name: [row[place] for row in kept]
            for place, name in enumerate(columns)
            if detail.runs or name != "values"
        },
        "failures": failures,
        "trees": trees,
        "measurements": sum(member.results.measurements.height for member in collection.members),
        "cuts": _cuts(detail, len(rows), collection.members),
        "troubles": [
            shortened(visible(text), LONGEST_TROUBLE)
            for text in collection.troubles[:MOST_TROUBLES]
        ],
    }


def _in_order(member: Summarised) -> list[str]:
    """The managers of a result as they were asked for, the baseline first."""
    run, there = member.results.run, set(member.summary["manager"])
    return [name for name in dict.fromkeys((run.baseline, *run.managers)) if name in there]


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(rounded(value))


def _values(measurements: pl.DataFrame) -> Mapping[tuple[str, str, str], list[float]]:
    good = measurements.filter((pl.col("status") == "ok") & pl.col("value").is_finite())
    table = good.sort("order").group_by("program", "manager", "metric").agg(pl.col("value"))
    return {
        (program, manager, metric): [rounded(value) for value in values]
        for program, manager, metric, values in table.iter_rows()
    }


def _failures(measurements: pl.DataFrame) -> list[tuple[str, str, str, int]]:
    bad = measurements.filter(pl.col("status") != "ok")
    table = bad.group_by("program", "manager", "status", maintain_order=True).len()
    return [(str(p), str(m), str(s), int(n)) for p, m, s, n in table.iter_rows()]


def _tree(result: int, program: int, manager: int, tree: CallTree) -> dict[str, Any]:
    return {
        "result": result,
        "program": program,
        "manager": manager,
        "title": visible(tree.title),
        "weights": [{"title": weight.title, "unit": weight.unit} for weight in tree.weights],
        "frames": tree.frames,
        "parents": tree.parents,
        "names": tree.names,
        "values": [[rounded(value) for value in totals] for totals in tree.values],
    }


def _described(member: Summarised, collection: Collection) -> dict[str, Any]:
    run, folder = member.results.run, member.results.folder
    page = folder / PAGE_FILE
    return {
        "name": visible(collection.folder.resolve().name if member.name == "." else member.name),
        "study": visible(run.study),
        "baseline": visible(run.baseline),
        "started": visible(run.started[:16].replace("T", " ")),
        "finished": bool(run.finished),
        "hardware": visible(drift.hardware(run)),
        "obtained": _obtained(member.results.measurements),
        "page": str(page.relative_to(collection.folder)) if page.is_file() else "",
    }


def _obtained(measurements: pl.DataFrame) -> dict[str, str]:
    """By metric, whether it was executed, simulated or replayed."""
    found: dict[str, list[str]] = {}
    for metric, obtained in measurements.select("metric", "obtained").unique().rows():
        found.setdefault(metric, []).append(visible(obtained))
    return {metric: " and ".join(sorted(words)) for metric, words in found.items()}


def _metric(name: str) -> dict[str, str]:
    metric = METRICS[name]
    return {
        "name": name,
        "title": metric.title,
        "unit": metric.unit,
        "explanation": metric.explanation,
    }


def _cuts(detail: Detail, rows: int, members: Sequence[Summarised]) -> list[str]:
    cuts = []
    if not detail.runs:
        cuts.append("the values of single runs")
    if rows > detail.rows:
        cuts.append(f"{rows - detail.rows:,} of {rows:,} rows of the summary")
    largest = max((len(tree.parents) for member in members for tree in member.trees), default=0)
    if largest > detail.nodes:
        cuts.append(f"of each call tree all but its {detail.nodes:,} largest nodes")
    return cuts
