"""A report as the cell of a notebook shows it: HTML without a script, in the notebook's theme."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from tare.base.text import shortened, visible
from tare.report.figures.drawing import draw
from tare.report.model import Cell, Column, Figure, Report, Section
from tare.report.templates import as_is, asset, render

MOST_BYTES = 500_000
"""Of one cell: a notebook holds many, and is kept with them."""
MOST_FIGURES = 6
WIDTH = 720
LONGEST_TEXT = 1000
LONGEST_CELL = 120
_DETAILS = ((25, MOST_FIGURES), (25, 2), (10, 0))
"""Rows of each table and figures of each section: what is wanted, and what nearly always fits."""
_MOST_SECTIONS = 40


def as_html(report: Report) -> str:
    """Findings, essential tables and figures, under ``MOST_BYTES``; what is left out is named."""
    for rows, figures in _DETAILS:
        cell = _cell_of(report, rows, figures)
        if len(cell.encode()) < MOST_BYTES:
            return cell
    first = [
        replace(section, findings=section.findings[:1], tables=()) for section in report.sections
    ]
    return _cell_of(replace(report, sections=first, warnings=report.warnings[:20]), 0, 0)


def _cell_of(report: Report, rows: int, figures: int) -> str:
    shown = report.sections[:_MOST_SECTIONS]
    left = max(0, len(report.sections) - len(shown)) + sum(
        len(section.figures) > figures
        or any(not table.essential or len(table.rows) > rows for table in section.tables)
        for section in shown
    )
    return render(
        "notebook.html",
        LONGEST_TEXT,
        {"cell_attributes": _cell_attributes, "drawn": _drawn, "short": _short},
        style=as_is(_style()),
        report=report,
        sections=[replace(section, figures=section.figures[:figures]) for section in shown],
        rows=rows,
        left=left,
    )


@cache
def _style() -> str:
    """All rules hold within the cell alone."""
    light, dark, rules = (asset(f"{name}.css") for name in ("light", "dark", "notebook"))
    in_dark = 'body[data-jp-theme-light="false"] .tare, body.vscode-dark .tare'
    return f".tare {{\n{light}}}\n{in_dark} {{\n{dark}}}\n{rules}"


def _short(text: str) -> str:
    return shortened(visible(text), LONGEST_CELL)


def _cell_attributes(cell: Cell, column: Column) -> dict[str, str]:
    classes = ["n"] if column.numeric else []
    if cell.tone in ("good", "bad", "quiet"):
        classes.append(cell.tone)
    return {"class": " ".join(classes)} if classes else {}


def _drawn(section: Section) -> Iterator[tuple[Figure, str, str]]:
    """Each figure with its drawing, or with a reason why there is none."""
    for figure in section.figures:
        # Names within a drawing must be its own in a notebook of many.
        key = hashlib.sha256(repr(figure).encode()).hexdigest()[:12]
        try:
            svg = draw(figure.spec, WIDTH, narrow=False, prefix=f"tare-{key}-")
        except ValueError as error:
            yield figure, "", (str(error).strip().splitlines() or ["no reason given"])[-1]
            continue
        title = html.escape(shortened(visible(figure.title), LONGEST_TEXT))
        yield figure, as_is(svg.replace("<svg", f'<svg role="group" aria-label="{title}"', 1)), ""
