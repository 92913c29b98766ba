"""What `tare gate` says of a change: the verdict first, with what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from tare.base.text import listed, markdown_code
from tare.base.units import format_percent, format_value
from tare.gating.changes import (
    BASE,
    COUNTED,
    HEAD,
    IMPROVEMENT,
    MEASURED,
    REGRESSION,
    SAME,
    UNTOLD,
    VERDICTS,
    Change,
    asked_of,
    changes,
    is_worse,
)
from tare.gating.request import COUNT
from tare.gating.sites import ChangedSites, changed_sites
from tare.heap_traces.frames import site_text
from tare.programs.program import display_name
from tare.records.header import Header
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import Field, table, text, texts
from tare.report.model import Cell, Section, Table
from tare.studykit.changed_sites import (
    QUANTITIES,
    SiteChange,
    change_sentence,
    difference_figures,
    sites_table,
)

STUDY = "gate"
TITLE = "What the change did"
_TONES = {REGRESSION: "bad", IMPROVEMENT: "good", SAME: "quiet", UNTOLD: "quiet"}
_WORDS = {
    **dict.fromkeys(("instructions", "objects"), ("more", "fewer")),
    **dict.fromkeys(
        ("max_live_bytes", "peak_free_bytes", "peak_resident_bytes"), ("higher", "lower")
    ),
}
_TITLES = {
    "allocated_bytes": "bytes allocated",
    "max_live_bytes": "peak of live bytes",
    "simulated_cycles": "simulated cycles",
}
_SITES_IN_MARKDOWN = 10
_IN_MARKDOWN = ("calls", "objects", "bytes", "stall_cycles", "peak_bytes")


def subject(run: Header) -> str:
    """What was changed."""
    base, head = (each.argv[0].rpartition("/")[2] for each in run.programs[:2])
    return f"{base} → {head}" if base != head else display_name(run.programs[1].argv)


def is_broken(results: Results) -> bool:
    """Whether anything got worse, or a run gave no figure."""
    ended = results.measurements["status"] != str(Status.OK)
    return bool(ended.any()) or is_worse(changes(results))


def section(results: Results) -> Section:
    records = read_records(results.folder)
    found = [each for each in sites_of(records) if each.changes]
    program = subject(results.run)
    tables, figures = [_table(changes(results))], []
    for number, each in enumerate(found):
        tag = f"-{each.study}" if number else ""
        notes = [each.keeps.NOTE] if each.keeps.NOTE else []
        tables.append(sites_table(each.changes, f"table-sites{tag}", each.keeps.TITLE, notes))
        figures += difference_figures(program, each.changes, identifier=f"figure{tag}")
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings(results, records, first_changes(found)),
        tables=tables,
        figures=figures,
    )


def sites_of(records: Sequence[Record]) -> list[ChangedSites]:
    """Between the two programs."""
    base, head = ([each for each in records if each.run.program == name] for name in (BASE, HEAD))
    return changed_sites(base, head)


def first_changes(found: Sequence[ChangedSites]) -> Sequence[SiteChange]:
    """Of the study that tells most, or none."""
    return next((each.changes for each in found if each.changes), ())


def findings(results: Results, records: Sequence[Record], sites: Sequence[SiteChange]) -> list[str]:
    """In words, what matters first."""
    found = changes(results)
    asked = asked_of(results)
    threshold = format_percent(asked.threshold)
    worse = [each for each in found if each.verdict == REGRESSION]
    better = [each for each in found if each.verdict == IMPROVEMENT]
    same = [each for each in found if each.verdict == SAME]
    untold: dict[str, list[Change]] = {}
    for each in found:
        if each.verdict == UNTOLD:
            untold.setdefault(each.reason, []).append(each)
    sentences = _failures(records)
    if worse:
        sentences.append(f"Regression: {listed([_told(each) for each in worse])}.")
    if better:
        sentences.append(f"Improved: {listed([_told(each) for each in better])}.")
    if same:
        names = listed([figure_title(each.metric) for each in same])
        sentences.append(f"Not changed by more than {threshold}: {names}.")
    for reason, doubtful in untold.items():
        because = f", as {reason}" if reason else ""
        sentences.append(f"Cannot tell: {listed([_doubt(each) for each in doubtful])}{because}.")
    if sites and (worse or better):
        sentences.append(change_sentence(sites[0]))
    if outputs_differ(records):
        sentences.append("What the two print differs.")
    if asked.pace and not asked.pace.has_canary and any(each.metric in MEASURED for each in found):
        sentences.append(f"There is {asked.pace.known}.")
    if asked.once and any(each.metric in COUNTED and each.runs < 2 for each in found):
        sentences.append(f"Counts were made once, and may lie {format_percent(asked.once)} apart.")
    if COUNT in asked.skip:
        sentences.append("Nothing was counted: --skip count.")
    if not any(each.metric in COUNTED for each in found) and COUNT not in asked.skip:
        sentences.append("No count was made: time and memory alone do not decide on small changes.")
    return sentences or ["No figure was measured."]


def _failures(records: Sequence[Record]) -> list[str]:
    failed = {
        record.run.program: record.outcome
        for record in reversed(records)
        if record.outcome.status is not Status.OK
    }
    if HEAD in failed and BASE not in failed:
        outcome = failed[HEAD]
        return [f"Newly failing: head ({outcome.reason or outcome.status}), and base does not."]
    return [
        f"{name.capitalize()} failed: {failed[name].reason or failed[name].status}."
        for name in (BASE, HEAD)
        if name in failed
    ]


def outputs_differ(records: Sequence[Record]) -> bool:
    printed = {
        name: {
            record.outcome.output_sha256
            for record in records
            if record.run.program == name and record.outcome.status is Status.OK
        }
        - {""}
        for name in (BASE, HEAD)
    }
    return all(len(each) == 1 for each in printed.values()) and printed[BASE] != printed[HEAD]


def figure_title(metric: str) -> str:
    """A metric in a sentence about a change."""
    title = METRICS[metric].title
    return _TITLES.get(metric, title)


def _told(each: Change) -> str:
    unit = METRICS[each.metric].unit
    before, after = (format_value(value or 0, unit) for value in (each.base, each.head))
    if each.ratio is None:
        return f"{after} where there was nothing: {figure_title(each.metric)}"
    change = each.ratio.median - 1
    words = _WORDS.get(each.metric, ("more", "less"))
    interval = ""
    if each.ratio.high - each.ratio.low > 0.001 * each.ratio.median:
        bounds = sorted((each.ratio.low - 1, each.ratio.high - 1), key=abs)
        interval = f", {bounds[0]:+.1%} to {bounds[1]:+.1%}"
    return (
        f"{format_percent(abs(change))} {words[change < 0]} {figure_title(each.metric)} "
        f"({before} → {after}{interval})"
    )


def _doubt(each: Change) -> str:
    if each.ratio is None:
        return figure_title(each.metric)
    low, high = each.ratio.low - 1, each.ratio.high - 1
    return f"{figure_title(each.metric)} ({low:+.1%} to {high:+.1%})"


def _table(found: Sequence[Change]) -> Table:
    fields: list[Field[Change]] = [
        texts("figure", "", lambda row: figure_title(row.metric)),
        texts(
            "by",
            "Counts do not depend on what else the machine does.",
            lambda row: "count" if row.metric in COUNTED else "measurement",
            essential=False,
        ),
        Field("base", "Before the change: the median.", lambda row: _cell(row, row.base)),
        Field("head", "After the change: the median.", lambda row: _cell(row, row.head)),
        Field("head/base", "Below 1 is less than before.", _ratio),
        Field("interval", "That the verdict rests on.", _interval),
        Field("runs", "Of each; base has twice as many of time.", _runs, essential=False),
        Field(
            "verdict",
            "",
            lambda row: text(row.verdict, _TONES.get(row.verdict, "bad")),
            numeric=False,
        ),
    ]
    present = {row.verdict for row in found if not row.reason}
    notes = [f"{word}: {what}" for word, what in VERDICTS.items() if word in present]
    reasons = dict.fromkeys(row.reason for row in found if row.reason)
    notes += [f"{UNTOLD}: {reason}." for reason in reasons]
    return table("table-changes", "Head against base", found, fields, notes)


def _cell(row: Change, value: float | None) -> Cell:
    if value is None:
        return Cell("–")
    return Cell(format_value(value, METRICS[row.metric].unit), value)


def _ratio(row: Change) -> Cell:
    if row.ratio is None:
        return Cell("–")
    return Cell(f"{row.ratio.median:.3f}", row.ratio.median, _TONES.get(row.verdict, ""))


def _interval(row: Change) -> Cell:
    if row.ratio is None:
        return Cell("–")
    return Cell(f"{row.ratio.low:.3f} to {row.ratio.high:.3f}", row.ratio.low)


def _runs(row: Change) -> Cell:
    return Cell(str(row.runs), row.runs)


def to_markdown(results: Results) -> str:
    """For the comment on a pull request: the verdict, a row for each figure, and the call sites
    that changed."""
    records = read_records(results.folder)
    sites = first_changes(sites_of(records))
    first, *others = findings(results, records, sites)
    lines = [f"**{first}**", "", *(f"- {each}" for each in others), *([""] if others else [])]
    lines += ["| figure | base | head | head/base | |", "| --- | ---: | ---: | ---: | --- |"]
    for row in changes(results):
        word = row.verdict if row.verdict in (SAME, UNTOLD) else f"**{row.verdict}**"
        cells = [figure_title(row.metric), _cell(row, row.base).text, _cell(row, row.head).text]
        lines.append(f"| {' | '.join([*cells, _ratio(row).text, word])} |")
    columns = [name for name in _IN_MARKDOWN if sites and name in sites[0].head]
    if columns:
        titles = " | ".join(QUANTITIES[name].title for name in columns)
        lines += ["", f"| call site | {titles} |", f"| --- |{' ---: |' * len(columns)}"]
    for site in sites[:_SITES_IN_MARKDOWN]:
        words = ": ".join(filter(None, (site_text(site.frames), site.operation)))
        cells = [
            " → ".join(
                format_value(side[name], QUANTITIES[name].unit) for side in (site.base, site.head)
            )
            for name in columns
        ]
        lines.append(f"| {markdown_code(words)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
