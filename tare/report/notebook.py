"""A report as the cell of a notebook shows it: HTML without a script, in the notebook's theme."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from tare.base.text import shortened, visible
from tare.report.figures.drawing import draw
from tare.report.model import Cell, Column, Figure, Report, Section, Table

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
    first = [replace(each, findings=each.findings[:1], tables=()) for each in report.sections]
    return _cell_of(replace(report, sections=first, warnings=report.warnings[:20]), 0, 0)


def _cell_of(report: Report, rows: int, figures: int) -> str:
    shown = report.sections[:_MOST_SECTIONS]
    left = max(0, len(report.sections) - len(shown)) + sum(
        len(section.figures) > figures
        or any(not table.essential or len(table.rows) > rows for table in section.tables)
        for section in shown
    )
    parts = [
        f"<style>{_style()}</style>",
        f"<h3>{_text(report.title)}</h3>",
        f'<p class="quiet">{_text(report.subtitle)}</p>' if report.subtitle else "",
        *(_section(section, rows, figures) for section in shown),
        _warnings(report.warnings),
        '<p class="quiet">There is more in the page that tare.write_page writes.</p>'
        if left
        else "",
    ]
    return f'<div class="tare">{"".join(parts)}</div>'


@cache
def _style() -> str:
    """All rules hold within the cell alone."""
    light, dark, rules = (_asset(f"{name}.css") for name in ("light", "dark", "notebook"))
    in_dark = 'body[data-jp-theme-light="false"] .tare, body.vscode-dark .tare'
    return f".tare {{\n{light}}}\n{in_dark} {{\n{dark}}}\n{rules}"


def _asset(name: str) -> str:
    return files("tare.report").joinpath("assets", name).read_text(encoding="utf-8")


def _text(text: str, longest: int = LONGEST_TEXT) -> str:
    return html.escape(shortened(visible(text), longest))


def _section(section: Section, rows: int, figures: int) -> str:
    obtained = f' <span class="quiet">{_text(section.obtained)}</span>'
    return "".join(
        (
            f"<h4>{_text(section.title)}{obtained}</h4>",
            *(f"<p>{_text(finding)}</p>" for finding in section.findings),
            *(_table(table, rows) for table in section.tables if table.essential),
            *_drawn(section.figures[:figures]),
        )
    )


def _table(table: Table, most: int) -> str:
    heads = "".join(map(_head, table.columns))
    body = "".join(
        f"<tr>{''.join(map(_cell, row, table.columns))}</tr>" for row in table.rows[:most]
    )
    notes = list(table.notes)
    if len(table.rows) > most:
        notes.insert(0, f"The first {most:,} of {len(table.rows):,} rows.")
    return (
        f'<div class="frame"><table><caption>{_text(table.title)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        + "".join(f'<p class="quiet">{_text(note)}</p>' for note in notes)
    )


def _head(column: Column) -> str:
    kind = ' class="n"' if column.numeric else ""
    meaning = f' title="{_text(column.explanation)}"' if column.explanation else ""
    return f"<th{kind}{meaning}>{_text(column.title, LONGEST_CELL)}</th>"


def _cell(cell: Cell, column: Column) -> str:
    classes = ["n"] if column.numeric else []
    if cell.tone in ("good", "bad", "quiet"):
        classes.append(cell.tone)
    kind = f' class="{" ".join(classes)}"' if classes else ""
    return f"<td{kind}>{_text(cell.text, LONGEST_CELL)}</td>"


def _drawn(figures: Sequence[Figure]) -> Iterator[str]:
    for figure in figures:
        # Names within a drawing must be its own in a notebook of many.
        key = hashlib.sha256(repr(figure).encode()).hexdigest()[:12]
        try:
            svg = draw(figure.spec, WIDTH, narrow=False, prefix=f"tare-{key}-")
        except ValueError as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[-1]
            yield f'<p class="quiet">A figure cannot be drawn: {_text(reason)}</p>'
            continue
        title = _text(figure.title)
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
        caption = f"<figcaption>{_text(figure.caption)}</figcaption>"
        yield f"<figure><strong>{title}</strong>{svg}{caption}</figure>"


def _warnings(warnings: Iterable[str]) -> str:
    listed = "".join(f"<li>{_text(warning)}</li>" for warning in warnings)
    if not listed:
        return ""
    return f"<details><summary>Before you trust these figures</summary><ul>{listed}</ul></details>"
