"""Replays under a build of MMTk that verifies its heap after each collection, and all that it
assumes: a long run, because that build takes minutes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tare.memory_managers.mmtk import PLANS
from tests.native.replay.test_mmtk import compiled, malloc_says, tangled
from tests.support import ROOT

pytestmark = pytest.mark.timeout(3600)

FOLDER = ROOT / "replay" / "mmtk"


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The replayer, by whether Immix never moves an object."""
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    target = tmp_path_factory.mktemp("checked")
    built = {}
    for nonmoving in (False, True):
        features = "checked,nonmoving" if nonmoving else "checked"
        command = [cargo, "build", "--quiet", "--locked", "--profile", "collectors"]
        command += ["--features", features, "--target-dir", str(target)]
        subprocess.run(command, cwd=FOLDER, check=True)
        built[nonmoving] = target / f"replayer-{nonmoving}"
        shutil.copy(target / "collectors" / "tare-replay-mmtk", built[nonmoving])
    return built


@pytest.mark.parametrize("name", PLANS)
def test_the_heap_is_sound_after_each_collection(
    name: str, checked: dict[bool, Path], tmp_path: Path
) -> None:
    plan = PLANS[name]
    schedule = compiled(tmp_path, *tangled(6_000, seed=11))
    command = [str(checked[plan.collector.endswith("nonmoving")]), "--plan", plan.plan]
    report = tmp_path / "report"
    command += ["--period", str(128 << 10), "--heap", str(16 << 20)]
    command += ["--report", str(report), str(schedule)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == malloc_says(schedule)
    assert json.loads(report.read_text())["collections"] > 10
