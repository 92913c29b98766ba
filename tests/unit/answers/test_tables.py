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

KEPT = SUPPORT / "results-0.1"
TEXTS = Path(__file__).parent / "tables"
FOLDERS = sorted(path.parent.name for path in KEPT.glob("*/run.json"))
TRACES = ["t.tare", "u.tare"]
EXPORTS = ["csv", "markdown", "latex"]
"""Those that are tables."""


@pytest.mark.parametrize("name", FOLDERS)
def test_results(name: str, renewing: bool) -> None:
    results = api.load(KEPT / name)
    parts = [whole(build_report(results))]
    parts += [f"{titled(form)}{api.export_text(results, form)}" for form in EXPORTS]
    hold("\n".join(parts), name, renewing)


@pytest.mark.parametrize("name", TRACES)
def test_a_trace(name: str, renewing: bool) -> None:
    hold(whole(summary_report(api.open_trace(KEPT / name))), name, renewing)


def test_a_difference(renewing: bool) -> None:
    found = difference(api.load(KEPT / "compare"), api.load(KEPT / "weigh"))
    hold(whole(found.report), "diff", renewing)


def hold(text: str, name: str, renewing: bool) -> None:
    kept = TEXTS / f"{name}.txt"
    text = text.replace(str(KEPT), "KEPT")
    if renewing:
        kept.write_text(text, encoding="utf-8")
    assert text.splitlines() == kept.read_text(encoding="utf-8").splitlines()


def whole(report: Report) -> str:
    """What the terminal shows, and what it leaves to the page."""
    shown = io.StringIO()
    print_report(report, shown)
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
    for note in table.notes:
        yield f"* {note}\n"


def cell_text(cell: Cell) -> str:
    """Keys of one cell differ in the last digits where machines compute them differently."""
    key = f"{cell.key:.9g}" if isinstance(cell.key, float) else repr(cell.key)
    return " ".join(filter(None, (cell.text, f"[{key}]", cell.tone)))
