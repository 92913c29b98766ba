"""`pip install .` in a clean virtual environment gives a working tare, native parts inside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.timeout(900)
def test_a_clean_install_measures(tmp_path: Path) -> None:
    venv = tmp_path / "clean venv"  # the space is part of the test
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    source = tmp_path / "source"
    tracked = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    # One allocator that builds in seconds stands for all: they share every line of the packaging.
    only = "--config-settings=cmake.define.TARE_ALLOCATORS=mimalloc"
    # Minutes of cargo, which the replayer's build has shown to work in seconds.
    without = "--config-settings=cmake.define.TARE_COLLECTORS_WITH_PACKAGE=OFF"
    pip = str(venv / "bin" / "pip")
    install = [pip, "install", "-q", "-c", str(constraints(tmp_path)), only, without, str(source)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    options = ["-n", "2", "-m", "glibc", "-m", "mimalloc", "-o", "r"]
    run = subprocess.run(
        [venv / "bin" / "tare", "compare", *options, "--", "sort", "/etc/passwd"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "mimalloc" in run.stdout
    assert (tmp_path / "r" / "report.html").exists()
    suites = subprocess.check_output(
        [venv / "bin" / "tare", "suite", "list"], cwd=tmp_path, env=environment, text=True
    )
    assert "quick" in suites
    assert "kernels" in suites


def constraints(tmp_path: Path) -> Path:
    """The versions of the lock file, without hashes, which pip cannot ask of a local folder."""
    pins = [
        line.rstrip(" \\")
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if line and line[0].isalnum() and "==" in line
    ]
    file = tmp_path / "constraints.txt"
    file.write_text("\n".join(pins))
    return file
