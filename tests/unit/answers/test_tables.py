"""What every table of results says, held against kept texts: `--renew` writes these anew."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import tare as api
from tare.answers.answers import difference
from tare.answers.building import build_report
from tare.report.model import Cell, Report, Section, Table
from tare.report.terminal import print_report
from tare.report.trace_summary import summary_report
from tests.support import SUPPORT

OLDER = SUPPORT / "results-0.1"
TEXTS = Path(__file__).parent / "tables"
FOLDERS = {path.parent.name: path.parent for path in sorted(SUPPORT.glob("results-*/*/run.json"))}
TRACES = ["t.tare", "u.tare"]
EXPORTS = ["csv", "markdown", "latex"]
"""Those that are tables."""
MOST_LINES = 20
"""Of an export: one function writes all of its lines."""


@pytest.mark.parametrize("name", FOLDERS)
def test_results(name: str, renewing: bool) -> None:
    results = api.load(FOLDERS[name])
    parts = [whole(build_report(results))]
    for form in EXPORTS:
        lines = api.export_text(results, form).splitlines()
        parts += [titled(form), *(f"{line}\n" for line in lines[:MOST_LINES])]
    hold("".join(parts), name, renewing)


@pytest.mark.parametrize("name", FOLDERS)
def test_no_two_call_sites_of_a_table_read_alike(name: str) -> None:
    tables = [t for s in build_report(api.load(FOLDERS[name])).sections for t in s.tables]
    for each in tables:
        if any(column.title == "call site" for column in each.columns):
            words = [place for place, column in enumerate(each.columns) if not column.numeric]
            lines = [tuple(row[place].text for place in words) for row in each.rows]
            assert len(set(lines)) == len(lines), each.identifier
            assert len(each.places) == len(each.rows)


@pytest.mark.parametrize("name", TRACES)
def test_a_trace(name: str, renewing: bool) -> None:
    hold(whole(summary_report(api.open_trace(OLDER / name))), name, renewing)


def test_a_difference(renewing: bool) -> None:
    found = difference(api.load(OLDER / "compare"), api.load(OLDER / "weigh"))
    hold(whole(found.report).replace(str(SUPPORT), "KEPT"), "diff", renewing)


def hold(text: str, name: str, renewing: bool) -> None:
    kept = TEXTS / f"{name}.txt"
    if renewing:
        kept.write_text(text, encoding="utf-8")
    assert text.splitlines() == kept.read_text(encoding="utf-8").splitlines()


def whole(report: Report) -> str:
    """What the terminal shows, and what it leaves to the page."""
    shown = io.StringIO()
    print_report(report, shown, verbose=True)
    parts = [titled("terminal"), shown.getvalue(), titled("facts")]
    parts += [f"{name}: {value}\n" for name, value in report.facts]
    parts += [line for section in report.sections for line in section_lines(section)]
    return "".join(parts)


def titled(title: str) -> str:
    return f"==== {title} ====\n"


def section_lines(section: Section) -> Iterator[str]:
    yield titled(f"section {section.identifier}, {section.obtained}")
    yield f"expected and took: {section.expected_seconds}, {section.took_seconds}\n"
    for table in section.tables:
        yield from table_lines(table)
    for figure in section.figures:
        yield f"-- figure {figure.identifier}: {figure.title} --\n{figure.caption}\n"


def table_lines(table: Table) -> Iterator[str]:
    yield f"-- table {table.identifier}{'' if table.essential else ', of the page'} --\n"
    for column in table.columns:
        marks = f"{'number' if column.numeric else 'text'}{'' if column.essential else ', wide'}"
        yield f"{column.title} ({marks}): {column.explanation}\n"
    for row in table.rows:
        yield f"| {' | '.join(map(cell_text, row))} |\n"
    if table.few is not None:
        yield f"in view: {table.few}; {table.rest}\n"
    for note in table.notes:
        yield f"* {note}\n"


def cell_text(cell: Cell) -> str:
    """Keys of one cell differ in the last digits where machines compute them differently."""
    key = f"{cell.key:.9g}" if isinstance(cell.key, float) else repr(cell.key)
    return " ".join(filter(None, (cell.text, f"[{key}]", cell.tone)))
