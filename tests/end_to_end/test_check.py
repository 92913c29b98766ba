"""`tare check`: limits of programs that are run."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import tare as api
from tare import __main__ as main
from tare.checking.limits import (
    KEPT,
    NO_FIGURE,
    OVER,
    judged,
)
from tare.records.metrics import WITH_LIMITS
from tare.records.results import load
from tests.support import ROOT
from tests.unit.checking.test_check import write

ALWAYS = {
    "compare": {"wall_seconds", "user_seconds", "system_seconds", "peak_resident_bytes"}
    | {"processor_seconds"}
    | {"minor_faults", "major_faults", "context_switches", "processes"},
    "count": set(WITH_LIMITS["count"]),
    "drag": set(WITH_LIMITS["drag"]),
    "memsys": set(WITH_LIMITS["memsys"]),
    "space": set(WITH_LIMITS["space"]),
}
"""What each study measures of any program, on any machine and under any manager."""


def test_what_has_a_limit_is_measured_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, 'peak_resident_bytes = "1GiB"\nwall_seconds = 1e-9\n')
    results = api.check(path, runs=2, warmup=0, folder=tmp_path / "results")
    assert set(results.measurements["study"]) == {"compare"}
    assert {row.metric: row.verdict for row in judged(results)} == {
        "peak_resident_bytes": KEPT,
        "wall_seconds": OVER,
    }


@pytest.mark.parametrize("study", [study for study in ALWAYS if study != "compare"])
def test_a_study_measures_what_can_have_a_limit(tmp_path: Path, study: str) -> None:
    path = write(tmp_path, "\n".join(f"{metric} = 1e15" for metric in sorted(ALWAYS[study])))
    results = api.check(path, runs=1, warmup=0, folder=tmp_path / "results")
    assert set(results.measurements["study"]) == {study}
    assert {row.metric for row in judged(results) if row.verdict == KEPT} == ALWAYS[study]


def test_time_and_memory_of_any_program_can_have_limits(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join(f"{metric} = 1e15" for metric in sorted(ALWAYS["compare"])))
    rows = judged(api.check(path, runs=1, warmup=0, folder=tmp_path / "results"))
    assert {row.metric for row in rows if row.verdict == KEPT} == ALWAYS["compare"]


def test_pauses_are_those_of_the_manager_that_is_named(tmp_path: Path) -> None:
    limits = 'max_pause_seconds = "10s"\nquarantined_bytes = "1GiB"'
    path = write(tmp_path, limits, 'manager = "delay(glibc, size=64KiB)"')
    rows = judged(api.check(path, runs=1, warmup=0, folder=tmp_path / "results"))
    assert [row.verdict for row in rows] == [KEPT, KEPT]
    assert {row.manager for row in rows} == {"delay(glibc, size=64KiB)"}
    path = write(tmp_path, limits)
    rows = judged(api.check(path, runs=1, warmup=0, folder=tmp_path / "other"))
    assert [row.verdict for row in rows] == [NO_FIGURE, NO_FIGURE]


def test_the_share_of_the_manager_is_of_instructions(tmp_path: Path) -> None:
    path = write(tmp_path, 'manager_instructions_share = "1%"\ninstructions = 1e12\n')
    results = api.check(path, folder=tmp_path / "results")
    share, instructions = judged(results)
    frame = results.measurements
    (part,) = frame.filter(pl.col("metric") == "manager_instructions")["value"]
    assert share.median == pytest.approx(part / (instructions.median or 0))
    assert 0 < (share.median or 0) < 1


def test_exit_codes_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, 'peak_resident_bytes = "1GiB"')
    words = ["check", str(path), "-n", "2", "--warmup", "0", "-o"]
    files = ["--json", "one.json", "--markdown", "one.md"]
    assert main.run([*words, "kept", *files]) == 0
    assert "The limit is kept." in capsys.readouterr().out
    assert "| `one` | `peak_resident_bytes` | 1.00 GiB |" in Path("one.md").read_text()
    (limit,) = json.loads(Path("one.json").read_text())["limits"]
    assert limit["verdict"] == KEPT
    assert limit["low"] <= limit["median"] <= limit["high"] < limit["most"] == 1 << 30
    write(tmp_path, 'peak_resident_bytes = "4KiB"')
    assert main.run([*words, "broken", "--quiet", "--markdown", "-"]) == 1
    assert "**over**" in capsys.readouterr().out
    assert api.export_text(load(Path("broken")), "markdown").startswith("**")
    write(tmp_path, 'peak_resident_bytes = "1GiB"', command='["false"]')
    assert main.run([*words, "failed"]) == 1
    assert NO_FIGURE in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limits", "more", "code", "word"),
    [
        ("", "", 2, "no program"),
        ("wall_secs = 1", "", 2, "wall_seconds"),
        ("wall_seconds = true", "", 2, "must be a number"),
        ("wall_seconds = 1", 'manager = "nobody"', 2, "nobody"),
        ("wall_seconds = 1", 'packages = ["no-such-package-at-all"]', 3, "no-such-package-at-all"),
        ("instructions = 1", 'manager = "jvm.g1"', 2, "tare count"),
    ],
    ids=range(6),
)
def test_what_is_wrong_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limits: str, more: str, code: int, word: str
) -> None:
    path = write(tmp_path, limits, more)
    assert main.run(["check", str(path), "-o", str(tmp_path / "results")]) == code
    assert word in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_the_worked_example(tmp_path: Path) -> None:
    example = ROOT / "docs" / "examples" / "limits.toml"
    rows = judged(api.check(example, runs=1, warmup=0, folder=tmp_path / "results"))
    assert {row.verdict for row in rows} == {KEPT}
    assert len(rows) == 5
