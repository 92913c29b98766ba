"""The table and the icicle of who owns the memory, of results that are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tare as api
from tare.base.documents import converted
from tare.heap_traces.ownership import SUMS
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Outcome, Record
from tare.report.call_trees import Weight, grown
from tare.report.figures.drawing import draw
from tare.report.figures.icicle import MOST_ROWS, icicle
from tare.report.model import Table
from tare.studies.space import ownership, report
from tare.studies.space.details import Details, Owning
from tests.support import SUPPORT

OWNED = SUPPORT / "results-more" / "space-owners"
OLDER = SUPPORT / "results-0.1" / "space"
PROGRAM = "tree"


def kept() -> tuple[Record, Details]:
    (record,) = read_records(OWNED)
    return record, record.outcome.details_as(Details)


def column(table: Table, title: str) -> list[str]:
    (place,) = (n for n, column in enumerate(table.columns) if column.title == title)
    return [row[place].text for row in table.rows]


def numbers(table: Table, title: str) -> list[Any]:
    (place,) = (n for n, column in enumerate(table.columns) if column.title == title)
    return [row[place].key for row in table.rows]


def test_the_rows_add_up_to_the_peak_and_others_come_last() -> None:
    _, found = kept()
    table, often, leaks = ownership.tables(PROGRAM, found, None, 1)
    assert found.owners is not None
    totals = found.owners.totals
    assert sum(numbers(table, "at the peak")) == totals.peak_bytes
    assert sum(numbers(table, "objects")) == totals.peak_objects
    assert sum(numbers(table, "never freed")) == totals.never_freed_bytes
    assert sum(numbers(leaks, "bytes")) == totals.never_freed_bytes
    assert sum(numbers(leaks, "objects")) == totals.never_freed_objects
    assert sum(numbers(often, "allocations")) == totals.objects
    assert sum(numbers(often, "temporary")) == totals.temporary_objects
    assert column(often, "call site")[-1].endswith(" others")
    for each in (table, often, leaks):
        shares = numbers(each, "share")[: each.few]
        assert shares == sorted(shares, reverse=True)
        assert min(shares) >= 0.01
    assert "drag" not in [column.title for column in table.columns]


def test_drag_of_the_same_bill_stands_beside() -> None:
    record, found = kept()
    assert found.owners is not None
    first, second, *_ = found.owners.sites
    sums = dict.fromkeys((*SUMS, "peak_lag"), 0)
    drags = [
        {**sums, "frames": first.frames, "peak_drag": 700, "peak_void": 11},
        {**sums, "frames": [frame_named("elsewhere")], "peak_drag": 5, "peak_void": 0},
    ]
    others = {**sums, "peak_drag": 1, "peak_void": 1, "sites": 9}
    totals = {**sums, "peak_bytes": 1 << 20}
    owners = {"sites": drags, "others": others, "totals": totals, "frames": [], "stacks": []}
    details = {"owners": owners}
    run = replace(record.run, study="drag")
    other = Record(run, Outcome(Status.OK, details=details), record.started)
    dragged = ownership.drag_of([record, other], record.run.program)
    table, *_ = ownership.tables(PROGRAM, found, dragged, 1)
    assert second.peak_bytes
    of_sites = numbers(table, "drag")
    assert of_sites[:2] == [711, None]
    assert of_sites[-1] == 5 + 2
    assert "its peak of 1.00 MiB" in " ".join(table.notes)


def frame_named(name: str) -> dict[str, Any]:
    return {"function": name, "object": "/bin/p", "file": "", "line": None, "offset": 1}


def test_the_section_has_the_table_and_the_figure() -> None:
    section = report.section(api.load(OWNED))
    assert "table-owners-1" in [table.identifier for table in section.tables]
    assert "figure-space-owners" in [figure.identifier for figure in section.figures]
    assert any("owns most at the peak" in sentence for sentence in section.findings)
    assert any("are temporary" in sentence for sentence in section.findings)


def test_older_results_say_nothing_of_owners() -> None:
    section = report.section(api.load(OLDER))
    assert not any("owners" in table.identifier for table in section.tables)
    assert not any("owners" in figure.identifier for figure in section.figures)
    assert not any("owns" in sentence for sentence in section.findings)


@pytest.mark.parametrize(("width", "narrow"), [(1080, False), (356, True)])
def test_labels_of_the_icicle_fit_their_boxes(width: int, narrow: bool) -> None:
    _, found = kept()
    figure, at_end = ownership.figures(PROGRAM, found, "figure")
    assert at_end.identifier == "figure-end"
    svg = draw(figure.spec, width, narrow=narrow, prefix="p-")
    assert "read_input" in svg
    assert "tree.c:6" in svg
    (panel,) = figure.spec["concat"]
    *boxes, labels = panel["layer"]
    widths = {
        (row["x"], row["y"] + 0.5): row["x2"] - row["x"]
        for layer in boxes
        for row in layer["data"]["values"]
    }
    for row in labels["data"]["values"]:
        room = widths[row["x"], row["y"]] * (356 if row["narrow"] else 1080)
        assert 7 * len(row["text"]) <= room


def test_a_deep_tree_has_bounded_rows_and_folds_small_shares() -> None:
    chain = tuple(f"f{number}" for number in range(100))
    stacks = [((*chain, "a (a.c:1)"), [500.0]), ((*chain, "b (a.c:2)"), [300.0])]
    stacks += [(("g", f"small{number}"), [4.0]) for number in range(50)]
    figure = icicle("i", "t", "c", grown("p", "", "", [Weight("", "B")], stacks))
    (panel,) = figure.spec["concat"]
    *boxes, _ = panel["layer"]
    tips = [row["tip"] for layer in boxes for row in layer["data"]["values"]]
    assert panel["height"] <= 24 * MOST_ROWS
    assert {tip.partition(":")[0] for tip in tips} >= {"p", "f99", "g", "others"}
    assert any(tip.startswith("a (a.c:1)") for tip in tips)
    assert any(tip.startswith("others: 200 B") for tip in tips)


def test_nothing_is_said_of_a_program_that_allocates_nothing() -> None:
    sums: dict[str, Any] = dict.fromkeys((*SUMS, "kept"), 0)
    nothing = {"totals": sums, "sites": [], "others": {**sums, "sites": 0}}
    found = converted({"owners": {**nothing, "stacks": [], "frames": []}}, Owning)
    assert ownership.sentences(found) == []
    assert ownership.tables("p", found, None, 1) == []
    assert ownership.figures("p", found, "i") == []
