"""Tables that say of each place what to do, and where that is told."""

from __future__ import annotations

import re

from tare.records.actions import Action, Certainty, Gain, Kind, Place
from tare.report.advice import bounds_text, place_text, with_actions
from tare.report.model import Cell, Column, Report, Section, Table
from tare.report.page import render_page

MAKE = Place("make", "/src/list.c", 7, "/bin/p")
LINK = Place("link", "/src/list.c", 30, "/bin/p")
READ = Place("read", "/src/io.c", 3, "/bin/p")
GAIN = Gain("peak_free_bytes", 10, 9, 11, "B", 0.5)


def action(kind: Kind, place: Place | None, *others: Place) -> Action:
    names = [each.name for each in (place, *others) if each]
    text = f"Do something at {', '.join(names)}."
    return Action(kind, text, GAIN, Certainty.PREDICTED, "", place, others)


ACTIONS = [
    action(Kind.ALLOCATOR, None),
    action(Kind.FREE_EARLIER, MAKE, LINK),
    action(Kind.PINNED, LINK),
]


def table(*names: str) -> Table:
    columns = [Column("no."), Column("call site", numeric=False), Column("bytes")]
    rows = [
        [Cell(str(n)), Cell(f"{name} ← main"), Cell("7 B", 7.0)] for n, name in enumerate(names)
    ]
    return Table("t", "T", columns, rows, places=names)


def test_each_row_says_what_to_do_there_and_leads_to_it() -> None:
    names = [MAKE.name, LINK.name, READ.name, ""]
    section = with_actions(Section("s", "S", tables=[table(*names)]), ACTIONS)
    (found,) = section.tables
    assert [column.title for column in found.columns] == ["no.", "call site", "what to do", "bytes"]
    assert [row[2].text for row in found.rows] == [
        "② free earlier", "② free earlier, ③ allocate apart", "", ""
    ]  # fmt: skip
    page = render_page(Report("r", actions=ACTIONS, verdict=["v"], sections=[section]))
    for number, words in ((2, "② free earlier"), (3, "③ allocate apart")):
        assert f'<a href="#action-{number}">{words}</a>' in page
        assert f'<li id="action-{number}">' in page


def test_a_table_that_no_action_is_about_stays_as_it_is() -> None:
    section = Section("s", "S", tables=[table(READ.name), Table("u", "U", [], [])])
    assert with_actions(section, ACTIONS).tables == section.tables
    assert with_actions(section, []).tables == section.tables


def test_every_kind_with_a_place_has_words() -> None:
    for kind in set(Kind) - {Kind.ALLOCATOR, Kind.OPTION, Kind.COLLECTOR}:
        section = Section("s", "S", tables=[table(MAKE.name)])
        (found,) = with_actions(section, [action(kind, MAKE)]).tables
        assert re.fullmatch(r"① [a-z]+( [a-z]+)*", found.rows[0][2].text), "no name of the JSON"


def test_a_card_marks_the_names_of_places() -> None:
    other = Place("make", "/src/list.c", 71, "/bin/p")
    page = render_page(Report("r", verdict=["v"], actions=[action(Kind.LEAK, MAKE, other)]))
    assert '<code title="/src/list.c:7">make (list.c:7)</code>' in page
    assert '<code title="/src/list.c:71">make (list.c:71)</code>' in page
    bad = Place("<b>x", "/a<b>.c", 1, "")
    page = render_page(Report("r", verdict=["v"], actions=[action(Kind.LEAK, bad)]))
    assert '<code title="/a&lt;b&gt;.c:1">&lt;b&gt;x (a&lt;b&gt;.c:1)</code>' in page


def test_a_place_is_told_once() -> None:
    assert place_text(action(Kind.LEAK, MAKE)) == ""
    silent = Action(Kind.LEAK, "Free it.", GAIN, Certainty.PREDICTED, "", MAKE)
    assert place_text(silent) == "make (list.c:7)"
    assert place_text(ACTIONS[0]) == ""


def test_bounds_that_read_alike_are_none() -> None:
    assert bounds_text(GAIN) == "9 B to 11 B"
    close = Gain("peak_free_bytes", 3 << 20, (3 << 20) - 5, (3 << 20) + 5, "B", 0.5)
    assert bounds_text(close) == ""
