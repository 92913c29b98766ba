"""Reports on a terminal: readable at 80 columns, plain when it is not one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from tare.base.text import printable
from tare.report.model import Cell, Report, Section, Table

_STYLES = {"good": "green", "bad": "red", "quiet": "dim"}
_NARROW = 120
_PIPE_WIDTH = 100


def print_report(report: Report, stream: TextIO) -> None:
    """Write the title, the findings and the tables of ``report``; figures are for the page."""
    with console_on(stream) as console:
        _print(report, console)


@contextmanager
def console_on(stream: TextIO) -> Iterator[Console]:
    """What writes to ``stream``; where that is no terminal, no line is padded to the width."""
    if stream.isatty():
        yield Console(file=stream, highlight=False)
        return
    text = io.StringIO()
    yield Console(file=text, width=_PIPE_WIDTH, highlight=False)
    stream.writelines(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _print(report: Report, console: Console) -> None:
    console.print(Text(printable(report.title), style="bold"))
    if report.subtitle:
        console.print(Text(printable(report.subtitle), style="dim"))
    for section in report.sections:
        _print_section(console, section)
    if report.warnings:
        console.print()
    for warning in report.warnings:
        console.print(Text(f"! {printable(warning)}", style="yellow"))


def _print_section(console: Console, section: Section) -> None:
    console.print()
    console.print(Text(printable(section.title), style="bold underline"))
    for finding in section.findings:
        console.print(Padding(Text(printable(finding)), (0, 0, 0, 2), expand=False))
    for label, line in section.commands:
        console.print(Text(f"  {printable(label)}:"))
        # Never wrapped, so that it can be copied.
        console.print(Text(f"      {printable(line)}", style="bold"), soft_wrap=True)
    for table in section.tables:
        if table.essential:
            _print_table(console, table)
    if any(not table.essential for table in section.tables):
        console.print(Text("\nThe page has more tables.", style="dim"))


def _print_table(console: Console, table: Table) -> None:
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
    for row in table.rows:
        grid.add_row(*(_text(row[index]) for index in shown))
    console.print()
    console.print(Text(printable(table.title), style="italic"))
    console.print(grid)
    for note in table.notes:
        console.print(Padding(Text(printable(note), style="dim"), (0, 0, 0, 2), expand=False))


def _text(cell: Cell) -> Text:
    unbroken = printable(cell.text).replace(" ", "\N{NO-BREAK SPACE}")
    return Text(
        unbroken if isinstance(cell.key, float | int) else printable(cell.text),
        style=_STYLES.get(cell.tone, ""),
    )
