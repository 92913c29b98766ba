"""Programs that are root in a user namespace, where the system makes one."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def unshare(reason: str) -> str:
    """The path of the command; skips, with what the namespace is for, where it may make none."""
    path = shutil.which("unshare")
    if path is None or subprocess.run([path, "-rm", "true"], check=False).returncode != 0:
        pytest.skip(f"{reason} (unshare -rm)")
    return path
