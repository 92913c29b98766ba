"""The HTML page of a report: one file that opens without a network and holds no fact of its own.

Figures are drawn beforehand as SVG; the only script sorts tables, copies commands, shows what a
mark or a heading means and switches the theme. A content security policy lets nothing else run, and
all that comes from outside is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tare.base.files import write_atomically, writing
from tare.base.text import sentence, shortened, visible
from tare.base.units import format_duration
from tare.base.version import __version__
from tare.records.actions import Action, Certainty
from tare.records.metrics import Obtained
from tare.report.advice import anchor, bounds_text, gain_text, metric_text, place_text
from tare.report.figures.drawing import Drawing
from tare.report.glossary import Explaining, terms
from tare.report.model import Cell, Column, Figure, Report, Section, Table
from tare.report.templates import as_is, asset, render

MOST_BYTES = 3_000_000
MOST_TABLE_ROWS = 2000
LEAST_TABLE_ROWS = 10
LONG_TABLE = 60
"""Rows above which a table scrolls in a frame, so that what follows it stays in reach."""
MOST_FIGURE_BYTES = 1_000_000
"""Of all figures together; one that does not fit is left out, and the page says so."""
BEHIND = ("table-details",)
"""Tables that a terminal has room for, and that a page folds: few readers want them."""
LONG_TEXT = 260
"""Characters of words that are worth a figure beside them where it has a partner to stand with."""
LONGEST_CELL = 120
LONGEST_SITE = 400
LONGEST_WORD = 22
LONGEST_TEXT = 2000
FULL_WIDTH, HALF_WIDTH, PHONE_WIDTH = 1016, 490, 356

_OBTAINED = {
    Obtained.EXECUTED: "The program itself ran, on the machine named above.",
    Obtained.SIMULATED: "Computed by a model of the machine, not measured on it.",
    Obtained.REPLAYED: "The program's recorded allocations ran again, without the program.",
}
_CERTAINTIES = {
    Certainty.MEASURED: "The program itself ran, with and without the change.",
    Certainty.REPLAYED: "The program's recorded allocations ran again, with the change.",
    Certainty.PREDICTED: "Computed from the recorded allocations, with the change.",
}


def render_page(report: Report) -> str:
    """The whole page as HTML, under ``MOST_BYTES`` whatever the report holds.

    What is too much is cut from the end of tables, and each cut is stated with the number of rows.
    """
    figures = _Figures()
    longest = max((len(table.rows) for each in report.sections for table in each.tables), default=0)
    limit = max(LEAST_TABLE_ROWS, min(MOST_TABLE_ROWS, longest))
    page = _page(report, limit, figures)
    while (size := len(page.encode())) >= MOST_BYTES and limit > LEAST_TABLE_ROWS:
        limit = max(LEAST_TABLE_ROWS, min(limit // 2, limit * MOST_BYTES // size))
        page = _page(report, limit, figures)
    return page if size < MOST_BYTES else _page(_outline(report), 0, _Figures())


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
    return Report(
        report.title,
        report.subtitle,
        sections=sections,
        warnings=(note, *report.warnings[:20]),
    )


@dataclass(frozen=True)
class _Part:
    """A section as it stands on the page. ``beside`` stands to the right of its words, ``first``
    below them; what is ``behind`` is folded with the tables that are not essential."""

    section: Section
    anchor: str
    beside: _Drawn | None
    first: Sequence[_Drawn]
    behind: Sequence[_Drawn]

    def tables(self, *, folded: bool) -> list[Table]:
        return [each for each in self.section.tables if _is_folded(each) == folded]

    @property
    def more(self) -> str:
        """What is folded, in words."""
        counted = (("figure", len(self.behind)), ("table", len(self.tables(folded=True))))
        words = [
            f"{number} {what}{'s' if number > 1 else ''}" for what, number in counted if number
        ]
        return f"More: {' and '.join(words)}" if words else ""


def _is_folded(table: Table) -> bool:
    return not table.essential or table.identifier in BEHIND


def _part(section: Section, anchor: str, figures: _Figures) -> _Part:
    essential = [figure for figure in section.figures if figure.essential]
    others = [figure for figure in section.figures if not figure.essential]
    beside = None
    halves = [figure for figure in essential if not _has_panels(figure)]
    words = sum(map(len, section.findings))
    if halves[:1] == essential[:1] != [] and words > (0 if len(halves) % 2 else LONG_TEXT):
        beside, *_ = figures.drawn(essential[:1], f"{anchor}-1", [False])
        essential = essential[1:]
    first = figures.drawn(essential, f"{anchor}-2", _full_width(essential))
    behind = figures.drawn(others, f"{anchor}-3", _full_width(others))
    return _Part(section, anchor, beside, first, behind)


def _page(report: Report, limit: int, figures: _Figures) -> str:
    anchored = [(section, f"section-{n}") for n, section in enumerate(report.sections, 1)]
    left_out = [(section, anchor) for section, anchor in anchored if section.is_left_out]
    parts = [
        _part(section, anchor, figures) for section, anchor in anchored if not section.is_left_out
    ]
    shown = [part for part in parts if not part.section.research]
    research = [part for part in parts if part.section.research]
    full = visible(report.program or report.title)
    short = shortened(full, LONGEST_CELL)
    content = render(
        "report.html",
        LONGEST_TEXT,
        {
            "anchor": anchor,
            "bounds": bounds_text,
            "breakable": _breakable,
            "button_attributes": _button_attributes,
            "cell_attributes": _cell_attributes,
            "coded": _coded,
            "explained": Explaining(LONGEST_TEXT),
            "gain": gain_text,
            "linked": _linked,
            "place": place_text,
            "metric": metric_text,
            "notes": _notes,
            "sentence": sentence,
            "site": _site,
            "told": _told,
        },
        report=report,
        brand=report.title.partition(":")[0] if report.program else "Tare",
        title=short,
        full_title=_cut(full) if short != full else None,
        places=_places(report, shown, research=bool(research)),
        summaries=anchored,
        parts=shown,
        research=research,
        left_out=left_out,
        costs=[(section, cost) for section in report.sections if (cost := _cost(section))],
        meanings=_meanings(report.sections),
        certainties=_CERTAINTIES,
        obtained=_OBTAINED,
        limit=limit,
        long_table=LONG_TABLE,
        version=__version__,
    )
    return render_document(report.title, content, asset("report.css"))


def _places(report: Report, parts: Sequence[_Part], *, research: bool) -> list[tuple[str, str]]:
    """Where the navigation leads: anchors and names."""
    if not parts:
        return []
    first = [("verdict", "Verdict")] if report.verdict else []
    last = [("research", "Research")] if research else []
    named = [(part.anchor, part.section.short or part.section.title) for part in parts]
    data = [("data", "Data")] if report.commands or report.facts else []
    return [*first, *named, *last, *data]


def render_document(
    title: str, content: str, style: str = "", script: str = "", connects: str = "'none'"
) -> str:
    """A page around ``content``, which is HTML, with the theme and the script of all pages;
    ``style`` and ``script`` are what this one has besides. It reaches ``connects`` alone."""
    return render(
        "page.html",
        120,
        {"csp_hash": _hash},
        title=title,
        style=as_is(_style() + style),
        script=as_is(asset("page.js") + script),
        content=as_is(content),
        connects=as_is(connects),
    )


@cache
def _style() -> str:
    light, dark = asset("light.css"), asset("dark.css")
    system = f':root:not([data-theme="light"]) {{\n  color-scheme: dark;\n{dark}}}'
    return "\n".join(
        (
            f":root {{\n  color-scheme: light;\n{light}}}",
            f"@media screen and (prefers-color-scheme: dark) {{\n{system}\n}}",
            f'@media screen {{\n:root[data-theme="dark"] {{\n  color-scheme: dark;\n{dark}}}\n}}',
            asset("page.css"),
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _cut(text: str) -> str:
    return shortened(visible(text), LONGEST_TEXT)


def _cost(section: Section) -> str:
    words = [
        f"{word} {format_duration(seconds)}"
        for word, seconds in (
            ("expected", section.expected_seconds),
            ("took", section.took_seconds),
        )
        if seconds is not None
    ]
    return ", ".join(words)


def _button_attributes(column: Column) -> dict[str, str | None]:
    is_long = len(shortened(visible(column.title), LONGEST_CELL)) > LONGEST_WORD
    return {
        "class": "long" if is_long else None,
        "title": _cut(column.explanation) if column.explanation else None,
    }


def _cell_attributes(cell: Cell, column: Column) -> dict[str, str | None]:
    """``data-k`` is what sorting compares, ``data-s`` says that this is text."""
    full = visible(cell.text)
    short = shortened(full, LONGEST_CELL)
    classes = ["n"] if column.numeric else ["long"] if len(short) > LONGEST_WORD else []
    if column.is_site:
        short, classes = shortened(full, LONGEST_SITE), ["site"]
    if cell.tone in ("good", "bad", "quiet"):
        classes.append(cell.tone)
    attributes = {
        "class": " ".join(classes) or None,
        "title": _cut(full) if short != full else None,
    }
    if isinstance(cell.key, (int, float)):
        return {**attributes, "data-k": f"{cell.key:.12g}"}
    if cell.key is None:
        return {**attributes, "data-k": ""}
    return {**attributes, "data-s": "", "data-k": None if cell.key == cell.text else _cut(cell.key)}


def _breakable(text: str) -> str:
    """As a cell has it, with places to break the line in words too long for a column on a phone."""
    text = shortened(visible(text), LONGEST_CELL)
    if len(text) <= LONGEST_WORD:
        return text
    return as_is(" ").join(map(_breakable_word, text.split(" ")))


def _breakable_word(text: str) -> str:
    pieces = re.findall(rf"[^(,/=]{{1,{LONGEST_WORD}}}[(,/=]?|[(,/=]", text)
    return as_is("<wbr>").join(pieces)


def _coded(text: str) -> str:
    """What stands between backticks as code."""
    pieces = re.split(r"`([^`]+)`", shortened(visible(text), LONGEST_TEXT))
    marked = [
        as_is(_code(piece) if number % 2 else html.escape(piece))
        for number, piece in enumerate(pieces)
    ]
    return as_is("").join(marked)


def _told(action: Action) -> str:
    """What to do, with the names of its places as code."""
    places = [action.place, *action.others] if action.place else []
    where = {
        html.escape(visible(place.name)): f"{place.file or place.module}:{place.line or ''}"
        for place in places
    }
    names = "|".join(map(re.escape, sorted(where, key=len, reverse=True)))

    def code(found: re.Match[str]) -> str:
        title = html.escape(_cut(where[found[0]].removesuffix(":")))
        return f'<code title="{title}">{found[0]}</code>'

    words = str(_coded(action.text))
    return as_is(re.sub(rf"(?<!\w)(?:{names})(?!\w)", code, words) if names else words)


def _linked(cell: Cell) -> str:
    links = (
        f'<a href="#{html.escape(to)}">{html.escape(_cut(words))}</a>' for words, to in cell.links
    )
    return as_is(", ".join(links))


def _code(text: str) -> str:
    whole = ' class="whole"' if len(text) <= LONGEST_WORD else ""
    return f"<code{whole}>{html.escape(text)}</code>"


def _notes(table: Table) -> list[str]:
    """Without those that say what a column means: its heading does."""
    explained = {column.title for column in table.columns if column.explanation}
    return [note for note in table.notes if note.partition(":")[0] not in explained]


def _site(text: str) -> str:
    """A call site as code, its callers smaller below it."""
    first, arrow, callers = shortened(visible(text), LONGEST_SITE).partition(" ← ")
    shown = as_is(f"<code>{html.escape(shortened(first, LONGEST_CELL))}</code>")
    if not arrow:
        return shown
    return shown + as_is(f"<small>← {html.escape(callers).replace(' ← ', '<wbr> ← ')}</small>")


def _meanings(sections: Sequence[Section]) -> list[tuple[str, str]]:
    """What columns and terms mean, each once."""
    found = {
        (column.title, column.explanation): None
        for section in sections
        for table in section.tables
        for column in table.columns
        if column.explanation
    }
    words = {(term.name, term.meaning): None for term in terms() if term.on_pages}
    return sorted((found | words) if found else found, key=lambda each: each[0].lower())


@dataclass(frozen=True)
class _Drawn:
    """A figure on the page; where it has no drawings, ``reason`` says why."""

    anchor: str
    title: str
    caption: str
    full: bool
    svgs: str = ""
    reason: str = ""


class _Figures:
    """Draws figures, each once, until their share of the page is used up."""

    def __init__(self) -> None:
        self._left = MOST_FIGURE_BYTES
        self._drawn: dict[str, _Drawn] = {}

    def drawn(self, figures: Sequence[Figure], anchor: str, widths: Sequence[bool]) -> list[_Drawn]:
        return [
            self._figure(figure, f"{anchor}-{number}", full)
            for number, (figure, full) in enumerate(zip(figures, widths, strict=True), 1)
        ]

    def _figure(self, figure: Figure, anchor: str, full: bool) -> _Drawn:
        if anchor not in self._drawn:
            drawn = _Drawn(anchor, figure.title, figure.caption, full)
            try:
                svgs = _draw(figure, anchor, full)
            except ValueError as error:
                reason = str(error).strip().splitlines()[-1]
                drawn = replace(drawn, reason=f"This figure cannot be drawn: {reason}")
            else:
                if len(svgs) > self._left:
                    reason = "Too large for a page; its data is in the data files."
                    drawn = replace(drawn, reason=reason)
                else:
                    self._left -= len(svgs)
                    drawn = replace(drawn, svgs=as_is(svgs))
            self._drawn[anchor] = drawn
        return self._drawn[anchor]


def _draw(figure: Figure, anchor: str, full: bool) -> str:
    drawing = Drawing(figure.spec)
    width = FULL_WIDTH if full else HALF_WIDTH
    wide = drawing.svg(width, narrow=False, prefix=f"{anchor}-wide-")
    narrow = drawing.svg(PHONE_WIDTH, narrow=True, prefix=f"{anchor}-narrow-")
    label = f'role="group" aria-label="{html.escape(_cut(figure.title))}"'
    return "".join(
        svg.replace("<svg", f'<svg class="{kind}" {label}', 1)
        for kind, svg in (("wide", wide), ("narrow", narrow))
    )


def _has_panels(figure: Figure) -> bool:
    return figure.wide or any(
        part in figure.spec for part in ("concat", "hconcat", "facet", "spec")
    )


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
