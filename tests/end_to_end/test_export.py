"""`tare export` as a command."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tare.answers.exports.formats import (
    to_hyperfine,
)
from tests.unit.answers.test_export import usual


def test_hyperfine_form_has_the_keys_of_hyperfine(tmp_path: Path) -> None:
    if shutil.which("hyperfine") is None:
        pytest.skip("hyperfine is not installed (package hyperfine)")
    exported = tmp_path / "hyperfine.json"
    subprocess.run(
        [
            *("hyperfine", "-N", "--runs", "3", "--export-json", str(exported)),
            *("-L", "manager", "a,b", "true {manager}"),
        ],
        check=True,
        capture_output=True,
    )
    theirs = json.loads(exported.read_text())["results"][0]
    ours = to_hyperfine(usual())["results"][0]
    assert ours.keys() - {"memory_usage_byte"} == theirs.keys() - {"memory_usage_byte"}
    for key, value in theirs.items():
        assert type(ours[key]) is type(value), key
