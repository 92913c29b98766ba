"""`tare gate` of programs that are really built and run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tare import __main__ as main
from tests.support import ROOT

FILL = ROOT / "tests" / "docs" / "documented" / "fill.c"


def build(path: Path, size: int, source: Path = FILL) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-g", "-O1", f"-DSIZE={size}", "-o", path, source], check=True)
    return path


def gate(*words: object) -> int:
    return main.run(["gate", *map(str, words)])


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("builds")
    build(folder / "old" / "fill", 48)
    build(folder / "new" / "fill", 64)
    return folder


def test_larger_objects_are_a_regression_at_their_call_site(
    builds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, out = builds / "old" / "fill", builds / "new" / "fill", tmp_path / "out.json"
    found = gate("-o", tmp_path / "r", "--json", out, "--markdown", "-", "-n", 1, old, new)
    assert found == 1
    changes = {each["metric"]: each for each in json.loads(out.read_text())["changes"]}
    assert changes["allocated_bytes"]["verdict"] == "regression"
    assert changes["allocated_bytes"]["ratio"]["median"] == pytest.approx(64 / 48, rel=1e-3)
    assert changes["objects"]["verdict"] == changes["instructions"]["verdict"] == "same"
    assert changes["wall_seconds"]["verdict"] == "cannot tell"
    shown = capsys.readouterr()
    assert "main (fill.c:" in shown.out
    assert "**Regression: 33% more bytes allocated" in shown.out
    assert (tmp_path / "r" / "report.html").exists()


def test_a_program_beside_itself_is_the_same(builds: Path, tmp_path: Path) -> None:
    old = builds / "old" / "fill"
    assert gate("-q", "--skip", "time", "-o", tmp_path / "r", old, old) == 0


def test_smaller_objects_are_no_regression_and_a_gate_is_resumed(
    builds: Path, tmp_path: Path
) -> None:
    words = ("-q", "--skip", "time", "-o", tmp_path / "r", builds / "new" / "fill",
             builds / "old" / "fill")  # fmt: skip
    assert gate(*words) == 0
    lines = (tmp_path / "r" / "runs.jsonl").read_text().splitlines()
    document = json.loads((tmp_path / "r" / "run.json").read_text())
    (tmp_path / "r" / "run.json").write_text(json.dumps({**document, "finished": ""}))
    (tmp_path / "r" / "runs.jsonl").write_text("".join(f"{line}\n" for line in lines[:3]))
    assert gate(*words) == 0
    assert len((tmp_path / "r" / "runs.jsonl").read_text().splitlines()) == len(lines)


def test_a_program_runs_in_each_folder(
    builds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--skip", "time", "-o", tmp_path / "r", builds / "old", builds / "new", "--")
    assert gate(*words, "./fill") == 1
    assert "33% more bytes allocated" in capsys.readouterr().out
    assert gate("-o", tmp_path / "s", builds / "old", builds / "new") == 2
    assert "no program follows" in capsys.readouterr().err


def test_a_head_that_fails_is_newly_failing(
    builds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\nint main(void) { abort(); }\n")
    new = build(tmp_path / "crash", 1, source)
    assert gate("-o", tmp_path / "r", builds / "old" / "fill", new) == 1
    assert "Newly failing: head" in capsys.readouterr().out


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    for words in (["init", "-q", "-b", "main"], ["config", "user.email", "a@b.c"],
                  ["config", "user.name", "a"]):  # fmt: skip
        subprocess.run(["git", *words], check=True)
    (folder / "fill.c").write_text(FILL.read_text())
    for size in (48, 64):
        (folder / "Makefile").write_text(
            f"fill: fill.c\n\tcc -g -O1 -DSIZE={size} fill.c -o fill\n"
        )
        subprocess.run(["git", "add", "."], check=True)
        subprocess.run(["git", "commit", "-q", "-m", str(size)], check=True)
    return folder


def worktrees() -> int:
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, check=True)
    return len(listed.stdout.splitlines())


def test_commits_are_built_beside_each_other_and_leave_nothing(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--skip", "time", "-o", tmp_path / "r", "main~1", "main", "--build", "make -s", "--")
    assert gate(*words, "./fill") == 1
    assert "33% more bytes allocated" in capsys.readouterr().out
    assert worktrees() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r", "repository"]
    assert sorted(path.name for path in repository.iterdir()) == [".git", "Makefile", "fill.c"]


def test_a_build_that_fails_shows_its_end_and_keeps_its_output(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del repository
    words = ("-o", tmp_path / "r", "main~1", "main", "--build", "echo broken; exit 3", "--")
    assert gate(*words, "./fill") == 1
    said = capsys.readouterr().err
    assert "failed in base with exit code 3: broken" in said
    assert (tmp_path / "r-builds" / "base-build.log").read_text() == "broken\n"
    assert worktrees() == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope", "main", "--build", "make", "--", "./fill"], "nope is no commit"),
        (["main~1", "main"], "no program follows"),
        (["main~1", "main", "--skip", "speed", "--", "./fill"], "no part 'speed' to skip"),
        (["nope", "neither"], "'nope' was not found"),
        (["main~1", "main", "--threshold", "much", "--", "./fill"], "much"),
    ],
)
def test_what_is_wrong_is_said(
    repository: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    del repository
    assert gate(*words) == 2
    assert said in capsys.readouterr().err
