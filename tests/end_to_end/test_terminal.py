"""Tables on a real terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT


def test_in_a_real_terminal(tmp_path: Path) -> None:
    """The same in tmux, 80 columns wide, colours and progress bar included."""
    tmux = shutil.which("tmux")
    if tmux is None:
        pytest.skip("tmux is not installed: apt-get install tmux")
    session = ["-L", f"tare-{tmp_path.name}"]
    command = (
        f"{sys.executable} -m tare compare -n 3 -m glibc -m 'glibc(tcache=0)' -o {tmp_path}/r "
        f"-- sh -c 'sleep 0.05'; tmux -L tare-{tmp_path.name} wait-for -S done; sleep 30"
    )
    new = [tmux, *session, "new-session", "-d", "-x", "80", "-y", "50", command]
    subprocess.run(new, check=True, cwd=ROOT)
    try:
        subprocess.run([tmux, *session, "wait-for", "done"], check=True)
        screen = subprocess.check_output([tmux, *session, "capture-pane", "-p"], text=True)
    finally:
        subprocess.run([tmux, *session, "kill-server"])
    assert "glibc(tcache=0)" in screen
    header = next(line for line in screen.splitlines() if line.startswith("manager"))
    assert header.count("95% interval") == 2, screen
