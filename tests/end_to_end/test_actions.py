"""What `tare drag` advises of a program with a known fault, against the program with it mended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Completed
from tests.support import SUPPORT

SOURCE = SUPPORT / "programs" / "held.cpp"


def analysed(
    tare: Callable[..., Completed], folder: Path, optimisation: str, *flags: str
) -> tuple[dict[str, float], list[dict[str, Any]], Path]:
    folder.mkdir()
    program = folder / "held"
    words = ["c++", "-std=c++20", "-g", optimisation, *flags, "-o", str(program), str(SOURCE)]
    subprocess.run(words, check=True)
    results = folder / "results"
    done = tare("drag", "--json", "-", "-o", results, "--", "./held", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    values = {row["metric"]: row["value"] for row in found["measurements"] if "value" in row}
    return values, found["actions"], results


@pytest.mark.parametrize("optimisation", ["-O0", "-O2"])
def test_a_map_that_is_destroyed_late_is_to_be_freed_earlier(
    tmp_path: Path, tare: Callable[..., Completed], optimisation: str
) -> None:
    before, actions, old = analysed(tare, tmp_path / "held", optimisation)
    after, none, new = analysed(tare, tmp_path / "mended", optimisation, "-DFIXED")
    (action,) = actions
    assert action["kind"] == "free-earlier"
    brought = before["peak_free_bytes"] - after["peak_free_bytes"]
    assert action["gain"]["value"] == pytest.approx(brought, rel=0.01)
    assert action["gain"]["ratio"] == pytest.approx(
        after["peak_free_bytes"] / before["peak_free_bytes"], abs=0.01
    )
    assert none == []
    # By last uses alone, what destructors read would hold the nodes, and all of them.
    assert before["peak_last_use_bytes"] > before["peak_needed_bytes"] * 1.1
    said = tare("diff", old, new).stdout
    assert "Gone: free-earlier" in said
