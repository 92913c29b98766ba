"""`tare history`: what it keeps, and what it says of that."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tare import __main__ as main
from tare.base.errors import UsageError
from tare.history import ledger
from tare.history.report import findings
from tare.history.series import DEFAULT_METRICS, history
from tare.programs.checkouts import Commit
from tare.records.metrics import METRICS
from tare.records.results import Results, measurement_schema
from tests.support.campaigns import described

INSTRUCTIONS, WALL = "instructions", "wall_seconds"


def results_of(study: str, metric: str, values: Sequence[float], program: str = "app") -> Results:
    frame = pl.DataFrame(
        [
            (study, program, "own", number, number, metric, float(value), METRICS[metric].unit,
             "ok", "executed")
            for number, value in enumerate(values)
        ],
        schema=measurement_schema(),
        orient="row",
    )  # fmt: skip
    return Results(Path("none"), described(study, [program], ["own"]), frame)


def commit(number: int) -> Commit:
    return Commit(f"{number:040x}", f"2026-11-{number + 1:02}T10:00:00+00:00", f"Change {number}")


def kept(folder: Path, metric: str, values: Sequence[float]) -> pl.DataFrame:
    for number, value in enumerate(values):
        ledger.add(results_of("count", metric, [value]), commit(number), folder)
    return ledger.read(folder)


def test_without_the_library_times_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    found = history(kept(tmp_path, WALL, [1.0] * 6), DEFAULT_METRICS, 0.01)
    assert any("tare[history]" in sentence for sentence in findings(found, 0.01))


# ---- the folder ----


def test_what_is_added_twice_is_there_once_and_order_is_that_of_dates(tmp_path: Path) -> None:
    for number in (2, 0, 1, 0):
        ledger.add(results_of("count", INSTRUCTIONS, [100 + number]), commit(number), tmp_path)
    rows = ledger.read(tmp_path)
    assert rows["median"].to_list() == [100, 101, 102]
    assert rows["summary"].to_list() == ["Change 0", "Change 1", "Change 2"]


def test_commits_of_one_second_are_in_the_order_of_their_ancestors(tmp_path: Path) -> None:
    for ancestors, name in ((3, "a"), (1, "c"), (2, "b")):
        of = Commit(name * 40, commit(0).committed, "", ancestors)
        ledger.add(results_of("count", INSTRUCTIONS, [ancestors]), of, tmp_path)
    assert ledger.read(tmp_path)["median"].to_list() == [1, 2, 3]


def test_of_a_gate_the_head_is_kept(tmp_path: Path) -> None:
    base, head = (results_of("count", INSTRUCTIONS, [v], p) for v, p in ((1, "base"), (2, "head")))
    document = described("gate", ["base", "head"], ["own"])
    both = pl.concat([base.measurements, head.measurements])
    gate = replace(head, document=document, measurements=both)
    ledger.add(gate, commit(0), tmp_path)
    rows = ledger.read(tmp_path)
    assert rows["median"].to_list() == [2]
    assert rows["program"].to_list() == ["base → head"]


def test_results_without_a_figure_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no figure"):
        ledger.add(results_of("count", INSTRUCTIONS, []), commit(0), tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PAR1 is not all", "is damaged"),
        (pl.DataFrame({"a": [1]}), "no file of a history"),
        (pl.DataFrame({"schema": [2], "a": [1]}), "newer version"),
    ],
)
def test_what_is_no_history_is_told(
    tmp_path: Path, content: bytes | pl.DataFrame, words: str
) -> None:
    path = tmp_path / "x.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content.write_parquet(path)
    with pytest.raises(UsageError, match=words):
        ledger.read(tmp_path)


# ---- what it says ----


def test_the_commit_that_changed_a_figure_is_named(tmp_path: Path) -> None:
    found = history(kept(tmp_path, INSTRUCTIONS, [1000, 1000, 1042]), DEFAULT_METRICS, 0.01)
    (sentence,) = findings(found, 0.01)
    assert sentence.startswith("000000000 Change 2 (2026-11-03): instructions +4.2%")


def test_what_began_from_nothing_has_no_ratio(tmp_path: Path) -> None:
    found = history(kept(tmp_path, INSTRUCTIONS, [0, 1000]), DEFAULT_METRICS, 0.01)
    assert "instructions from nothing (0 → 1.00 k, own)" in findings(found, 0.01)[0]


def test_where_nothing_changed_that_is_said(tmp_path: Path) -> None:
    found = history(kept(tmp_path, INSTRUCTIONS, [1000, 1001]), DEFAULT_METRICS, 0.01)
    assert findings(found, 0.01) == ["No commit changed a figure by more than 1.0%."]


def test_machines_have_a_series_each(tmp_path: Path) -> None:
    for number in range(12):
        results = results_of("compare", WALL, [1.0 + number % 2])
        machine = {**results.document["machine"], "processor": f"Processor {number % 2}"}
        results.document["machine"] = machine
        ledger.add(results, commit(number), tmp_path)
    found = history(ledger.read(tmp_path), DEFAULT_METRICS, 0.01)
    assert {each.machine for each in found.series} == {"Processor 0", "Processor 1"}
    assert not any(each.steps for each in found.series)


# ---- the command ----


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run(
        [*git, "commit", "--quiet", "--allow-empty", "-m", "Only <b>one</b>"], check=True
    )
    return tmp_path


def test_a_history_is_begun_shown_and_written(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = results_of("count", INSTRUCTIONS, [1000])
    (repository / "r").mkdir()
    (repository / "r" / "run.json").write_text(json.dumps(measured.document))
    measured.measurements.write_parquet(repository / "r" / "measurements.parquet")
    kept(repository / "past", INSTRUCTIONS, [900])
    words = ["history", "past", "r", "--page", "h.html", "--json", "-"]
    assert main.run(words) == 0
    told = json.loads(capsys.readouterr().out)
    (step,) = told["steps"]
    assert (step["before"], step["after"]) == (900, 1000)
    page = (repository / "h.html").read_text()
    assert "Only &lt;b&gt;one" in page
    assert "<b>one" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["past"], "there is no folder past"),
        (["past", "r"], "r"),
        (["past", "--threshold", "much"], "not a share"),
        (["past", "--threshold", "nan"], "from 0% to 100%"),
    ],
)
def test_bad_input(
    words: Sequence[str], message: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["history", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_commit_that_is_none(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "r").mkdir()
    (repository / "r" / "run.json").write_text(json.dumps(described("count", ["a"], ["own"])))
    assert main.run(["history", "past", "r", "--commit", "nothing"]) == 2
    assert "nothing is no commit" in capsys.readouterr().err
