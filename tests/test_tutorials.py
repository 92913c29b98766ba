"""Every command of the tutorials is run, in their order, as a reader would type them.

That takes minutes, so `make soak` does. `make test` parses each, see test_docs.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
MAY_SAY_NO = "tare diff"
"""A machine that changes its pace is no fault of the page: the exit code may be 1."""


def commands(page: Path) -> list[str]:
    """The lines of the `sh` blocks."""
    lines: list[str] = []
    inside = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside:
            lines.append(line)
    return lines


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("lua5.4") is None, reason="lua5.4 is not installed")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_commands_of_a_tutorial_work(page: Path, tmp_path: Path) -> None:
    for name in ("docs", "traces", "workloads"):
        (tmp_path / name).symlink_to(ROOT / name)
    tare = tmp_path / "bin" / "tare"
    tare.parent.mkdir()
    tare.write_text(f'#!/bin/sh\nexec {sys.executable} -m tare "$@"\n')
    tare.chmod(0o755)
    lines = commands(page)
    assert len(lines) > 4
    for line in lines:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=tmp_path,
            env={"PATH": f"{tare.parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        accepted = (0, 1) if line.startswith(MAY_SAY_NO) else (0,)
        assert done.returncode in accepted, f"{line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, line
