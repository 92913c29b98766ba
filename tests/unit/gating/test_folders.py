"""`tare gate` of two results folders: what is judged, and by what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tare.base.errors import UsageError
from tare.gating.changes import IMPROVEMENT, REGRESSION, SAME, UNTOLD, changes
from tare.gating.folders import GateOfFolders, gate_folders
from tare.gating.report import findings, is_broken, section, to_markdown
from tare.records.metrics import Status
from tare.records.results import RUN_FILE, Results, read_records
from tare.records.runs import Outcome, Record, Run
from tests.support.campaigns import write_campaign

STEADY = [1.0 + number / 1000 for number in range(8)]


def record(study: str, program: str, number: int, **values: float) -> Record:
    return Record(
        Run(study, program, "glibc", number, number),
        Outcome(Status.OK, values=values, details={"operations": {}}),
        "2026",
    )


def folder(
    path: Path,
    instructions: Sequence[float] = (1000, 1000),
    seconds: Sequence[float] = STEADY,
    programs: Sequence[str] = ("p",),
    **more: Any,
) -> Path:
    records = [
        record(study, program, number, **{metric: value})
        for program in programs
        for study, metric, values in (
            ("count", "instructions", instructions),
            ("compare", "wall_seconds", seconds),
        )
        for number, value in enumerate(values)
    ]
    write_campaign(path, programs, ["glibc"], 0, study="weigh", records=records)
    (path / "measurements.parquet").unlink()
    document = json.loads((path / RUN_FILE).read_text())
    (path / RUN_FILE).write_text(json.dumps({**document, **more}))
    return path


def judged(base: Path, head: Path, **asked: Any) -> Results:
    return gate_folders(GateOfFolders(base, head, base.parent / "gate", **asked))


def verdicts(results: Results) -> dict[str, str]:
    return {each.metric: each.verdict for each in changes(results)}


def paced(seconds: float) -> dict[str, Any]:
    return {"canary_seconds": {"start": [seconds], "end": [seconds]}}


def test_counts_decide_as_they_do_for_programs(tmp_path: Path) -> None:
    results = judged(folder(tmp_path / "a"), folder(tmp_path / "b", (1020, 1020)))
    assert verdicts(results) == {"instructions": REGRESSION, "wall_seconds": SAME}
    assert is_broken(results)
    assert to_markdown(results).startswith("**Regression: 2.0% more instructions")
    assert section(results).findings[0].startswith("Regression: 2.0% more instructions")
    assert not is_broken(
        gate_folders(GateOfFolders(tmp_path / "b", tmp_path / "a", tmp_path / "back"))
    )


def test_times_are_judged_where_the_machine_was_the_same(tmp_path: Path) -> None:
    slower = [2 * value for value in STEADY]
    old = folder(tmp_path / "a", **paced(0.05))
    results = judged(old, folder(tmp_path / "b", seconds=slower, **paced(0.05)))
    assert verdicts(results)["wall_seconds"] == REGRESSION


def test_times_of_a_machine_that_changed_are_not_judged(tmp_path: Path) -> None:
    slower = [2 * value for value in STEADY]
    old = folder(tmp_path / "a", **paced(0.05))
    results = judged(old, folder(tmp_path / "b", (900, 900), slower, **paced(0.1)))
    assert verdicts(results) == {"instructions": IMPROVEMENT, "wall_seconds": UNTOLD}
    assert not is_broken(results)
    said = findings(results, read_records(results.folder), [])
    assert said[0].startswith("Improved: 10.0% fewer instructions")
    assert "as the machine ran at another speed: canary 1.00 vs 2.00" in said[1]


def test_without_a_canary_that_is_said(tmp_path: Path) -> None:
    results = judged(folder(tmp_path / "a"), folder(tmp_path / "b"))
    said = findings(results, read_records(results.folder), [])
    assert any(sentence.startswith("There is no canary in old and new") for sentence in said)


def test_few_runs_of_time_tell_nothing(tmp_path: Path) -> None:
    old = folder(tmp_path / "a", seconds=[1.0] * 3)
    results = judged(old, folder(tmp_path / "b", seconds=[2.0] * 3))
    assert verdicts(results)["wall_seconds"] == UNTOLD


def test_counts_that_were_made_once_may_vary(tmp_path: Path) -> None:
    results = judged(folder(tmp_path / "a", [1000]), folder(tmp_path / "b", [1030]))
    assert verdicts(results)["instructions"] == UNTOLD


def test_a_part_can_be_left_out(tmp_path: Path) -> None:
    old, new = folder(tmp_path / "a"), folder(tmp_path / "b", (2000, 2000))
    assert verdicts(judged(old, new, skip=("count",))).keys() == {"wall_seconds"}


def test_the_same_question_again_adds_no_run(tmp_path: Path) -> None:
    old, new = folder(tmp_path / "a"), folder(tmp_path / "b")
    before = len(read_records(judged(old, new).folder))
    assert len(read_records(judged(old, new).folder)) == before == 2 * (2 + len(STEADY))


def test_two_builds_by_other_names_are_held_against_each_other(tmp_path: Path) -> None:
    old = folder(tmp_path / "a", programs=["old/p"])
    new = folder(tmp_path / "b", (1100, 1100), programs=["new/p"])
    assert verdicts(judged(old, new))["instructions"] == REGRESSION


def test_folders_of_different_studies_are_no_pass(tmp_path: Path) -> None:
    old, new = folder(tmp_path / "a", seconds=()), folder(tmp_path / "b", instructions=())
    with pytest.raises(UsageError, match="no runs of one study and manager"):
        judged(old, new)


@pytest.mark.parametrize(
    ("base", "head", "asked", "said"),
    [
        (("p", "q"), ("p", "q"), {}, "2 programs in common"),
        (("p", "q"), ("r",), {}, "no programs in common"),
        (("p",), ("p",), {"manager": "mimalloc"}, "no runs under mimalloc"),
        (("p",), ("p",), {"threshold": 3.0}, "a threshold of 3"),
        (("p",), ("p",), {"skip": ("speed",)}, "no part 'speed' to skip"),
        (("p",), ("p",), {"skip": ("count", "time")}, "nothing is left"),
    ],
)
def test_what_cannot_be_judged_is_said(
    tmp_path: Path, base: Sequence[str], head: Sequence[str], asked: dict[str, Any], said: str
) -> None:
    old, new = folder(tmp_path / "a", programs=base), folder(tmp_path / "b", programs=head)
    with pytest.raises(UsageError, match=said):
        judged(old, new, **asked)
    assert not (tmp_path / "gate").exists()
