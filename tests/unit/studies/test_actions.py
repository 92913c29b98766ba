"""What bills, `tare drag` and `tare space` advise to do: places, gains and sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tare as api
from tare.answers import changed_actions
from tare.answers.diff import diff
from tare.answers.exports import sarif
from tare.answers.exports.formats import to_json
from tare.base.errors import UsageError
from tare.records.actions import Action, Kind
from tare.records.results import Results, load, read_records
from tare.studies.drag.actions import POOL_INSTRUCTIONS
from tare.studies.drag.question import drag_of_trace
from tare.weighing.actions import actions_of
from tests.support import SUPPORT
from tests.support.traces import objects_frame, write_trace_folder

MIB = 1 << 20
HELD = [
    {"birth": 10, "size": 3 * MIB, "site": 3, "first": 11, "last": 20, "free": 900},
    {"birth": 500, "size": MIB, "site": 2, "first": 501, "last": 899, "free": 901},
]
MENDED = [{**HELD[0], "free": 21}, HELD[1]]


def results_of(rows: list[dict[str, Any]], folder: Path) -> Results:
    trace = write_trace_folder(folder / "prog.tare", objects_frame(rows), end_instructions=1000)
    return drag_of_trace(trace, folder=folder / "results")


def with_details(results: Results, more: Mapping[str, Any]) -> Results:
    file = results.folder / "runs.jsonl"
    record = json.loads(file.read_text())
    record["details"] |= more
    file.write_text(json.dumps(record) + "\n")
    return load(results.folder)


def change(kind: Kind, **more: Any) -> dict[str, Any]:
    place = {"function": "make", "file": "src/list.c", "line": 7, "module": "/bin/prog"}
    return {"kind": kind.value, "place": place, "objects": 100, "bytes": 3200, **more}


def test_an_action_has_a_place_a_gain_and_a_command(tmp_path: Path) -> None:
    (action,) = actions_of(results_of(HELD, tmp_path))
    assert action.kind is Kind.FREE_EARLIER
    assert action.place is not None
    assert (action.place.function, action.place.file, action.place.line) == ("make", "list.c", 7)
    assert (action.gain.metric, action.gain.unit) == ("peak_free_bytes", "B")
    assert action.gain.value == action.gain.low == action.gain.high == MIB
    assert action.gain.ratio == pytest.approx(0.75)
    assert action.text == (
        "Free what make (list.c:7) allocates when it is no longer used: 3.00 MiB of it are alive "
        "at the peak, after their last use."
    )
    assert action.verify == "tare drag --ignore-output -- prog"


def test_a_program_that_the_folder_does_not_name_is_damage(tmp_path: Path) -> None:
    results = results_of(HELD, tmp_path)
    (program,) = results.document["programs"]
    document = results.document | {"programs": [program | {"name": "another"}]}
    with pytest.raises(UsageError, match="is damaged"):
        actions_of(Results(results.folder, document, results.measurements))


def test_json_has_the_actions(tmp_path: Path) -> None:
    results = results_of(HELD, tmp_path)
    (action,) = to_json(results, api.summary(results))["actions"]
    assert action["kind"] == "free-earlier"
    assert action["certainty"] == "predicted"
    assert set(action) == {"kind", "text", "place", "gain", "certainty", "verify"}
    assert set(action["gain"]) == {"metric", "value", "low", "high", "unit", "ratio"}
    assert set(action["place"]) == {"function", "file", "line", "module"}


@pytest.mark.parametrize("name", ["drag", "weigh", "space"])
def test_results_of_older_versions_advise_nothing(name: str) -> None:
    assert [a for a in actions_of(load(SUPPORT / "results-0.1" / name)) if a.place] == []


def test_calls_are_costed_as_the_run_counted_them(tmp_path: Path) -> None:
    counted = {
        "instructions": 1e6,
        "malloc_calls": 1000, "malloc_instructions": 50_000,
        "free_calls": 1000, "free_instructions": 30_000,
    }  # fmt: skip
    changes = [change(Kind.SHORT_LIVED, calls=900), change(Kind.CROSS_THREAD, calls=300)]
    found = with_details(results_of(MENDED, tmp_path), {"counted": counted, "changes": changes})
    (action,) = actions_of(found)
    assert action.kind is Kind.SHORT_LIVED, "24,000 instructions of others are not worth the work"
    assert action.gain.metric == "instructions"
    assert action.gain.value == action.gain.high == 900 * 80
    assert action.gain.low == 900 * (80 - POOL_INSTRUCTIONS)
    assert action.gain.ratio == pytest.approx(1 - 0.072)
    assert "900 of 32 B on average" in action.text
    assert action.verify == "tare count --ignore-output -- prog"
    assert actions_of(with_details(found, {"counted": {}})) == []


def test_what_grows_by_copying_costs_memory_or_instructions(tmp_path: Path) -> None:
    results = results_of(MENDED, tmp_path)
    largest = 3 * MIB
    grows = change(Kind.RESERVE, links=9, copied_bytes=9000, copy_instructions=200_000, at_peak=0)
    counted = {"instructions": 1e6}
    for peak, metric in ((2 * MIB, "peak_free_bytes"), (largest, "instructions")):
        peaks = dict.fromkeys(("peak", "peak_low", "peak_high"), peak)
        found = with_details(results, {"counted": counted, "changes": [grows | peaks]})
        (action,) = actions_of(found)
        assert action.gain.metric == metric
        assert "copied into a larger block 9 times" in action.text


def of_space(tmp_path: Path, **row: int) -> list[Action]:
    results = results_of(MENDED, tmp_path)
    file = results.folder / "runs.jsonl"
    record = json.loads(file.read_text())
    pinned = change(Kind.PINNED, requested=6400, **row)
    del pinned["kind"]
    (kept,) = read_records(SUPPORT / "results-more" / "space-growing")
    peak = kept.outcome.details["peak"] | {"resident": 8 * MIB}
    details = {**kept.outcome.details, "peak": peak, "pinned": [pinned]}
    record |= {"study": "space", "details": details}
    file.write_text(json.dumps(record) + "\n")
    run = results.document | {"study": "space"}
    return list(actions_of(Results(results.folder, run, results.measurements)))


def test_space_names_what_costs_more_than_it_holds(tmp_path: Path) -> None:
    (action,) = of_space(tmp_path / "many", on_pages=MIB, between=0, overhead=2 * MIB)
    assert (action.kind, action.gain.value) == (Kind.PINNED, 2 * MIB)
    assert action.gain.low == pytest.approx(1.8 * MIB)
    assert action.text == (
        "Allocate the objects of make (list.c:7) many at a time, in blocks of their own: at the "
        "peak 100 of them, 6.25 KiB in all, take 2.00 MiB more for headers and rounding."
    )
    assert of_space(tmp_path / "few", on_pages=0, between=0, overhead=MIB // 4) == []


def test_space_names_what_pins_free_memory(tmp_path: Path) -> None:
    (action,) = of_space(tmp_path, on_pages=3 * MIB, between=MIB)
    assert (action.kind, action.gain.low, action.gain.value) == (Kind.PINNED, 3 * MIB, 4 * MIB)
    assert action.gain.ratio == pytest.approx(0.5)
    assert action.verify == "tare space --ignore-output -- prog"


def test_a_difference_says_what_a_mended_fault_brought(tmp_path: Path) -> None:
    before, after = (results_of(rows, tmp_path / str(len(name))) for rows, name in
                     ((HELD, "a"), (MENDED, "bb")))  # fmt: skip
    found = diff(before, after).report.sections[0].findings
    assert found[0] == "1.00 MiB lower peak of live bytes (-25%)."
    assert found[1] == (
        "Gone: free-earlier at make (list.c:7); it brought 25% less peak of live bytes "
        "(1.00 MiB); expected: 25% less."
    )
    back = diff(after, before).report.sections[0].findings[1]
    assert back.startswith("Came up: Free what make (list.c:7) allocates")
    assert not any("Gone" in line for line in diff(before, before).report.sections[0].findings)


def test_an_analysis_without_the_study_is_no_sign_that_an_action_is_gone(tmp_path: Path) -> None:
    before = results_of(HELD, tmp_path)
    after = Results(before.folder, before.document, before.measurements.head(0))
    assert actions_of(before)
    assert changed_actions.headlines(before, after) == []


def test_what_is_gone_is_told_by_what_it_was_to_bring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = results_of(HELD, tmp_path)
    (named,) = actions_of(results)
    assert named.place is not None
    pinned = replace(named, kind=Kind.PINNED, place=replace(named.place, function="keep"))
    allocator = replace(named, kind=Kind.ALLOCATOR, text="Use snmalloc: 44% less.", place=None)
    new = Results(results.folder, results.document, results.measurements)
    known = {id(results): [named, pinned, allocator], id(new): []}
    monkeypatch.setattr(changed_actions, "actions_of", lambda which, *_: known[id(which)])
    first, second = changed_actions.headlines(results, new)
    assert first == (
        "Gone: free-earlier at make (list.c:7) and pinned at keep (list.c:7); together they "
        "brought 0.0% less peak of live bytes (0 B); expected: 25% and 25% less."
    )
    assert second == "No longer advised: Use snmalloc: 44% less."


def test_actions_are_sarif_with_lines_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = results_of(HELD, tmp_path)
    (first, *_) = [each for each in actions_of(results, 1000) if each.place]
    assert first.place is not None
    monkeypatch.chdir(tmp_path)
    document = json.loads(api.export_text(results, "sarif"))
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    found = run["results"][0]
    assert found["ruleId"] == run["tool"]["driver"]["rules"][found["ruleIndex"]]["id"]
    assert found["message"]["text"].startswith(first.text)
    physical = found["locations"][0]["physicalLocation"]
    assert physical["region"] == {"startLine": first.place.line}
    for each in run["results"]:
        assert each["message"]["text"]
        assert each["properties"]["gain"].keys() >= {"metric", "value", "low", "high", "unit"}
    inside = replace(first, place=replace(first.place, file=str(tmp_path / "a b.c")))
    monkeypatch.setattr(sarif, "actions_of", lambda *_: [inside])
    (found,) = sarif.to_sarif(results, tmp_path)["runs"][0]["results"]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"] == {
        "uri": "a%20b.c",
        "uriBaseId": "%SRCROOT%",
    }
    nameless = replace(first, place=replace(first.place, file=""))
    monkeypatch.setattr(sarif, "actions_of", lambda *_: [nameless])
    assert sarif.to_sarif(results, tmp_path)["runs"][0]["results"] == []


def test_every_kind_of_action_has_its_rule() -> None:
    assert set(sarif.RULES) == set(Kind)
