"""What changed between two results of the same programs, beyond noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tare.answers.changed_actions import headlines
from tare.base import statistics
from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.base.units import format_percent, format_value
from tare.records.header import Header
from tare.records.metrics import METRICS
from tare.records.results import Results
from tare.report.fields import MANAGER, Field, Row, percents, table, texts
from tare.report.figures.comparison import interval_figure
from tare.report.model import Cell, Figure, Report, Section, Table
from tare.report.notebook import as_html

JUDGED = ("wall_seconds", "user_seconds", "system_seconds", "peak_resident_bytes")
"""Metrics of which less is better whatever else holds. The others are shown, and never fail."""
FIGURES = ("wall_seconds", "peak_resident_bytes")
DEFAULT_THRESHOLD = 0.02
MOST_NAMED = 5
NOT_SETTINGS = ("load_average",)
"""Of the machine's description: what differs from one minute to the next."""

VERDICTS: dict[str, str] = {
    "newly failing": "All old runs succeeded, and some new ones failed.",
    "regression": "Worse beyond noise, and by more than the threshold.",
    "improvement": "Better beyond noise, and by more than the threshold.",
    "higher": "Higher beyond noise; this metric never fails.",
    "lower": "Lower beyond noise; this metric never fails.",
    "no longer failing": "All old runs failed, and all new ones succeeded.",
    "disappeared": "Only in the old results.",
    "appeared": "Only in the new results.",
    "failing": "No run succeeded, old or new.",
    "too few runs": "A difference, with too few runs to tell it from noise.",
    "within threshold": "A difference beyond noise, but not beyond the threshold.",
    "no ratio": "Old values may be zero, so there is no ratio to them.",
    "no difference seen": "Nothing beyond noise.",
}
"""In the order in which a reader wants them."""
_FAILING = ("regression", "newly failing")
_TONES = {
    "regression": "bad",
    "newly failing": "bad",
    "improvement": "good",
    "no longer failing": "good",
    "no difference seen": "quiet",
    "within threshold": "quiet",
    "no ratio": "quiet",
}

Key = tuple[str, str, str]


@dataclass(frozen=True)
class DiffResult:
    """``rows`` has the columns program, manager, metric, unit, runs_old, runs_new, old, new (the
    medians, in the unit), ratio, ratio_low, ratio_high (new to old), noise_floor (the larger of
    the two, as a fraction) and verdict, one of ``VERDICTS``."""

    rows: pl.DataFrame
    report: Report
    regressed: bool

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return as_html(self.report)


@dataclass(frozen=True)
class _Side:
    """One of the two results, ready to look things up in."""

    values: Mapping[Key, list[float]]
    failed: Mapping[tuple[str, str], bool]
    baseline: str

    def floor(self, program: str, metric: str, seed: int) -> float | None:
        return statistics.noise_floor(self.values.get((program, self.baseline, metric), ()), seed)


def diff(old: Results, new: Results, *, threshold: float = DEFAULT_THRESHOLD) -> DiffResult:
    """Compare ``new`` with ``old``, row by row of program, manager and metric.

    ``threshold`` is a fraction: a judged metric that got worse by less is no regression. Raises
    ``UsageError`` when the two do not answer the same question.
    """
    if old.run.baseline != new.run.baseline:
        raise UsageError(
            f"the baselines differ: {old.run.baseline} and {new.run.baseline}",
            "measure again with the same --baseline",
        )
    rows = _compare(_side(old), _side(new), threshold, old.run.seed)
    regressed = bool(rows["verdict"].is_in(_FAILING).any())
    warnings = _differences(old, new) + _drift(rows, old.run, new.run)
    return DiffResult(rows, _report(rows, old, new, threshold, warnings), regressed)


def _side(results: Results) -> _Side:
    frame = results.measurements.sort("order")
    good = frame.filter((pl.col("status") == "ok") & pl.col("value").is_finite())
    values = {
        (str(program), str(manager), str(metric)): part["value"].to_list()
        for (program, manager, metric), part in good.group_by(
            "program", "manager", "metric", maintain_order=True
        )
    }
    failed = {
        (str(program), str(manager)): bool((part["status"] != "ok").any())
        for (program, manager), part in frame.group_by("program", "manager", maintain_order=True)
    }
    return _Side(values, failed, results.run.baseline)


def _compare(old: _Side, new: _Side, threshold: float, seed: int) -> pl.DataFrame:
    if not old.failed.keys() & new.failed.keys():
        raise UsageError(
            "the two results have no program and manager in common",
            "compare results of the same programs under the same managers",
        )
    rows = []
    for program, manager in dict.fromkeys((*old.failed, *new.failed)):
        pair = (program, manager)
        found = [{m for p, n, m in side.values if (p, n) == pair} for side in (old, new)]
        everything = found[0] | found[1]
        metrics = [name for name in METRICS if name in everything]
        metrics += sorted(everything - METRICS.keys())
        if not all(found):  # one row says that nothing can be compared
            metrics = metrics[:1] or ["wall_seconds"]
        rows += [
            _compare_row(old, new, (*pair, metric), threshold, seed, told=number > 0)
            for number, metric in enumerate(metrics)
        ]
    floats = ("old", "new", "ratio", "ratio_low", "ratio_high", "noise_floor")
    schema = {
        **dict.fromkeys(("program", "manager", "metric", "unit"), pl.String),
        **dict.fromkeys(("runs_old", "runs_new"), pl.Int64),
        **dict.fromkeys(floats, pl.Float64),
        "verdict": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _compare_row(
    old: _Side, new: _Side, key: Key, threshold: float, seed: int, *, told: bool
) -> tuple[Any, ...]:
    program, _, metric = key
    before, after = old.values.get(key, []), new.values.get(key, [])
    floors = [side.floor(program, metric, seed) for side in (old, new)]
    floor = max((known for known in floors if known is not None), default=None)
    ratio = statistics.ratio_interval(after, before, seed)
    old_median, new_median = (
        statistics.median_interval(values, seed) for values in (before, after)
    )
    word = _status_verdict(old, new, key, told) or _value_verdict(
        metric, before, after, ratio, floor, threshold
    )
    return (
        *key,
        METRICS[metric].unit if metric in METRICS else "",
        len(before),
        len(after),
        old_median.median if old_median else None,
        new_median.median if new_median else None,
        *((ratio.median, ratio.low, ratio.high) if ratio else (None, None, None)),
        floor,
        word,
    )


def _status_verdict(old: _Side, new: _Side, key: Key, told: bool) -> str:
    """What the runs' statuses say, which comes before what their values say; or nothing.

    A failure has no metric: it is told once a program and manager, with the first metric.
    """
    program, manager, _ = key
    pair = (program, manager)
    if pair not in old.failed:
        return "appeared"
    if pair not in new.failed:
        return "disappeared"
    if not told:
        if new.failed[pair] and not old.failed[pair]:
            return "newly failing"
        if old.failed[pair] and not new.failed[pair] and key not in old.values:
            return "no longer failing"
    if key not in old.values and key not in new.values:
        return "failing"
    if key not in old.values:
        return "appeared"
    if key not in new.values:
        return "disappeared"
    return ""


def _value_verdict(
    metric: str,
    before: Sequence[float],
    after: Sequence[float],
    ratio: statistics.Interval | None,
    floor: float | None,
    threshold: float,
) -> str:
    if ratio is None:
        return "no difference seen" if sorted(before) == sorted(after) else "no ratio"
    word = statistics.verdict(ratio, floor, min(len(before), len(after)))
    if word not in ("lower", "higher") or metric not in JUDGED:
        return word
    if 1 / (1 + threshold) <= ratio.median <= 1 + threshold:
        return "within threshold"
    return "regression" if word == "higher" else "improvement"


def _told(part: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in part.items()) or "all"


def _differences(old: Results, new: Results) -> list[str]:
    """What besides the thing under test was not the same, one sentence each."""
    found = []
    machines = old.document["machine"], new.document["machine"]
    for name in dict.fromkeys((*machines[0], *machines[1])):
        before, after = (machine.get(name) for machine in machines)
        if before != after and name not in NOT_SETTINGS:
            found.append(f"the machines differ in {name.replace('_', ' ')}: {before} → {after}")
    before, after = (run.request.machine for run in (old.run, new.run))
    if before != after:
        told = " → ".join(_told(part) for part in (before, after))
        found.append(f"the runs were bound to different parts of the machine: {told}")
    inherited = [results.run.environment.values for results in (old, new)]
    for name in sorted(inherited[0].keys() | inherited[1].keys()):
        if inherited[0].get(name) != inherited[1].get(name):
            found.append(f"the environment differs in {name}")
    programs = [{p.name: p for p in results.run.programs} for results in (old, new)]
    for name in programs[0].keys() & programs[1].keys():
        before, after = (described[name] for described in programs)
        for field, what in (
            ("executable_sha256", "was rebuilt: a change may come from the program itself"),
            ("stdin_sha256", "read another input"),
            ("argv", "had other arguments"),
            ("environment", "had another environment"),
        ):
            if getattr(before, field) != getattr(after, field):
                found.append(f"{name} {what}")
    managers = old.run.managers, new.run.managers
    for name in managers[0].keys() & managers[1].keys():
        was, now = (described[name] for described in managers)
        if was.version != now.version:
            found.append(f"{name} was {was.version} and is {now.version}")
        elif was.object_sha256 != now.object_sha256:
            found.append(f"{name} was rebuilt from the same version")
    if old.run.tare != new.run.tare:
        found.append(f"the versions of Tare differ: {old.run.tare} → {new.run.tare}")
    return sorted(found)


def _drift(rows: pl.DataFrame, old: Header, new: Header) -> list[str]:
    """Programs that are the same file and yet changed under the baseline: the machine did."""
    hashes = [{p.name: p.executable_sha256 for p in run.programs} for run in (old, new)]
    found = []
    for row in rows.iter_rows(named=True):
        same = hashes[0].get(row["program"]) and hashes[0][row["program"]] == hashes[1].get(
            row["program"]
        )
        is_baseline = row["manager"] == new.baseline and row["metric"] == "wall_seconds"
        if same and is_baseline and row["verdict"] in ("regression", "improvement"):
            found.append(
                f"{row['program']} is the same file, but changed under the baseline "
                f"{row['manager']} ({_change(row)}): the machine may have changed, not the program"
            )
    return found


def _report(
    rows: pl.DataFrame, old: Results, new: Results, threshold: float, warnings: Sequence[str]
) -> Report:
    judged = rows.filter(pl.col("metric").is_in(JUDGED))
    others = rows.filter(~pl.col("metric").is_in(JUDGED))
    tables = [_table("table-changes", "Time and memory, new against old", judged)]
    if others.height:
        tables.append(_table("table-others", "Other metrics, never counted as regressions", others))
    section = Section(
        identifier="diff",
        title="What changed",
        findings=[*headlines(old, new), *_findings(judged, threshold)],
        tables=tables,
        figures=_figures(judged),
        obtained=_obtained(new),
    )
    facts = [
        *(("Old", str(old.folder)), ("New", str(new.folder))),
        *(("Old started", old.run.started), ("New started", new.run.started)),
        ("Threshold", format_percent(threshold)),
        ("Baseline of the noise floor", new.run.baseline),
    ]
    subtitle = f"{old.folder.name} → {new.folder.name}"
    return Report(
        "What changed, beyond noise",
        subtitle,
        facts,
        sections=[section],
        warnings=tuple(warnings),
    )


def _obtained(results: Results) -> str:
    found = results.measurements["obtained"].drop_nulls().unique()
    return str(found[0]) if len(found) == 1 else "executed"


def _findings(judged: pl.DataFrame, threshold: float) -> list[str]:
    found = []
    for verdict, noun in (
        ("newly failing", "new failure"),
        ("regression", "regression"),
        ("improvement", "improvement"),
    ):
        rows = [r for r in judged.iter_rows(named=True) if r["verdict"] == verdict]
        rows.sort(key=lambda row: -abs((row["ratio"] or 1) - 1))
        if not rows:
            continue
        named = [
            f"{row['program']} under {row['manager']}"
            + ("" if verdict == "newly failing" else f", {_change(row)}")
            for row in rows[:MOST_NAMED]
        ]
        more = f"; and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
        plural = "s" if len(rows) > 1 else ""
        found.append(f"{len(rows)} {noun}{plural}: {'; '.join(named)}{more}.")
    if not any(row in _FAILING for row in judged["verdict"]):
        found.append(
            f"No regression: nothing got worse beyond noise and {format_percent(threshold)}."
        )
    return found


def _change(row: Mapping[str, Any]) -> str:
    direction = "higher" if row["ratio"] > 1 else "lower"
    bounds = sorted(bound - 1 for bound in (row["ratio_low"], row["ratio_high"]))
    return (
        f"{_title(row['metric'])} {format_percent(row['ratio'] - 1)} {direction} "
        f"(95% interval {bounds[0]:+.1%} to {bounds[1]:+.1%})"
    )


def _table(identifier: str, title: str, rows: pl.DataFrame) -> Table:
    names = rows["program"].unique().to_list()
    if len(names) == 1:
        title = f"{title}: {names[0]}"
    severity = {verdict: place for place, verdict in enumerate(VERDICTS)}
    ordered = sorted(rows.iter_rows(named=True), key=lambda row: severity[row["verdict"]])
    present = dict.fromkeys(row["verdict"] for row in ordered)
    notes = [f"{verdict}: {VERDICTS[verdict]}" for verdict in present]

    def tone(row: Row) -> str:
        return _TONES.get(row["verdict"], "")

    def interval(row: Row) -> Cell:
        return Cell(f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f}", row["ratio_low"])

    fields: list[Field[Row]] = [
        texts("program", "The measured program.", "program", essential=len(names) > 1),
        texts("manager", MANAGER, "manager"),
        texts("metric", "The quantity that is compared.", lambda row: _title(row["metric"])),
        _where_known("old", "old", "Median of the old runs.", partial(_value, name="old")),
        _where_known("new", "new", "Median of the new runs.", partial(_value, name="new")),
        _where_known(
            "ratio",
            "new/old",
            "Ratio of the medians; below 1 is less than before.",
            lambda row: Cell(f"{row['ratio']:.3f}", row["ratio"], tone(row)),
        ),
        _where_known(
            "ratio", "95% interval", "95% interval of the ratio, from a bootstrap.", interval
        ),
        _where_known(
            "noise_floor",
            "noise floor",
            "How much the baseline differed from itself: the larger of old and new.",
            lambda row: replace(percents.cell(row["noise_floor"]), tone="quiet"),
            essential=False,
        ),
        Field(
            "runs",
            "Successful runs, old and new.",
            lambda row: Cell(
                f"{row['runs_old']}, {row['runs_new']}", min(row["runs_old"], row["runs_new"])
            ),
            essential=False,
        ),
        Field(
            "verdict",
            "What the change amounts to.",
            lambda row: Cell(row["verdict"], severity[row["verdict"]], tone(row)),
            numeric=False,
        ),
    ]
    return table(identifier, title, ordered, fields, notes)


def _where_known(
    name: str, title: str, help: str, cell: Callable[[Row], Cell], *, essential: bool = True
) -> Field[Row]:
    """A field of rows that may have nothing under ``name``."""

    def value(row: Row) -> Cell:
        return Cell("-", tone="quiet") if row[name] is None else cell(row)

    return Field(title, help, value, essential=essential)


def _value(row: Row, name: str) -> Cell:
    return Cell(format_value(row[name], row["unit"]), row[name])


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else metric


def _figures(judged: pl.DataFrame) -> list[Figure]:
    words = {
        "regression": "higher",
        "improvement": "lower",
        "within threshold": "no difference seen",
    }
    figures = []
    for metric in FIGURES:
        rows = judged.filter((pl.col("metric") == metric) & pl.col("ratio").is_not_null())
        if rows.height:
            figure = interval_figure(
                rows.with_columns(pl.col("verdict").replace(words)), metric, "the old results"
            )
            title = f"{METRICS[metric].title.capitalize()}, new against old"
            caption = figure.caption.replace("from the baseline", "from the old results")
            figures.append(replace(figure, title=title, caption=caption))
    return figures
