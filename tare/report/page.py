"""The HTML page of a report: one file that opens without a network and holds no fact of its own.

Figures are drawn beforehand as SVG; the only script sorts tables, shows what a mark means and
switches the theme. A content security policy lets nothing else run, and all that comes from
outside is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from tare.base.files import write_atomically, writing
from tare.base.text import shortened, visible
from tare.base.units import format_duration
from tare.base.version import __version__
from tare.records.metrics import Obtained
from tare.report.figures.drawing import draw_beside
from tare.report.model import Cell, Column, Figure, Report, Section, Table

MOST_BYTES = 3_000_000
MOST_TABLE_ROWS = 2000
LEAST_TABLE_ROWS = 10
LONG_TABLE = 60
"""Rows above which a table scrolls in a frame, so that what follows it stays in reach."""
MOST_FIGURE_BYTES = 1_000_000
"""Of all figures together; one that does not fit is left out, and the page says so."""
LONGEST_CELL = 120
LONGEST_WORD = 22
LONGEST_TEXT = 2000
FULL_WIDTH, HALF_WIDTH, PHONE_WIDTH = 1080, 516, 356
TYPICAL_BESIDE = 110
"""Pixels that the labels of a figure often take beside its plot: a first guess."""

_OBTAINED = {
    Obtained.EXECUTED: "The program itself ran, on the machine named above.",
    Obtained.SIMULATED: "Computed by a model of the machine, not measured on it.",
    Obtained.REPLAYED: "The program's recorded allocations ran again, without the program.",
}


def render_page(report: Report) -> str:
    """The whole page as HTML, under ``MOST_BYTES`` whatever the report holds.

    What is too much is cut from the end of tables, and each cut is stated with the number of rows.
    """
    figures = _Figures()
    limit = MOST_TABLE_ROWS
    while True:
        page = _page(report, limit, figures)
        if len(page.encode()) < MOST_BYTES or limit <= LEAST_TABLE_ROWS:
            break
        limit = max(LEAST_TABLE_ROWS, limit // 2)
    if len(page.encode()) >= MOST_BYTES:
        page = _page(_outline(report), 0, _Figures())
    return page


def write_page(report: Report, path: Path) -> None:
    """Write the page to ``path``; a reader sees the old page or the new one, never half of it."""
    page = render_page(report)
    with writing(path.parent):
        write_atomically(path, page)


def _outline(report: Report) -> Report:
    """What is left of a report with too many tables for a page: the findings of its start."""
    sections = [
        Section(section.identifier, section.title, section.findings[:3], obtained=section.obtained)
        for section in report.sections[:100]
    ]
    note = (
        f"This report is too large for a page: its tables and figures, and all after its first "
        f"{len(sections)} sections, are only in the data files."
    )
    return Report(report.title, report.subtitle, (), sections, (note, *report.warnings[:20]))


def _page(report: Report, limit: int, figures: _Figures) -> str:
    anchors = [f"section-{number}" for number, _ in enumerate(report.sections, 1)]
    content = [
        _header(report),
        _verdicts(report.sections, anchors),
        _warnings(report.warnings),
        _facts(report.facts),
        *(
            _section(section, anchor, limit, figures)
            for section, anchor in zip(report.sections, anchors, strict=True)
        ),
        f"<footer>Made by Tare {__version__} from the measurements beside it.</footer>",
    ]
    return render_document(report.title, "\n".join(part for part in content if part))


def render_document(title: str, content: str, style: str = "", script: str = "") -> str:
    """A page around ``content``, which is HTML, with the theme and the script of all pages;
    ``style`` and ``script`` are what this one has besides."""
    style, script = _style() + style, _asset("page.js") + script
    return _fill(
        _asset("page.html"),
        TITLE=_text(shortened(title, 120)) + " · Tare",
        STYLE=style,
        STYLE_HASH=_hash(style),
        SCRIPT=script,
        SCRIPT_HASH=_hash(script),
        CONTENT=content,
    )


def _fill(template: str, **parts: str) -> str:
    return re.sub(r"@([A-Z_]+)@", lambda match: parts[match[1]], template)


@cache
def _asset(name: str) -> str:
    return files("tare.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    light, dark = _asset("light.css"), _asset("dark.css")
    system = f':root:not([data-theme="light"]) {{\n  color-scheme: dark;\n{dark}}}'
    return "\n".join(
        (
            f":root {{\n  color-scheme: light;\n{light}}}",
            f"@media screen and (prefers-color-scheme: dark) {{\n{system}\n}}",
            f'@media screen {{\n:root[data-theme="dark"] {{\n  color-scheme: dark;\n{dark}}}\n}}',
            _asset("page.css"),
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(text: str) -> str:
    return html.escape(shortened(visible(text), LONGEST_TEXT))


def _header(report: Report) -> str:
    full = visible(report.title)
    short = shortened(full, LONGEST_CELL)
    title = f' title="{_text(full)}"' if short != full else ""
    subtitle = f'<p class="subtitle">{_text(report.subtitle)}</p>' if report.subtitle else ""
    return (
        '<header class="top"><div>'
        f'<p class="brand">Tare</p><h1{title}>{html.escape(short)}</h1>{subtitle}'
        '</div><button id="theme" type="button" hidden>Dark theme</button></header>'
    )


def _verdicts(sections: Sequence[Section], anchors: Sequence[str]) -> str:
    """The first finding of every section, where there are several: the answer before the detail."""
    if len(sections) < 2:
        return ""
    return _list(
        '<ul class="verdicts">',
        (
            f'<li><a href="#{anchor}">{_text(section.title)}</a>'
            f"<p>{_text(section.findings[0]) if section.findings else ''}</p></li>"
            for section, anchor in zip(sections, anchors, strict=True)
        ),
        "</ul>",
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    return _list(
        '<div class="warnings" role="note"><h2>Before you trust these figures</h2><ul>',
        (f"<li>{_text(warning)}</li>" for warning in warnings),
        "</ul></div>",
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    if not facts:
        return ""
    return _list(
        '<details class="facts"><summary>What was measured, and where</summary><dl>',
        (f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts),
        "</dl></details>",
    )


def _list(start: str, items: Iterable[str], end: str) -> str:
    return start + "".join(items) + end


def _section(section: Section, anchor: str, limit: int, figures: _Figures) -> str:
    obtained = _text(section.obtained)
    meaning = html.escape(_OBTAINED.get(Obtained(section.obtained), "")) if obtained else ""
    findings = "".join(f"<p>{_text(finding)}</p>" for finding in section.findings)
    findings += "".join(
        f"<p>{_text(label)}:</p><pre><code>{_text(line)}</code></pre>"
        for label, line in section.commands
    )
    parts = [
        f'<section id="{anchor}"><div class="section-head"><h2>{_text(section.title)}</h2>'
        f'<span class="obtained {obtained}" title="{meaning}">{obtained}</span>'
        f"{_cost(section)}</div>",
        f'<div class="findings">{findings}</div>' if findings else "",
        *(_table(table, limit) for table in section.tables if table.essential),
        _folded([table for table in section.tables if not table.essential], limit),
        _glossary(section.tables),
        figures.of_section(section.figures, anchor),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _folded(tables: Sequence[Table], limit: int) -> str:
    if not tables:
        return ""
    shown = "\n".join(_table(table, limit) for table in tables)
    more = "1 more table" if len(tables) == 1 else f"{len(tables)} more tables"
    return f"<details><summary>{more}</summary>{shown}</details>"


def _cost(section: Section) -> str:
    words = [
        f"{word} {format_duration(seconds)}"
        for word, seconds in (
            ("expected", section.expected_seconds),
            ("took", section.took_seconds),
        )
        if seconds is not None
    ]
    return f'<span class="cost">{", ".join(words)}</span>' if words else ""


def _table(table: Table, limit: int) -> str:
    headers = "".join(_header_cell(column) for column in table.columns)
    numbers = [column.numeric for column in table.columns]
    rows = "".join(
        "<tr>" + "".join(map(_cell, row, numbers)) + "</tr>" for row in table.rows[:limit]
    )
    notes = list(table.notes)
    if (total := len(table.rows)) > limit:
        notes.insert(0, f"The first {limit:,} of {total:,} rows; the data files have all of them.")
    title = _text(table.title)
    frame = "scroll tall" if total > LONG_TABLE else "scroll"
    return (
        f'<div class="table"><h3>{title}</h3><div class="{frame}" tabindex="0" role="region" '
        f'aria-label="{title}"><table><thead><tr>{headers}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        + "".join(f'<p class="note">{_text(note)}</p>' for note in notes)
        + "</div>"
    )


def _header_cell(column: Column) -> str:
    kind = ' class="n"' if column.numeric else ""
    explanation = f' title="{_text(column.explanation)}"' if column.explanation else ""
    title = shortened(visible(column.title), LONGEST_CELL)
    width = ' class="long"' if len(title) > LONGEST_WORD else ""
    return (
        f'<th scope="col"{kind}><button type="button"{width}{explanation}>{_breakable(title)}'
        "</button></th>"
    )


def _cell(cell: Cell, numeric: bool) -> str:
    full = visible(cell.text)
    short = shortened(full, LONGEST_CELL)
    is_number = isinstance(cell.key, (int, float))
    classes = ["n"] if numeric else ["long"] if len(short) > LONGEST_WORD else []
    if cell.tone in ("good", "bad", "quiet"):
        classes.append(cell.tone)
    attributes = f' class="{" ".join(classes)}"' if classes else ""
    if short != full:
        attributes += f' title="{_text(full)}"'
    if is_number:
        attributes += f' data-k="{cell.key:.12g}"'
    elif cell.key is None:
        attributes += ' data-k=""'
    else:
        attributes += " data-s"
        if cell.key != cell.text:
            attributes += f' data-k="{_text(str(cell.key))}"'
    return f"<td{attributes}>{_breakable(short)}</td>"


def _breakable(text: str) -> str:
    """Escaped, with places to break the line in words too long for a column on a phone."""
    if len(text) <= LONGEST_WORD:
        return html.escape(text, quote=False)
    return " ".join(map(_breakable_word, text.split(" ")))


def _breakable_word(text: str) -> str:
    pieces = re.findall(rf"[^(,/=]{{1,{LONGEST_WORD}}}[(,/=]?|[(,/=]", text)
    return "<wbr>".join(html.escape(piece, quote=False) for piece in pieces)


def _glossary(tables: Sequence[Table]) -> str:
    meanings: dict[str, dict[str, None]] = {}
    for table in tables:
        for column in table.columns:
            if column.explanation:
                meanings.setdefault(column.explanation, {})[column.title] = None
    if not meanings:
        return ""
    return _list(
        '<div class="glossary"><h3>What the columns mean</h3><dl>',
        (
            f"<div><dt>{_text(', '.join(titles))}</dt> <dd>{_text(meaning)}</dd></div>"
            for meaning, titles in meanings.items()
        ),
        "</dl></div>",
    )


class _Figures:
    """Draws figures, each once, until their share of the page is used up."""

    def __init__(self) -> None:
        self._left = MOST_FIGURE_BYTES
        self._drawn: dict[str, str] = {}

    def of_section(self, figures: Sequence[Figure], anchor: str) -> str:
        if not figures:
            return ""
        wide = _full_width(figures)
        drawn = [
            self._figure(figure, f"{anchor}-{number}", full)
            for number, (figure, full) in enumerate(zip(figures, wide, strict=True), 1)
        ]
        return '<div class="figures">' + "\n".join(drawn) + "</div>"

    def _figure(self, figure: Figure, anchor: str, full: bool) -> str:
        if anchor not in self._drawn:
            self._drawn[anchor] = self._draw(figure, anchor, full)
        kind = ' class="full"' if full else ""
        return (
            f'<figure id="{anchor}"{kind}><h3>{_text(figure.title)}</h3>'
            f"{self._drawn[anchor]}"
            f"<figcaption>{_text(figure.caption)}</figcaption></figure>"
        )

    def _draw(self, figure: Figure, anchor: str, full: bool) -> str:
        label = f'role="img" aria-label="{_text(figure.title)}"'
        try:
            wide, beside = draw_beside(
                figure.spec,
                FULL_WIDTH if full else HALF_WIDTH,
                TYPICAL_BESIDE,
                narrow=False,
                prefix=f"{anchor}-wide-",
            )
            narrow, _ = draw_beside(
                figure.spec, PHONE_WIDTH, beside, narrow=True, prefix=f"{anchor}-narrow-"
            )
            variants = {"wide": wide, "narrow": narrow}
        except ValueError as error:
            reason = str(error).strip().splitlines()[-1]
            return f'<p class="note">This figure cannot be drawn: {_text(reason)}</p>'
        svgs = "".join(
            svg.replace("<svg", f'<svg class="{kind}" {label}', 1) for kind, svg in variants.items()
        )
        if len(svgs) > self._left:
            return '<p class="note">Too large for a page; the data files have what it shows.</p>'
        self._left -= len(svgs)
        return svgs


def _has_panels(figure: Figure) -> bool:
    return any(part in figure.spec for part in ("concat", "hconcat", "facet", "spec"))


def _full_width(figures: Sequence[Figure]) -> list[bool]:
    """Figures stand in pairs, but for those of several panels and those without a partner."""
    full: list[bool] = []
    open_pair = False
    for number, figure in enumerate(figures):
        following = number + 1 < len(figures) and not _has_panels(figures[number + 1])
        is_full = _has_panels(figure) or not (open_pair or following)
        full.append(is_full)
        open_pair = not is_full and not open_pair
    return full
