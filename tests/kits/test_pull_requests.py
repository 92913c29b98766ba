"""The GitHub Action and the GitLab component: their steps run as they stand, on two commits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT

ACTION = ROOT / "action.yml"
COMPONENT = ROOT / "templates" / "gate.yml"
FILL = ROOT / "tests" / "docs" / "documented" / "fill.c"
GIVEN = {"command": "./fill 'two words'", "build": "cc -g -O1 -o fill fill.c"}


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str, str]:
    """A clone that knows its last commit alone, with the commits before and after a change."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet")
    commits = []
    for size in (48, 64):
        (origin / "fill.c").write_text(f"#define SIZE {size}\n{FILL.read_text()}")
        git(origin, "add", "fill.c")
        git(origin, "commit", "--quiet", "-m", f"Nodes of {size} bytes")
        commits.append(git(origin, "rev-parse", "HEAD"))
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "clone")
    return tmp_path / "clone", commits[0], commits[1]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def action_step(name: str) -> dict[str, Any]:
    steps = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    (found,) = (step for step in steps if step["name"] == name)
    return dict(found)


def compare(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """The step of the action, as a runner calls it."""
    step = action_step("Compare the two commits")
    inputs = yaml.safe_load(ACTION.read_text())["inputs"]
    values = {name: given.get(name, str(inputs[name].get("default", ""))) for name in inputs}
    settings = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    summary = folder.parent / "summary.md"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder, env=environment(**settings, GITHUB_STEP_SUMMARY=str(summary)),
        capture_output=True, text=True,
    )  # fmt: skip


def test_the_action_fails_for_a_regression_and_says_why(
    repository: tuple[Path, str, str], tmp_path: Path
) -> None:
    clone, base, head = repository
    done = compare(clone, base=base, head=head, **GIVEN)
    assert done.returncode == 1, done.stderr
    assert "**Regression: 33% more bytes allocated" in (tmp_path / "summary.md").read_text()
    shutil.rmtree(clone / "tare-gate")
    assert compare(clone, base=base, head=head, fail="false", **GIVEN).returncode == 0
    assert compare(clone, base=head, head=base, **GIVEN).returncode == 2  # other results are there


def test_the_action_tells_of_a_wrong_build(repository: tuple[Path, str, str]) -> None:
    clone, base, head = repository
    done = compare(clone, base=base, head=head, command="./fill", build="false", fail="false")
    assert done.returncode == 1
    assert "`false` failed" in done.stderr


def test_what_tare_lacks_does_not_break_a_job(
    repository: tuple[Path, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, base, head = repository
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tare").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin" / "tare").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    done = compare(clone, base=base, head=head, **GIVEN)
    assert (done.returncode, done.stdout) == (
        0,
        "::warning title=Tare::nothing was compared, see the log\n",
    )


def test_the_component_fails_for_a_regression(repository: tuple[Path, str, str]) -> None:
    clone, base, head = repository
    git(clone, "fetch", "--quiet", "--unshallow")  # GIT_DEPTH: 0
    header, jobs = COMPONENT.read_text().split("\n---\n")
    inputs = yaml.safe_load(header)["spec"]["inputs"]
    values = {
        name: GIVEN.get(name, str((inputs[name] or {}).get("default", ""))) for name in inputs
    }
    job = yaml.safe_load(jobs)["tare-gate"]
    settings = {
        name: re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: values[found[1]], text)
        for name, text in job["variables"].items()
    }
    settings |= {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_SHA": head}
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(job["script"])],
        cwd=clone, env=environment(**settings), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "**Regression: 33% more bytes allocated" in (clone / "tare-gate.md").read_text()
    assert set(job["artifacts"]["paths"]) == {"tare-gate", "tare-gate.md"}
    assert 1 not in job["allow_failure"]["exit_codes"]
