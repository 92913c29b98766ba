"""Tables on a terminal of 80 columns."""

from __future__ import annotations

import io

import pytest

from tare.base.text import printable
from tare.base.units import (
    format_bytes,
    format_duration,
    format_percent,
    format_seconds,
    parse_size,
)
from tare.report.model import Cell, Column, Report, Section, Table
from tare.report.terminal import print_report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(report: Report, monkeypatch: pytest.MonkeyPatch, width: int = 80) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    print_report(report, stream)
    return stream.getvalue().splitlines()


def test_a_comparison_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [Column("manager", numeric=False), *(Column(t) for t in ("time", "ratio"))]
    columns += [Column("95% interval", numeric=False), Column("memory"), Column("ratio")]
    columns += [Column("95% interval", numeric=False), Column("runs", essential=False)]
    row = ["google-tcmalloc", "1.02 s", "0.912", "0.905 – 0.921"]
    row += ["12.1 MiB", "1.083", "1.081 – 1.088", "20"]
    table = Table("t", "a program", columns, [[Cell(text, 1.0) for text in row]])
    lines = shown(Report("title", sections=[Section("s", "S", tables=[table])]), monkeypatch)
    assert max(map(len, lines)) <= 80
    (line,) = (line for line in lines if "google-tcmalloc" in line)
    assert line.split()[-1] == "1.088", "the columns that may be left out are, and no other"
    wide = shown(Report("t", sections=[Section("s", "S", tables=[table])]), monkeypatch, 140)
    assert any(line.rstrip().endswith("20") for line in wide)


def test_names_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jname\r\n[red]x[/red]"
    table = Table("t", evil, [Column(evil, numeric=False)], [[Cell(evil, evil)]], [evil])
    report = Report(evil, evil, sections=[Section("s", evil, [evil], [table])], warnings=[evil])
    text = "\n".join(shown(report, monkeypatch))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]" in text, "markup in names is text"


def test_printable() -> None:
    assert printable("a\nb\tc\x1b") == "a⏎b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("size", "expected"), [("1", 1), ("64KiB", 65536), ("1.5 MiB", 1572864), ("2GiB", 2147483648)]
)
def test_sizes(size: str, expected: int) -> None:
    assert parse_size(size) == expected


def test_numbers_as_people_read_them() -> None:
    assert format_bytes(512) == "512 B"
    assert format_bytes(1536) == "1.50 KiB"
    assert format_seconds(0.01234) == "12.3 ms"
    assert format_seconds(0) == "0 s"
    assert format_percent(-0.0123) == "1.2%"
    assert format_duration(3700) == "1 h 1 min"
