"""Reports on a terminal: readable at 80 columns, plain when it is not one."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from tare.base.text import printable, sentence, shortened, shortened_sentence
from tare.records.actions import Action
from tare.report.advice import bounds_text, gain_text, metric_text, place_text, rank
from tare.report.model import Cell, Report, Section, Table

_STYLES = {"good": "green", "bad": "red", "quiet": "dim"}
_NARROW = 120
_PIPE_WIDTH = 100
MOST_LINES = 22
"""Of a verdict. The addresses that follow it take three more."""
_LONGEST_COMMAND, _LONGEST_TEXT = 2, 3
"""Lines of a command, which nobody copies when it is longer, and of a sentence."""


def print_report(report: Report, stream: TextIO, *, verbose: bool = False) -> None:
    """Write what ``report`` says; figures are for the page. Of one with a verdict that is the
    answer alone, and its tables with ``verbose``."""
    with console_on(stream) as console:
        if report.verdict:
            _print_verdict(report, console, verbose=verbose)
        else:
            _print_title(report, console)
        if verbose or not report.verdict:
            _print_sections(report, console, verbose=verbose)


@contextmanager
def console_on(stream: TextIO) -> Iterator[Console]:
    """What writes to ``stream``; where that is no terminal, no line is padded to the width."""
    if stream.isatty():
        yield Console(file=stream, highlight=False)
        return
    text = io.StringIO()
    yield Console(file=text, width=_PIPE_WIDTH, highlight=False)
    stream.writelines(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _print_title(report: Report, console: Console) -> None:
    console.print(Text(printable(report.title), style="bold"))
    if report.subtitle:
        console.print(Text(printable(report.subtitle), style="dim"))


def _print_sections(report: Report, console: Console, *, verbose: bool) -> None:
    for section in report.sections:
        _print_section(console, section, verbose=verbose)
    if report.warnings:
        console.print()
    for warning in report.warnings:
        console.print(Text(f"! {printable(warning)}", style="yellow"))


@dataclass(frozen=True)
class _Line:
    text: str
    style: str = ""
    whole: bool = False
    """Never broken, so that it can be copied."""


@dataclass(frozen=True)
class _Advised:
    """An action in lines; the command that verifies it is left out first where there is no room."""

    lines: Sequence[_Line]
    verify: Sequence[_Line]


@dataclass(frozen=True)
class _Verdict:
    """The answer in lines, and what of it gives way where there is no room."""

    head: Sequence[_Line]
    about: Sequence[Sequence[_Line]]
    sentences: Sequence[Sequence[_Line]]
    advised: Sequence[_Advised]
    warnings: Sequence[Sequence[_Line]]
    tail: Sequence[_Line]
    more: int = 0

    def lines(self) -> Iterator[_Line]:
        yield from self.head
        if self.about:
            yield _Line("")
        for lines in self.about:
            yield from lines
        yield _Line("")
        for lines in self.sentences:
            yield from lines
        if self.advised:
            yield _Line("")
        for each in self.advised:
            yield from (*each.lines, *each.verify)
        if self.more:
            yield _Line(f"  and {self.more} more: -v shows all", "dim")
        yield _Line("")
        yield from self.tail
        for warning in self.warnings:
            yield from warning

    def smaller(self) -> _Verdict | None:
        """What is left when one thing more is left out; None when all that is left must be told."""
        if len(self.warnings) > 1:
            return replace(self, warnings=self.warnings[:-1])
        for number in range(len(self.advised) - 1, -1, -1):
            each = self.advised[number]
            if each.verify:
                kept = (*self.advised[:number], replace(each, verify=()))
                return replace(self, advised=(*kept, *self.advised[number + 1 :]))
        if len(self.sentences) > 1:
            return replace(self, sentences=self.sentences[:-1])
        if self.warnings:
            return replace(self, warnings=())
        if len(self.advised) > 1:
            return replace(self, advised=self.advised[:-1], more=self.more + 1)
        if len(self.about) > 1:
            return replace(self, about=self.about[:-1])
        return None


def _print_verdict(report: Report, console: Console, *, verbose: bool) -> None:
    width = console.width
    verdict: _Verdict | None = _verdict(report, width)
    shown = verdict
    while verdict is not None and not verbose and _height(verdict, width) > MOST_LINES:
        verdict = verdict.smaller()
        shown = verdict or shown
    assert shown is not None
    for line in shown.lines():
        console.print(Text(line.text, style=line.style), soft_wrap=line.whole)


def _height(verdict: _Verdict, width: int) -> int:
    return sum(max(1, math.ceil(len(line.text) / width)) for line in verdict.lines())


def _verdict(report: Report, width: int) -> _Verdict:
    tiles = [f"{tile.title}: {tile.value}" for tile in report.tiles]
    trust = _wrapped(report.trust, width, style="green" if report.trusted else "yellow")
    about = report.about.findings if report.about else ()
    cut = [f"! {each.partition('. ')[0].removesuffix('.')}" for each in report.warnings]
    return _Verdict(
        head=(
            _Line(shortened(printable(report.title), width), "bold"),
            *([_Line(shortened(printable(report.subtitle), width), "dim")] * bool(report.subtitle)),
        ),
        about=[_wrapped(each, width) for each in about],
        sentences=[_wrapped(each, width) for each in report.verdict],
        advised=[_advised(action, n, width) for n, action in enumerate(report.actions, 1)],
        warnings=[_wrapped(each, width, style="yellow", indent="") for each in cut],
        tail=(*_wrapped(" · ".join(tiles), width, style="bold", indent=""), *trust),
    )


def _advised(action: Action, number: int, width: int) -> _Advised:
    gain = action.gain
    bounds = bounds_text(gain)
    sure = f"{action.certainty}{f', {bounds}' if bounds else ''}"
    facts = [f"{gain_text(gain)} {metric_text(gain)}, {sure}", place_text(action)]
    verify = f"   {printable(action.verify)}"
    copied = bool(action.verify) and len(verify) <= _LONGEST_COMMAND * width
    return _Advised(
        [
            *_wrapped(action.text, width, indent=f"{rank(number)} ", style="bold"),
            *_wrapped(" · ".join(filter(None, facts)), width, indent="   "),
        ],
        [_Line(verify, "dim", whole=True)] if copied else [],
    )


def _wrapped(text: str, width: int, *, indent: str = "  ", style: str = "") -> list[_Line]:
    lines = textwrap.wrap(
        shortened_sentence(printable(text), _LONGEST_TEXT * (width - len(indent))),
        max(20, width),
        initial_indent=indent,
        subsequent_indent=" " * len(indent) if indent.isspace() else "   ",
        break_on_hyphens=False,
    )
    return [_Line(line, style) for line in lines]


def _print_section(console: Console, section: Section, *, verbose: bool) -> None:
    console.print()
    console.print(Text(printable(section.title), style="bold underline"))
    for finding in section.findings:
        console.print(Padding(Text(printable(finding)), (0, 0, 0, 2), expand=False))
    for label, line in section.commands:
        console.print(Text(f"  {printable(sentence(label))}:"))
        # Never wrapped, so that it can be copied.
        console.print(Text(f"      {printable(line)}", style="bold"), soft_wrap=True)
    for table in section.tables:
        if table.essential:
            _print_table(console, table, verbose=verbose)
    if any(not table.essential for table in section.tables):
        console.print(Text("\nThe page has more tables.", style="dim"))


def _print_table(console: Console, table: Table, *, verbose: bool) -> None:
    narrow = console.width < _NARROW
    shown = [i for i, c in enumerate(table.columns) if c.essential or not narrow]
    grid = RichTable(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
    )
    for index in shown:
        column = table.columns[index]
        grid.add_column(
            Text(printable(column.title)),
            justify="right" if column.numeric else "left",
            overflow="fold",
        )
    few = None if verbose else table.few
    for row in table.rows[:few]:
        grid.add_row(*(_text(row[index]) for index in shown))
    console.print()
    console.print(Text(printable(table.title), style="italic"))
    console.print(grid)
    rest = [table.rest] if few is not None else []
    for note in [*rest, *table.notes]:
        console.print(
            Padding(Text(printable(sentence(note)), style="dim"), (0, 0, 0, 2), expand=False)
        )


def _text(cell: Cell) -> Text:
    unbroken = printable(cell.text).replace(" ", "\N{NO-BREAK SPACE}")
    return Text(
        unbroken if isinstance(cell.key, float | int) else printable(cell.text),
        style=_STYLES.get(cell.tone, ""),
    )
