"""Traces that an older Tare wrote open, and are replayed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tare as api
from tare.heap_traces.invariants import violations
from tests.conftest import Completed
from tests.unit.answers.test_older_results import OLDER


@pytest.mark.parametrize("name", ["t.tare", "u.tare"])
def test_traces_are_read(tare: Callable[..., Completed], tmp_path: Path, name: str) -> None:
    trace = tmp_path / name
    shutil.copytree(OLDER / name, trace)
    assert not any(violations(api.open_trace(trace)))
    exported = tare("export", "-f", "collapsed", "--weight", "bytes", trace)
    assert exported.returncode == 0, exported.stderr
    assert "main" in exported.stdout or "sort+" in exported.stdout
    replayed = tare("replay", "-n", "1", "--warmup", "0", "-m", "glibc", "-o", "r", trace)
    assert replayed.returncode == 0, replayed.stderr
    if name == "u.tare":
        dragged = tare("drag", "-o", "d", trace)
        assert dragged.returncode == 0, dragged.stderr
