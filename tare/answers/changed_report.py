"""What `tare diff` shows: what was gained and lost, the call sites, and the figures behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tare.answers.changed_actions import headlines
from tare.answers.changed_figures import FAILING, JUDGED, MEASURED, VERDICTS, Means
from tare.base.libraries import pl
from tare.base.units import format_percent, format_value
from tare.gating.changes import COUNTED
from tare.gating.report import figure_title
from tare.gating.sites import ChangedSites
from tare.heap_traces.frames import site_text
from tare.records.evidence import UNSEEN
from tare.records.header import Header
from tare.records.metrics import METRICS
from tare.records.results import Results
from tare.report.fields import MANAGER, Field, Row, percents, table, texts
from tare.report.figures.intervals import interval_figure
from tare.report.model import Cell, Figure, Report, Section, Table
from tare.studykit.changed_sites import difference_figures, sites_table

_FIRST = (
    *("allocated_bytes", "instructions", "objects", "max_live_bytes", "peak_free_bytes"),
    *("simulated_cycles", "peak_resident_bytes", "wall_seconds"),
    *("requests_per_second", "latency_p99_seconds", "idle_resident_bytes"),
)
"""What a headline has, in this order."""
_AMOUNTS = {
    "allocated_bytes": ("more bytes asked for", "fewer bytes asked for"),
    "instructions": ("more instructions", "fewer instructions"),
    "objects": ("more objects", "fewer objects"),
    "max_live_bytes": ("higher peak of live bytes", "lower peak of live bytes"),
    "peak_free_bytes": ("higher peak of live bytes", "lower peak of live bytes"),
    "simulated_cycles": ("more simulated cycles", "fewer simulated cycles"),
    "peak_resident_bytes": ("higher peak memory", "lower peak memory"),
    "wall_seconds": ("more wall time", "less wall time"),
    "requests_per_second": ("more requests a second", "fewer requests a second"),
    "latency_p99_seconds": ("longer p99", "shorter p99"),
    "idle_resident_bytes": ("more memory when idle", "less memory when idle"),
}
_ALSO = ("never_freed_bytes", "drag_ratio")
"""Never judged, but said of a program that changed."""
_OF_SITES = {"allocated_bytes": "bytes", "instructions": "instructions", "objects": "objects"}
"""What call sites have of a metric: of sums over a run alone, as each peak has its own moment."""
FIGURES = ("wall_seconds", "peak_resident_bytes")
MOST_NAMED = 5
_TONES = {
    "regression": "bad",
    "newly failing": "bad",
    "improvement": "good",
    "no longer failing": "good",
    "no difference seen": "quiet",
    "within threshold": "quiet",
    "no ratio": "quiet",
    "cannot tell": "quiet",
}


def build(
    rows: pl.DataFrame,
    sides: tuple[Results, Results],
    means: Means,
    sites: Sequence[tuple[str, ChangedSites]],
    warnings: Sequence[str],
) -> Report:
    """Of the ``rows`` of ``changed_figures``; ``sites`` are by program."""
    old, new = sides
    is_count = pl.col("metric").is_in(COUNTED) & pl.col("ratio").is_not_null()
    groups = [
        ("table-counts", "Counts, new against old", is_count),
        ("table-changes", "Time and memory, new against old", pl.col("metric").is_in(MEASURED)),
        (
            "table-others",
            "Other metrics, never counted as regressions",
            ~is_count & ~pl.col("metric").is_in(MEASURED),
        ),
    ]
    tables = [
        _table(identifier, title, part, means)
        for identifier, title, chosen in groups
        if (part := rows.filter(chosen)).height
    ]
    changed = [(program, each) for program, each in sites if each.changes]
    section = Section(
        identifier="diff",
        title="What changed",
        findings=[
            *_headlines(rows, new.run, dict(reversed(changed))),
            *headlines(old, new),
            *_findings(rows.filter(pl.col("metric").is_in(JUDGED)), means),
        ],
        tables=[*_sites_tables(changed), *tables],
        figures=[*_sites_figures(changed), *_figures(rows)],
        obtained=_obtained(new),
    )
    facts = [
        *(("Old", str(old.folder)), ("New", str(new.folder))),
        *(("Old started", old.run.started), ("New started", new.run.started)),
        ("Threshold", format_percent(means.threshold)),
        ("Baseline of the noise floor", new.run.baseline),
        ("Speed of the machine", means.pace.known),
    ]
    subtitle = f"{old.folder.name} → {new.folder.name}"
    return Report(
        "What changed, beyond noise",
        subtitle,
        facts,
        sections=[section],
        warnings=tuple(warnings),
    )


def _sites_tables(changed: Sequence[tuple[str, ChangedSites]]) -> list[Table]:
    programs = {program for program, _ in changed}
    return [
        sites_table(
            each.changes,
            f"table-sites-{number}",
            each.keeps.TITLE + (f": {program}" if len(programs) > 1 else ""),
            [each.keeps.NOTE] if each.keeps.NOTE else [],
            "old and new",
        )
        for number, (program, each) in enumerate(changed, 1)
    ]


def _sites_figures(changed: Sequence[tuple[str, ChangedSites]]) -> list[Figure]:
    return [
        figure
        for number, (program, each) in enumerate(changed, 1)
        for figure in difference_figures(program, each.changes, ("old", "new"), f"figure-{number}")
    ]


def _headlines(rows: pl.DataFrame, run: Header, changed: Mapping[str, ChangedSites]) -> list[str]:
    """A sentence for each of the programs that changed: what was gained, and what was lost."""
    sentences = []
    for program in (each.name for each in run.programs):
        mine = rows.filter(pl.col("program") == program, pl.col("manager") == run.baseline)
        found = {
            row["metric"]: row
            for row in mine.iter_rows(named=True)
            if row["verdict"] in ("regression", "improvement")
        }
        order = [metric for metric in _FIRST if metric in found]
        if not order:
            continue
        parts = [_brief(found[metric]) for metric in order]
        parts[0] = _long(found[order[0]], changed.get(program))
        parts += [
            _from_to(row)
            for row in mine.iter_rows(named=True)
            if row["metric"] in _ALSO and row["verdict"] in ("higher", "lower")
        ]
        name = f"{program}: " if len(run.programs) > 1 else ""
        sentences.append(f"{name}{'; '.join(parts)}.")
    return sentences[:MOST_NAMED]


def _brief(row: Row) -> str:
    known = row["ratio"] is not None
    return f"{_title(row['metric'])} {row['ratio'] - 1:+.0%}" if known else _from_to(row)


def _from_to(row: Row) -> str:
    return f"{_title(row['metric'])} {_value(row, 'old').text} → {_value(row, 'new').text}"


def _long(row: Row, changed: ChangedSites | None) -> str:
    amount = row["new"] - row["old"]
    text = f"{format_value(abs(amount), row['unit'])} {_AMOUNTS[row['metric']][amount < 0]}"
    if row["ratio"] is not None:
        text += f" ({row['ratio'] - 1:+.0%})"
    name = _OF_SITES.get(row["metric"], "")
    sites = [each for each in (changed.changes if changed else ()) if each.more(name) * amount > 0]
    if not sites:
        return text
    most = max(sites, key=lambda site: abs(site.more(name)))
    where = "mostly" if abs(most.more(name)) >= abs(amount) / 2 else "most of it"
    return f"{text}, {where} in {site_text(most.frames)}"


def _obtained(results: Results) -> str:
    found = results.measurements["obtained"].drop_nulls().unique()
    return str(found[0]) if len(found) == 1 else "executed"


def _findings(judged: pl.DataFrame, means: Means) -> list[str]:
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
            + ("" if verdict == "newly failing" else f", {change_words(row)}")
            for row in rows[:MOST_NAMED]
        ]
        more = f"; and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
        plural = "s" if len(rows) > 1 else ""
        found.append(f"{len(rows)} {noun}{plural}: {'; '.join(named)}{more}.")
    reasons = [reason for reason in judged["reason"].unique() if reason]
    if not any(row in FAILING for row in judged["verdict"]):
        what = "nothing that is judged" if reasons else "nothing"
        beyond = format_percent(means.threshold)
        found.append(f"No regression: {what} got worse beyond noise and {beyond}.")
    if reasons:
        found.append(
            f"Times are not judged: {reasons[0]}. `tare gate` of the two programs runs them in "
            "turns."
        )
    return found


def change_words(row: Mapping[str, Any]) -> str:
    if row["ratio"] is None:
        return f"{_title(row['metric'])} {_value(row, 'new').text} where there was nothing"
    direction = "higher" if row["ratio"] > 1 else "lower"
    bounds = sorted(bound - 1 for bound in (row["ratio_low"], row["ratio_high"]))
    interval = (
        f" (95% interval {bounds[0]:+.1%} to {bounds[1]:+.1%})" if bounds[1] > bounds[0] else ""
    )
    return f"{_title(row['metric'])} {format_percent(row['ratio'] - 1)} {direction}{interval}"


def _table(identifier: str, title: str, rows: pl.DataFrame, means: Means) -> Table:
    names = rows["program"].unique().to_list()
    if len(names) == 1:
        title = f"{title}: {names[0]}"
    severity = {verdict: place for place, verdict in enumerate(VERDICTS)}
    ordered = sorted(rows.iter_rows(named=True), key=lambda row: severity[row["verdict"]])
    present = dict.fromkeys(row["verdict"] for row in ordered)
    notes = [f"{verdict}: {VERDICTS[verdict]}" for verdict in present]
    notes += [f"cannot tell: {reason}." for reason in rows["reason"].unique() if reason]
    if identifier == "table-changes" and not means.pace.has_canary:
        notes.append(f"{means.pace.known}.")
    once = {
        means.once[row["program"]] for row in ordered if max(row["runs_old"], row["runs_new"]) < 2
    }
    if identifier == "table-counts" and once:
        notes.append(f"counts that were made once may lie {format_percent(max(once))} apart.")

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
    shown = table(identifier, title, ordered, fields, notes)
    few = sum(row["verdict"] != UNSEEN for row in ordered)
    if identifier != "table-others" or len(ordered) - few < 2 or not few:
        return shown
    return replace(shown, few=few, rest=f"{len(ordered) - few} more, with {UNSEEN}.")


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
    return figure_title(metric) if metric in METRICS else metric


def _figures(rows: pl.DataFrame) -> list[Figure]:
    words = {
        "cannot tell": "no difference seen",
        "regression": "higher",
        "improvement": "lower",
        "within threshold": "no difference seen",
    }
    figures = []
    for metric in FIGURES:
        known = rows.filter((pl.col("metric") == metric) & pl.col("ratio").is_not_null())
        if known.height:
            figure = interval_figure(
                known.with_columns(pl.col("verdict").replace(words)), metric, "the old results"
            )
            title = f"{METRICS[metric].title.capitalize()}, new against old"
            caption = figure.caption.replace("from the baseline", "from the old results")
            figures.append(replace(figure, title=title, caption=caption))
    return figures
