"""Bills made by hand, held against what was planted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tare.records.actions import Kind
from tests.planted.collection import FOLDER, Planted, collection
from tests.planted.judging import Judgement, actions_of, judged
from tests.planted.measuring import Effect, UnmeasuredError

PROGRAMS = collection()
LINE = PROGRAMS["csv_input"].line


def action(kind: str, ratio: float, file: str = "", line: int = 0, **more: str) -> dict[str, Any]:
    place = {"function": "f", "file": file, "line": line, "module": "/tmp/a"} if file else None
    gain = {"metric": "peak_free_bytes", "value": 10.0, "low": 9.0, "high": 11.0, "unit": "B"}
    words = {"text": "Do it.", "certainty": "predicted", "verify": "tare drag -- a"}
    return {"kind": kind, "place": place, "gain": {**gain, "ratio": ratio}, **words, **more}


def judge(
    folder: Path, name: str, *actions: Mapping[str, Any], effect: float | None = 0.7
) -> Judgement:
    """``effect``: what is left of the metric after the fix; None where nothing measures it."""
    bill = folder / "bill.json"
    bill.write_text(json.dumps({"tare": "1", "measurements": [], "actions": list(actions)}))

    def measured(_: object) -> Effect:
        if effect is None:
            raise UnmeasuredError("unknown_bytes")
        return Effect(100, 100 * effect)

    return judged(PROGRAMS[name], actions_of(bill), measured)


def test_the_action_at_the_line_is_found_at_any_rank(tmp_path: Path) -> None:
    elsewhere = action("free-earlier", 0.5, "/src/csv_input.c", LINE + 1)
    there = action("free-earlier", 0.72, "/src/csv_input.c", LINE)
    told = judge(tmp_path, "csv_input", elsewhere, there)
    assert (told.right, told.rank, told.within) == (True, 2, True)
    assert told.predicted == pytest.approx(0.28)
    assert told.measured == pytest.approx(0.3)


def test_a_gain_more_than_three_points_off_is_not_within(tmp_path: Path) -> None:
    there = action("free-earlier", 0.735, "csv_input.c", LINE)
    told = judge(tmp_path, "csv_input", there)
    assert told.right
    assert not told.within


@pytest.mark.parametrize(
    "wrong",
    [
        action("leak", 0.7, "/src/csv_input.c", LINE),
        action("free-earlier", 0.7, "/src/csv_input.c", LINE + 1),
        action("free-earlier", 0.7, "/src/other.c", LINE),
        action("free-earlier", 0.7),
    ],
    ids=["kind", "line", "file", "no place"],
)
def test_another_kind_or_place_is_wrong(tmp_path: Path, wrong: Mapping[str, Any]) -> None:
    told = judge(tmp_path, "csv_input", wrong)
    assert (told.right, told.rank, told.within) == (False, 1, False)


def test_a_bill_without_actions_names_nothing(tmp_path: Path) -> None:
    told = judge(tmp_path, "csv_input")
    assert (told.right, told.action, told.predicted) == (False, None, None)


def test_a_metric_that_nothing_measures_is_not_within(tmp_path: Path) -> None:
    there = action("free-earlier", 0.7, "csv_input.c", LINE)
    told = judge(tmp_path, "csv_input", there, effect=None)
    assert (told.right, told.measured, told.within) == (True, None, False)


def test_another_allocator_is_named_by_its_name(tmp_path: Path) -> None:
    named = action("allocator", 0.7, verify="tare compare -m glibc -m mimalloc -- a")
    assert judge(tmp_path, "mixed_sizes", named).within
    unknown = action("allocator", 0.7, verify="tare compare -m glibc -m dlmalloc -- a")
    assert not judge(tmp_path, "mixed_sizes", unknown).right


def test_a_healthy_program_is_accused_by_any_action(tmp_path: Path) -> None:
    assert judge(tmp_path, "healthy_index").right
    assert not judge(tmp_path, "healthy_index", action("option", 0.99)).right


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_row_of_the_table_is_whole(program: Planted) -> None:
    text = program.source.read_text()
    assert ("FIXED" in text) == (program.line > 0)
    assert text.count("// planted:") == (program.line > 0)
    assert bool(program.improves) == (program.fault is not None)


def test_the_collection_covers_what_it_is_for() -> None:
    faulty = [program for program in PROGRAMS.values() if program.fault]
    assert len(faulty) >= 16
    assert len(PROGRAMS) - len(faulty) >= 2
    assert {path.stem for path in FOLDER.iterdir()} == PROGRAMS.keys()
    assert {program.fault for program in faulty} == set(Kind) - {Kind.COLLECTOR, Kind.OPTION}
    assert {program.language for program in faulty} == {"c", "c++"}
    flags = {flag for program in faulty for flag in program.flags}
    assert {"-O0", "-O2", "-pthread"} <= flags
