"""Tables on a terminal of 80 columns."""

from __future__ import annotations

import dataclasses
import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.text import printable
from tare.base.units import (
    format_bytes,
    format_duration,
    format_percent,
    format_seconds,
    parse_size,
)
from tare.records.actions import Action, Certainty, Gain, Kind, Place
from tare.report.model import Cell, Column, Report, Section, Table, Tile
from tare.report.terminal import MOST_LINES, print_report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(
    report: Report, monkeypatch: pytest.MonkeyPatch, width: int = 80, *, verbose: bool = False
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    print_report(report, stream, verbose=verbose)
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


ACTION = Action(
    kind=Kind.FREE_EARLIER,
    text="Free `orders` after its last use: half of it waits for the end of the program.",
    gain=Gain("peak_resident_bytes", 22 << 20, 20 << 20, 23 << 20, "B", 0.75),
    certainty=Certainty.PREDICTED,
    verify="tare drag -- ./hold orders.csv",
    place=Place("load_orders", "/home/me/src/hold.cpp", 32, "hold"),
)
BILL = Report(
    title="tare weigh: ./hold orders.csv",
    subtitle="two cores",
    verdict=["tcmalloc needs 5.6% less memory.", "Time: cannot tell."],
    actions=[ACTION],
    tiles=[Tile("Peak memory", "88.0 MiB"), Tile("Never freed", "1.00 MiB")],
    trust="3 runs under each manager.",
    trusted=False,
    sections=[Section("s", "Its section", ["Found."], [Table("t", "Its table", [], [])])],
)


def test_a_bill_says_what_to_change_where_and_how_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(BILL, monkeypatch, 120)
    assert lines == [
        "tare weigh: ./hold orders.csv",
        "two cores",
        "",
        "  tcmalloc needs 5.6% less memory.",
        "  Time: cannot tell.",
        "",
        f"① {ACTION.text}",
        "   −22.0 MiB (25%) peak memory, predicted, 20.0 MiB to 23.0 MiB · "
        "load_orders (hold.cpp:32)",
        "   tare drag -- ./hold orders.csv",
        "",
        "Peak memory: 88.0 MiB · Never freed: 1.00 MiB",
        "  3 runs under each manager.",
    ]


def test_what_to_know_of_a_program_comes_before_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about = Section("own-heap", "", ["It maps its own heap.", "Try it."], commands=[("", "tare x")])
    lines = shown(dataclasses.replace(BILL, about=about), monkeypatch, 120)
    assert lines[1:5] == ["two cores", "", "  It maps its own heap.", "  Try it."]
    assert lines[5:] == shown(BILL, monkeypatch, 120)[2:]


def test_verbose_adds_the_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = shown(BILL, monkeypatch)
    whole = shown(BILL, monkeypatch, verbose=True)
    assert whole[: len(brief)] == brief
    assert "Its section" not in brief
    assert {"Its section", "Its table"} <= {line.strip() for line in whole}


@given(
    width=st.integers(40, 200),
    actions=st.integers(0, 5),
    verdict=st.lists(st.text("words of ", min_size=1, max_size=300), min_size=1, max_size=8),
    words=st.integers(1, 60),
    warnings=st.lists(st.text("heed. ", max_size=400), max_size=5),
    about=st.lists(st.text("heap. ", min_size=1, max_size=400), max_size=3),
)
def test_a_bill_is_short_whatever_it_found(
    width: int,
    actions: int,
    verdict: list[str],
    words: int,
    warnings: list[str],
    about: list[str],
) -> None:
    action = msgspec.structs.replace(
        ACTION, text="Free this. " * words, verify="tare drag " * words
    )
    report = dataclasses.replace(
        BILL,
        about=Section("own-heap", "", about) if about else None,
        verdict=verdict,
        actions=[action] * actions,
        warnings=warnings,
    )
    with pytest.MonkeyPatch.context() as patched:
        lines = shown(report, patched, width)
    assert len(lines) <= MOST_LINES
    assert any("3 runs under" in line for line in lines), "what it rests on is always told"
    assert any("Free this" in line for line in lines) == (actions > 0)


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
